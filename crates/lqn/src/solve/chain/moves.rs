//! What can happen next in a state, and how often.

use fastrand::Rng;

use super::{
    Grain,
    places::{Place, PlaceId, Places, Spot, Stage, THINKS, is_thinking},
};
use crate::model::{CallKind, CallOrder, EntryId, Model, ProcessorId, Role, Scheduling, TaskId};

/// Branches less likely than this are left out.
const UNLIKELY: f64 = 1e-8;

/// Requests at places, one state of the chain: those not in wait, sorted; then those in wait for a
/// task or a processor, by what they wait for, in the order in which they came or, if that is of no interest, sorted.
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
    /// Somebody was chosen among several that were not alike.
    pub(super) is_order_chosen: bool,
    /// A slice varies less than its stages can tell.
    pub(super) are_stages_short: bool,
    /// Steps taken so far, those of no time too.
    pub(super) steps: u64,
}

/// A slice as exponential stages.
#[derive(Clone, Copy, Debug)]
struct Stages {
    /// Of stages 0, 1, ...: all have this rate, or in a hyperexponential slice, each its own.
    rates: [f64; 2],
    last: u8,
    /// The chance to begin at stage 1.
    skip: f64,
    is_sequence: bool,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wait {
    None,
    Thread(TaskId),
    Processor(ProcessorId),
}

/// What is still to happen at the same moment.
#[derive(Clone, Copy, Debug)]
enum Step {
    Request { entry: EntryId, caller: Option<u32> },
    BeginPhase(Spot),
    Slice { spot: Spot, holds_processor: bool },
    Choose { spot: Spot, holds_processor: bool },
    EndPhase(Spot),
    Release(TaskId),
    Free(ProcessorId),
}

/// A branch of what happens at one moment.
#[derive(Clone, Debug)]
struct Branch {
    chance: f64,
    state: State,
    busy: Vec<u16>,
    running: Vec<u16>,
    steps: Vec<Step>,
    replies: Vec<EntryId>,
    lost: Vec<EntryId>,
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
        self.places.id(Place {
            spot,
            stage: Stage::Rests,
        })
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
            Scheduling::Fcfs | Scheduling::Delay | Scheduling::Sharing { .. } => 1.0,
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
            Stage::AwaitsThread | Stage::AwaitsProcessor => return,
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
            for entry in self.places.held(self.model, id) {
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

    fn take(&mut self, step: Step, mut branch: Branch, branches: &mut Vec<Branch>) {
        self.steps += 1;
        match step {
            Step::Request { entry, caller } => {
                self.request(entry, caller, &mut branch);
                branches.push(branch);
            }
            Step::BeginPhase(spot) => {
                let phase = &self.model[spot.entry].phases[usize::from(spot.phase)];
                if spot.calls_made == THINKS || phase.think_time > 0.0 {
                    self.put(&mut branch, spot, Stage::Rests);
                } else {
                    branch.steps.push(Step::Slice {
                        spot,
                        holds_processor: false,
                    });
                }
                branches.push(branch);
            }
            Step::Slice {
                spot,
                holds_processor,
            } => self.slice(spot, holds_processor, branch, branches),
            Step::Choose {
                spot,
                holds_processor,
            } => self.choose(spot, holds_processor, branch, branches),
            Step::EndPhase(spot) => self.end_phase(spot, branch, branches),
            Step::Release(task) => self.release(task, branch, branches),
            Step::Free(processor) => self.free(processor, branch, branches),
        }
    }

    fn request(&mut self, entry: EntryId, caller: Option<u32>, branch: &mut Branch) {
        let task = self.model[entry].task;
        let spot = Spot {
            entry,
            phase: 0,
            calls_made: 0,
            caller,
        };
        let threads = self.model[task].multiplicity.finite();
        let is_free = threads.is_none_or(|threads| u32::from(branch.busy[task.0]) < threads);
        if caller.is_none() && !self.has_room(entry, is_free, branch) {
            branch.lost.push(entry);
        } else if is_free {
            branch.busy[task.0] += 1;
            branch.steps.push(Step::BeginPhase(spot));
        } else {
            self.put(branch, spot, Stage::AwaitsThread);
        }
    }

    /// Whether a request that nobody waits for is let in.
    fn has_room(&self, entry: EntryId, is_free: bool, branch: &Branch) -> bool {
        let task = self.model[entry].task;
        let is_unlimited = self.model[task].multiplicity.finite().is_none();
        let counts = |id: &&PlaceId| {
            let Place { spot, stage } = self.places.get(**id);
            let is_wait = stage == Stage::AwaitsThread && spot.caller.is_none();
            (is_unlimited || is_wait) && self.model[self.places.root(spot).entry].task == task
        };
        let waiting = branch.state.iter().filter(counts).count();
        let room = self.model[task]
            .queue_length
            .map_or(self.grain.stream, |length| {
                (length as usize).min(self.grain.stream)
            });
        (is_free && !is_unlimited) || waiting < room
    }

    fn slice(
        &mut self,
        spot: Spot,
        holds_processor: bool,
        mut branch: Branch,
        branches: &mut Vec<Branch>,
    ) {
        if self.slice_mean(spot) == 0.0 {
            branch.steps.push(Step::Choose {
                spot,
                holds_processor,
            });
            return branches.push(branch);
        }
        let processor = self.processor(spot.entry);
        if !holds_processor {
            let busy = u32::from(branch.running[processor.0]);
            if self.model[processor].scheduling == Scheduling::Fcfs
                && busy >= self.model[processor].multiplicity
            {
                self.put(&mut branch, spot, Stage::AwaitsProcessor);
                return branches.push(branch);
            }
            branch.running[processor.0] += 1;
        }
        self.start_stages(spot, branch, branches);
    }

    fn start_stages(&mut self, spot: Spot, mut branch: Branch, branches: &mut Vec<Branch>) {
        let stages = self.stages(spot);
        self.are_stages_short |= stages.last + 1 == self.grain.stages;
        if stages.skip > 0.0 {
            let mut skipping = Branch {
                chance: branch.chance * stages.skip,
                ..branch.clone()
            };
            self.put(&mut skipping, spot, Stage::Runs(1));
            branches.push(skipping);
            branch.chance *= 1.0 - stages.skip;
        }
        self.put(&mut branch, spot, Stage::Runs(0));
        branches.push(branch);
    }

    fn choose(
        &mut self,
        spot: Spot,
        holds_processor: bool,
        branch: Branch,
        branches: &mut Vec<Branch>,
    ) {
        let model = self.model;
        let phase = &model[spot.entry].phases[usize::from(spot.phase)];
        match phase.order {
            CallOrder::Stochastic => {
                let total = 1.0 + phase.calls_mean();
                for call in phase.calls.iter().filter(|call| call.mean > 0.0) {
                    let chance = branch.chance * call.mean / total;
                    let branch = Branch {
                        chance,
                        ..branch.clone()
                    };
                    branches.push(self.call(spot, call.target, call.kind, holds_processor, branch));
                }
                let chance = branch.chance / total;
                branches.push(self.end(spot, holds_processor, Branch { chance, ..branch }));
            }
            CallOrder::Deterministic => {
                let mut left = f64::from(spot.calls_made);
                let next = phase.calls.iter().find(|call| {
                    left -= call.mean;
                    left < 0.0
                });
                let after = Spot {
                    calls_made: spot.calls_made + 1,
                    ..spot
                };
                branches.push(match next {
                    Some(call) => self.call(after, call.target, call.kind, holds_processor, branch),
                    None => self.end(spot, holds_processor, branch),
                });
            }
        }
    }

    fn call(
        &mut self,
        spot: Spot,
        entry: EntryId,
        kind: CallKind,
        holds_processor: bool,
        mut branch: Branch,
    ) -> Branch {
        if kind == CallKind::Asynchronous {
            branch.steps.push(Step::Slice {
                spot,
                holds_processor,
            });
            if self.is_inside[entry.0] {
                branch.steps.push(Step::Request {
                    entry,
                    caller: None,
                });
            }
            return branch;
        }
        let caller = Some(self.places.caller_id(spot));
        branch.steps.push(Step::Request { entry, caller });
        self.leave_processor(spot, holds_processor, &mut branch);
        branch
    }

    fn end(&self, spot: Spot, holds_processor: bool, mut branch: Branch) -> Branch {
        branch.steps.push(Step::EndPhase(spot));
        self.leave_processor(spot, holds_processor, &mut branch);
        branch
    }

    fn leave_processor(&self, spot: Spot, holds_processor: bool, branch: &mut Branch) {
        if holds_processor {
            branch.steps.push(Step::Free(self.processor(spot.entry)));
        }
    }

    fn end_phase(&mut self, spot: Spot, mut branch: Branch, branches: &mut Vec<Branch>) {
        let entry = &self.model[spot.entry];
        let next = spot.phase + 1;
        let goes_on = usize::from(next) < entry.phases.len();
        let is_cut_off = goes_on && !self.has_room_after_reply(spot, &branch);
        if is_cut_off {
            branch.lost.push(spot.entry);
        }
        if goes_on && !is_cut_off {
            let spot = Spot {
                phase: next,
                calls_made: 0,
                caller: None,
                ..spot
            };
            branch.steps.push(Step::BeginPhase(spot));
        } else if self.model[entry.task].is_reference() {
            let step = self.think(entry.task);
            branch.steps.push(step);
        } else {
            branch.steps.push(Step::Release(entry.task));
        }
        if spot.phase == 0 {
            return self.reply(spot, branch, branches);
        }
        branches.push(branch);
    }

    /// Whether the phases after the reply are let in: those of an infinite task are as many as its requests.
    fn has_room_after_reply(&self, spot: Spot, branch: &Branch) -> bool {
        let task = self.model[spot.entry].task;
        let is_after = |id: &&PlaceId| {
            let root = self.places.root(self.places.get(**id).spot);
            root.phase > 0 && self.model[root.entry].task == task
        };
        self.model[task].multiplicity.finite().is_some()
            || branch.state.iter().filter(is_after).count() < self.grain.stream
    }

    fn reply(&mut self, spot: Spot, mut branch: Branch, branches: &mut Vec<Branch>) {
        branch.replies.push(spot.entry);
        let mut left = 1.0;
        for forward in &self.model[spot.entry].forwards {
            let mut branch = Branch {
                chance: branch.chance * forward.probability,
                ..branch.clone()
            };
            branch.steps.push(Step::Request {
                entry: forward.target,
                caller: spot.caller,
            });
            branches.push(branch);
            left -= forward.probability;
        }
        if left > 1e-12 {
            branch.chance *= left;
            if let Some(caller) = spot.caller {
                let spot = self.places.caller(caller);
                branch.steps.push(Step::Slice {
                    spot,
                    holds_processor: false,
                });
            }
            branches.push(branch);
        }
    }

    /// A thread is free: one of those that wait for it gets it.
    fn release(&mut self, task: TaskId, mut branch: Branch, branches: &mut Vec<Branch>) {
        branch.busy[task.0] -= 1;
        let waits = |rules: &Self, place: Place| {
            place.stage == Stage::AwaitsThread && rules.model[place.spot.entry].task == task
        };
        self.pick(branch, branches, waits, |_, spot, mut branch, branches| {
            branch.busy[task.0] += 1;
            branch.steps.push(Step::BeginPhase(spot));
            branches.push(branch);
        });
    }

    /// A processor is free: one of those that wait for it gets it.
    fn free(&mut self, processor: ProcessorId, mut branch: Branch, branches: &mut Vec<Branch>) {
        branch.running[processor.0] -= 1;
        let waits = |rules: &Self, place: Place| {
            place.stage == Stage::AwaitsProcessor && rules.processor(place.spot.entry) == processor
        };
        self.pick(
            branch,
            branches,
            waits,
            |rules, spot, mut branch, branches| {
                branch.running[processor.0] += 1;
                rules.start_stages(spot, branch, branches);
            },
        );
    }

    fn pick(
        &mut self,
        branch: Branch,
        branches: &mut Vec<Branch>,
        waits: impl Fn(&Self, Place) -> bool,
        start: impl Fn(&mut Self, Spot, Branch, &mut Vec<Branch>),
    ) {
        let mut waiting: Vec<PlaceId> = branch
            .state
            .iter()
            .copied()
            .filter(|&id| waits(self, self.places.get(id)))
            .collect();
        if waiting.is_empty() {
            return branches.push(branch);
        }
        self.is_order_chosen |= waiting.iter().any(|&id| id != waiting[0]);
        if self.grain.is_ordered {
            waiting.truncate(1);
        }
        let mut rest = waiting.as_slice();
        while let Some(&id) = rest.first() {
            let count = rest.iter().take_while(|&&other| other == id).count();
            rest = &rest[count..];
            let mut picked = branch.clone();
            picked.chance *= count as f64 / waiting.len() as f64;
            take(&mut picked.state, id);
            start(self, self.places.get(id).spot, picked, branches);
        }
    }

    fn think(&mut self, task: TaskId) -> Step {
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
            Role::Reference { .. } | Role::Server => spot,
        })
    }

    fn put(&mut self, branch: &mut Branch, spot: Spot, stage: Stage) {
        let id = self.places.id(Place { spot, stage });
        let rank = self.rank(id);
        let at = branch
            .state
            .partition_point(|&other| self.rank(other) <= rank);
        branch.state.insert(at, id);
    }

    /// What decides where in a state a request stands.
    fn rank(&self, id: PlaceId) -> (Wait, PlaceId) {
        let Place { spot, stage } = self.places.get(id);
        let wait = match stage {
            Stage::Rests | Stage::Runs(_) => return (Wait::None, id),
            Stage::AwaitsThread => Wait::Thread(self.model[spot.entry].task),
            Stage::AwaitsProcessor => Wait::Processor(self.processor(spot.entry)),
        };
        (wait, if self.grain.is_ordered { 0 } else { id })
    }

    fn processor(&self, entry: EntryId) -> ProcessorId {
        self.model[self.model[entry].task].processor
    }

    fn slice_mean(&self, spot: Spot) -> f64 {
        let phase = usize::from(spot.phase);
        self.model.demand(spot.entry, phase)
            / (1.0 + self.model[spot.entry].phases[phase].calls_mean())
    }

    fn stages(&self, spot: Spot) -> Stages {
        let cvsq = self.model[spot.entry].phases[usize::from(spot.phase)].cvsq;
        Stages::new(self.slice_mean(spot), cvsq, self.grain.stages)
    }
}

impl Stages {
    fn new(mean: f64, cvsq: f64, stages_max: u8) -> Self {
        if cvsq > 1.0 {
            let first = 0.5 * (1.0 + ((cvsq - 1.0) / (cvsq + 1.0)).sqrt());
            let rates = [2.0 * first / mean, 2.0 * (1.0 - first) / mean];
            return Self {
                rates,
                last: 1,
                skip: 1.0 - first,
                is_sequence: false,
            };
        }
        let cvsq = cvsq.max(1.0 / f64::from(stages_max));
        // k stages, or with some chance one less (Tijms 1994).
        let k = (1.0 / cvsq - 1e-9).ceil().max(1.0);
        let skip = (k * cvsq - (k * (1.0 + cvsq) - k * k * cvsq).max(0.0).sqrt()) / (1.0 + cvsq);
        let skip = if k == 1.0 { 0.0 } else { skip };
        let rate = (k - skip) / mean;
        Self {
            rates: [rate, rate],
            last: k as u8 - 1,
            skip,
            is_sequence: true,
        }
    }

    fn rate(&self, stage: u8) -> f64 {
        self.rates[usize::from(stage.min(1))]
    }
}

/// Takes the first of the requests at a place.
fn take(state: &mut State, id: PlaceId) {
    if let Some(at) = state.iter().position(|&other| other == id) {
        state.remove(at);
    }
}
