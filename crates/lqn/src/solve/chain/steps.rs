//! What happens at one moment: steps that take no time.

use std::mem;

use super::{
    moves::{Rules, State, take},
    places::{Place, PlaceId, Spot, Stage, THINKS},
};
use crate::model::{CallKind, CallOrder, EntryId, ProcessorId, Scheduling, TaskId};

/// What is still to happen at the same moment.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Request { entry: EntryId, caller: Option<u32> },
    BeginPhase(Spot),
    Slice { spot: Spot, holds_processor: bool },
    Choose { spot: Spot, holds_processor: bool },
    EndPhase(Spot),
    Release(TaskId),
    Free(ProcessorId),
}

/// A branch of what happens at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Branch {
    pub(super) chance: f64,
    pub(super) state: State,
    pub(super) busy: Vec<u16>,
    pub(super) running: Vec<u16>,
    pub(super) steps: Vec<Step>,
    pub(super) replies: Vec<EntryId>,
    pub(super) lost: Vec<EntryId>,
}

impl Rules<'_> {
    pub(super) fn take(&mut self, step: Step, mut branch: Branch, branches: &mut Vec<Branch>) {
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
            if self.is_queue(processor) && busy >= self.model[processor].multiplicity {
                return self.join(spot, branch, branches);
            }
            branch.running[processor.0] += 1;
        } else if self.is_outranked(spot, &branch) {
            self.put(&mut branch, spot, Stage::AwaitsProcessor);
            branch.steps.push(Step::Free(processor));
            return branches.push(branch);
        }
        self.start_stages(spot, branch, branches);
    }

    fn is_queue(&self, processor: ProcessorId) -> bool {
        match self.model[processor].scheduling {
            Scheduling::Fcfs | Scheduling::HeadOfLine | Scheduling::PreemptiveResume => true,
            Scheduling::Sharing { .. } | Scheduling::Delay => false,
        }
    }

    /// Whether a more urgent slice came while this one sent a request, and takes its processor.
    fn is_outranked(&self, spot: Spot, branch: &Branch) -> bool {
        let processor = self.processor(spot.entry);
        self.model[processor].scheduling == Scheduling::PreemptiveResume
            && self
                .most_urgent(processor, branch)
                .is_some_and(|priority| priority > self.priority(spot))
    }

    /// A slice comes while all servers are busy: it interrupts a less urgent one, or waits.
    fn join(&mut self, spot: Spot, mut branch: Branch, branches: &mut Vec<Branch>) {
        let processor = self.processor(spot.entry);
        let mut running = Vec::new();
        if self.model[processor].scheduling == Scheduling::PreemptiveResume {
            running.extend(branch.state.iter().copied().filter(|&id| {
                let Place { spot, stage } = self.places.get(id);
                matches!(stage, Stage::Runs(_)) && self.processor(spot.entry) == processor
            }));
        }
        let priority = |rules: &Self, id: PlaceId| rules.priority(rules.places.get(id).spot);
        let least = running.iter().map(|&id| priority(self, id)).min();
        if least.is_none_or(|least| least >= self.priority(spot)) {
            self.put(&mut branch, spot, Stage::AwaitsProcessor);
            return branches.push(branch);
        }
        running.retain(|&id| Some(priority(self, id)) == least);
        self.any_of(
            &running,
            branch,
            branches,
            |rules, place, mut branch, branches| {
                if let Stage::Runs(stage) = place.stage {
                    rules.put(&mut branch, place.spot, Stage::Interrupted(stage));
                }
                rules.start_stages(spot, branch, branches);
            },
        );
    }

    fn priority(&self, spot: Spot) -> u32 {
        self.model.priority(self.model[spot.entry].task)
    }

    /// The highest priority of those that wait for a processor.
    fn most_urgent(&self, processor: ProcessorId, branch: &Branch) -> Option<u32> {
        let mut places = branch.state.iter().map(|&id| self.places.get(id));
        // A state has the most urgent first.
        let first = places.find(|place| self.awaits(place, processor));
        first.map(|place| self.priority(place.spot))
    }

    fn awaits(&self, place: &Place, processor: ProcessorId) -> bool {
        matches!(place.stage, Stage::AwaitsProcessor | Stage::Interrupted(_))
            && self.processor(place.spot.entry) == processor
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
        let then = if goes_on && !is_cut_off {
            Step::BeginPhase(Spot {
                phase: next,
                calls_made: 0,
                caller: None,
                ..spot
            })
        } else if self.model[entry.task].is_reference() {
            self.think(entry.task)
        } else {
            Step::Release(entry.task)
        };
        if spot.phase == 0 {
            return self.reply(spot, then, branch, branches);
        }
        branch.steps.push(then);
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

    /// Replies or forwards. What the thread does then goes before what its caller does at the same moment.
    fn reply(&mut self, spot: Spot, then: Step, mut branch: Branch, branches: &mut Vec<Branch>) {
        branch.replies.push(spot.entry);
        let mut left = 1.0;
        for forward in &self.model[spot.entry].forwards {
            let mut branch = Branch {
                chance: branch.chance * forward.probability,
                ..branch.clone()
            };
            branch.steps.push(then);
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
            branch.steps.push(then);
            branches.push(branch);
        }
    }

    /// A thread is free: one of those that wait for it gets it.
    fn release(&mut self, task: TaskId, mut branch: Branch, branches: &mut Vec<Branch>) {
        branch.busy[task.0] -= 1;
        let waits = |rules: &Self, place: Place| {
            place.stage == Stage::AwaitsThread && rules.model[place.spot.entry].task == task
        };
        self.pick(branch, branches, waits, |_, place, mut branch, branches| {
            branch.busy[task.0] += 1;
            branch.steps.push(Step::BeginPhase(place.spot));
            branches.push(branch);
        });
    }

    /// A processor is free: one of those that wait for it gets it.
    fn free(&mut self, processor: ProcessorId, mut branch: Branch, branches: &mut Vec<Branch>) {
        branch.running[processor.0] -= 1;
        let most_urgent = self.most_urgent(processor, &branch);
        let waits = |rules: &Self, place: Place| {
            rules.awaits(&place, processor) && Some(rules.priority(place.spot)) == most_urgent
        };
        self.pick(
            branch,
            branches,
            waits,
            |rules, Place { spot, stage }, mut branch, branches| {
                branch.running[processor.0] += 1;
                if let Stage::Interrupted(stage) = stage {
                    rules.put(&mut branch, spot, Stage::Runs(stage));
                    return branches.push(branch);
                }
                rules.start_stages(spot, branch, branches);
            },
        );
    }

    /// Starts the first of those that wait or, if their order is of no interest, any of them.
    fn pick(
        &mut self,
        branch: Branch,
        branches: &mut Vec<Branch>,
        waits: impl Fn(&Self, Place) -> bool,
        start: impl Fn(&mut Self, Place, Branch, &mut Vec<Branch>),
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
        self.any_of(&waiting, branch, branches, start);
    }

    /// One of several requests, each as likely as another, leaves its place. Equal ones stand together.
    fn any_of(
        &mut self,
        requests: &[PlaceId],
        mut branch: Branch,
        branches: &mut Vec<Branch>,
        start: impl Fn(&mut Self, Place, Branch, &mut Vec<Branch>),
    ) {
        let mut rest = requests;
        while let Some(&id) = rest.first() {
            let count = rest.iter().take_while(|&&other| other == id).count();
            rest = &rest[count..];
            let mut picked = match rest.is_empty() {
                true => mem::take(&mut branch),
                false => branch.clone(),
            };
            picked.chance *= count as f64 / requests.len() as f64;
            take(&mut picked.state, id);
            start(self, self.places.get(id), picked, branches);
        }
    }
}
