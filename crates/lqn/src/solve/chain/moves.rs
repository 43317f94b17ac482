//! The transitions from a state, with their rates.

use fastrand::Rng;

use super::{
    Grain,
    places::{Place, PlaceId, Places, Spot, Stage, THINKS, Wait, is_thinking},
    stages::Stages,
    steps::{Branch, Step},
};
use crate::model::{EntryId, Model, ProcessorId, Role, Scheduling, TaskId};

/// Branches less likely than this are left out.
const UNLIKELY: f64 = 1e-8;

/// Requests at places, one state of the chain: those not in wait, sorted; then those in wait for a
/// task or a processor, by what they wait for and how urgent they are, in the order in which they came or, if that is
/// of no interest, sorted.
pub(super) type State = Vec<PlaceId>;

/// A way out of a state.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub(super) rate: f64,
    pub(super) to: State,
    /// Entries that replied on the way.
    pub(super) replies: Vec<EntryId>,
    /// Entries that turned a request away on the way.
    pub(super) lost: Vec<EntryId>,
}

/// The rules by which requests move.
pub(super) struct Rules<'a> {
    pub(super) model: &'a Model,
    pub(super) places: Places,
    /// Requests per unit of time from outside of the part, by entry.
    pub(super) arrivals: Vec<(EntryId, f64)>,
    /// Whether sends to the entry stay in the part.
    pub(super) is_inside: Vec<bool>,
    pub(super) grain: Grain,
    /// A request was chosen among several that were not alike.
    pub(super) is_order_chosen: bool,
    /// A slice varies less than its stages can tell.
    pub(super) are_stages_short: bool,
    /// Steps taken so far, those of no time too.
    pub(super) steps: u64,
}

impl<'a> Rules<'a> {
    pub(super) fn new(
        model: &'a Model,
        arrivals: Vec<(EntryId, f64)>,
        is_inside: Vec<bool>,
        grain: Grain,
    ) -> Self {
        Self {
            model,
            places: Places::default(),
            arrivals,
            is_inside,
            grain,
            is_order_chosen: false,
            are_stages_short: false,
            steps: 0,
        }
    }

    /// Where all customers begin: about to think.
    pub(super) fn start(&mut self, references: &[TaskId]) -> State {
        let mut steps = Vec::new();
        for &task in references {
            let customers = self.model[task].multiplicity.finite().unwrap_or(0);
            steps.extend((0..customers).map(|_| self.think(task)));
        }
        self.settled(steps)
    }

    /// Where one customer begins.
    pub(super) fn start_alone(&mut self, task: TaskId) -> State {
        let step = self.think(task);
        self.settled(vec![step])
    }

    /// Where a customer thinks.
    pub(super) fn thinking(&mut self, task: TaskId) -> PlaceId {
        let spot = Spot {
            entry: self.model[task].entries[0],
            phase: 0,
            calls_made: THINKS,
            caller: None,
        };
        let place = Place {
            spot,
            stage: Stage::Rests,
        };
        self.places.id(self.model, place)
    }

    /// A state that these steps lead to from nothing, one of many: the long run is the same from each.
    fn settled(&mut self, steps: Vec<Step>) -> State {
        let mut chance = Rng::with_seed(1);
        let mut branch = Branch {
            steps,
            ..self.branch(&Vec::new())
        };
        while let Some(step) = branch.steps.pop() {
            let mut branches = Vec::new();
            self.take(step, branch, &mut branches);
            let all: f64 = branches.iter().map(|branch| branch.chance).sum();
            let mut left = chance.f64() * all;
            let chosen = branches.iter().position(|branch| {
                left -= branch.chance;
                left < 0.0
            });
            branch = branches.swap_remove(chosen.unwrap_or(0));
            branch.chance = 1.0;
        }
        branch.state
    }

    /// All ways out of a state.
    pub(super) fn moves(&mut self, state: &State) -> Vec<Move> {
        let mut moves = Vec::new();
        let sharing = self.sharing(state);
        let here = self.branch(state);
        let mut rest = state.as_slice();
        while let Some(&id) = rest.first() {
            let count = rest.iter().take_while(|&&other| other == id).count();
            rest = &rest[count..];
            self.leave(&here, id, count as f64, &sharing, &mut moves);
        }
        for place in 0..self.arrivals.len() {
            let (entry, rate) = self.arrivals[place];
            let mut branch = Branch {
                chance: rate,
                ..here.clone()
            };
            branch.steps.push(Step::Request {
                entry,
                caller: None,
            });
            self.settle(branch, &mut moves);
        }
        moves.retain(|found| found.rate > 0.0);
        moves
    }

    /// What each slice gets of its sharing processor.
    fn sharing(&self, state: &State) -> Vec<f64> {
        let mut running = vec![0_u32; self.model.processors.len()];
        for &id in state {
            let Place { spot, stage } = self.places.get(id);
            if let Stage::Runs(_) = stage {
                running[self.processor(spot.entry).0] += 1;
            }
        }
        let share = |(count, processor): (u32, &crate::model::Processor)| match processor.scheduling
        {
            Scheduling::Sharing { .. } if count > processor.multiplicity => {
                f64::from(processor.multiplicity) / f64::from(count)
            }
            Scheduling::Fcfs
            | Scheduling::HeadOfLine
            | Scheduling::PreemptiveResume
            | Scheduling::Delay
            | Scheduling::Sharing { .. } => 1.0,
        };
        running
            .into_iter()
            .zip(&self.model.processors)
            .map(share)
            .collect()
    }

    /// One of `count` requests at a place moves on.
    fn leave(
        &mut self,
        here: &Branch,
        id: PlaceId,
        count: f64,
        sharing: &[f64],
        moves: &mut Vec<Move>,
    ) {
        let Place { spot, stage } = self.places.get(id);
        let (rate, step, next) = match stage {
            Stage::AwaitsThread | Stage::AwaitsProcessor | Stage::Interrupted(_) => return,
            Stage::Rests if is_thinking(spot, stage) => {
                let task = self.model[spot.entry].task;
                let begin = Spot {
                    calls_made: 0,
                    ..spot
                };
                (
                    1.0 / self.model[task].think_time(),
                    Some(Step::BeginPhase(begin)),
                    None,
                )
            }
            Stage::Rests => {
                let think_time = self.model[spot.entry].phases[usize::from(spot.phase)].think_time;
                let begin = Step::Slice {
                    spot,
                    holds_processor: false,
                };
                (1.0 / think_time, Some(begin), None)
            }
            Stage::Runs(at) => {
                let stages = self.stages(spot);
                let share = sharing[self.processor(spot.entry).0];
                let rate = share * stages.rate(at);
                if stages.is_sequence && at < stages.last {
                    (rate, None, Some(Stage::Runs(at + 1)))
                } else {
                    (
                        rate,
                        Some(Step::Choose {
                            spot,
                            holds_processor: true,
                        }),
                        None,
                    )
                }
            }
        };
        let mut branch = Branch {
            chance: count * rate,
            ..here.clone()
        };
        take(&mut branch.state, id);
        if let Some(stage) = next {
            self.put(&mut branch, spot, stage);
        }
        branch.steps.extend(step);
        self.settle(branch, moves);
    }

    fn branch(&self, state: &State) -> Branch {
        let mut branch = Branch {
            chance: 1.0,
            state: state.clone(),
            busy: vec![0; self.model.tasks.len()],
            running: vec![0; self.model.processors.len()],
            steps: Vec::new(),
            replies: Vec::new(),
            lost: Vec::new(),
        };
        for &id in state {
            for &entry in self.places.held(id) {
                branch.busy[self.model[entry].task.0] += 1;
            }
            let Place { spot, stage } = self.places.get(id);
            if let Stage::Runs(_) = stage {
                branch.running[self.processor(spot.entry).0] += 1;
            }
        }
        branch
    }

    /// Takes all steps that take no time.
    fn settle(&mut self, branch: Branch, moves: &mut Vec<Move>) {
        let rate = branch.chance;
        let mut branches = vec![branch];
        let first = moves.len();
        let mut kept = 0.0;
        while let Some(mut branch) = branches.pop() {
            let Some(step) = branch.steps.pop() else {
                kept += branch.chance;
                let Branch {
                    chance,
                    state,
                    replies,
                    lost,
                    ..
                } = branch;
                moves.push(Move {
                    rate: chance,
                    to: state,
                    replies,
                    lost,
                });
                continue;
            };
            if branch.chance < rate * UNLIKELY {
                continue;
            }
            self.take(step, branch, &mut branches);
        }
        for found in &mut moves[first..] {
            found.rate *= rate / kept;
        }
    }

    pub(super) fn think(&mut self, task: TaskId) -> Step {
        let spot = Spot {
            entry: self.model[task].entries[0],
            phase: 0,
            calls_made: 0,
            caller: None,
        };
        Step::BeginPhase(match self.model[task].role {
            Role::Reference { think_time } if think_time > 0.0 => Spot {
                calls_made: THINKS,
                ..spot
            },
            Role::Reference { .. }
            | Role::Server
            | Role::Semaphore { .. }
            | Role::ReadWriteLock => spot,
        })
    }

    pub(super) fn put(&mut self, branch: &mut Branch, spot: Spot, stage: Stage) {
        let id = self.places.id(self.model, Place { spot, stage });
        let rank = self.rank(id);
        let at = branch
            .state
            .partition_point(|&other| self.rank(other) <= rank);
        branch.state.insert(at, id);
    }

    /// What decides where in a state a request stands.
    fn rank(&self, id: PlaceId) -> (Wait, PlaceId) {
        let wait = self.places.wait(id);
        let is_in_order = wait != Wait::None && self.grain.is_ordered;
        (wait, if is_in_order { 0 } else { id })
    }

    pub(super) fn processor(&self, entry: EntryId) -> ProcessorId {
        self.model[self.model[entry].task].processor
    }

    pub(super) fn slice_mean(&self, spot: Spot) -> f64 {
        let phase = usize::from(spot.phase);
        self.model.demand(spot.entry, phase)
            / (1.0 + self.model[spot.entry].phases[phase].calls_mean())
    }

    pub(super) fn stages(&self, spot: Spot) -> Stages {
        let cvsq = self.model[spot.entry].phases[usize::from(spot.phase)].cvsq;
        Stages::new(self.slice_mean(spot), cvsq, self.grain.stages)
    }
}

/// Takes the first of the requests at a place.
pub(super) fn take(state: &mut State, id: PlaceId) {
    if let Some(at) = state.iter().position(|&other| other == id) {
        state.remove(at);
    }
}
