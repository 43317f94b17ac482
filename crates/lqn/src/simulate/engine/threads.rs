//! What threads do from slice to slice.

use super::{
    super::{calendar::Event, law::exponential, queue::Slice},
    Engine,
    plan::Next,
    pool::Caller,
};
use crate::model::{EntryId, TaskId};

/// A thread, or a customer, at what it does.
pub(super) struct Thread {
    pub(super) task: TaskId,
    pub(super) entry: EntryId,
    pub(super) phase: usize,
    /// Calls made, in a fixed order.
    pub(super) calls_made: usize,
    pub(super) caller: Option<Caller>,
    /// Rounds of calls that it has waited for, and the replies that are missing in this one.
    pub(super) round: u64,
    pub(super) awaited: u32,
    pub(super) accepted_at: f64,
    pub(super) next: Step,
}

/// What a thread does when its time comes.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Step {
    /// Begins its reference entry.
    Run,
    /// Begins a slice.
    Slice,
    /// Chooses the next call.
    Choose,
}

impl Engine<'_> {
    pub(super) fn go_on(&mut self, thread: u32) {
        match self.threads[thread as usize].next {
            Step::Run => {
                let task = self.threads[thread as usize].task;
                self.pools[task.0].enter(self.now, None);
                self.threads[thread as usize].accepted_at = self.now;
                self.begin_phase(thread, 0);
            }
            Step::Slice => self.begin_slice(thread),
            Step::Choose => {
                let next = self.choose(thread);
                self.follow(thread, next);
            }
        }
    }

    pub(super) fn begin_phase(&mut self, thread: u32, phase: usize) {
        let state = &mut self.threads[thread as usize];
        state.phase = phase;
        state.calls_made = 0;
        let think_time = self.plans[state.entry.0][phase].think_time;
        if think_time > 0.0 {
            state.next = Step::Slice;
            let at = self.now + exponential(think_time, self.rng);
            return self.calendar.schedule(at, Event::Rested(thread));
        }
        self.begin_slice(thread);
    }

    fn begin_slice(&mut self, thread: u32) {
        let length = self.slice_length(thread);
        let state = &mut self.threads[thread as usize];
        state.next = Step::Choose;
        if length == 0.0 {
            return self.ready.push(thread);
        }
        let priority = self.model.priority(state.task);
        let slice = Slice {
            thread,
            priority,
            length,
        };
        let processor = self.processor_of(thread);
        self.stations[processor].arrive(self.now, slice, &mut self.calendar);
    }

    fn slice_length(&mut self, thread: u32) -> f64 {
        let state = &self.threads[thread as usize];
        self.plans[state.entry.0][state.phase]
            .slice
            .sample(self.rng)
    }

    /// A slice on a server of its own is done. A send leaves the processor to the thread.
    pub(super) fn served(&mut self, thread: u32) {
        let processor = self.processor_of(thread);
        if !self.stations[processor].ends(self.now, thread) {
            return;
        }
        let next = self.choose(thread);
        if let Next::Send(target) = next {
            self.request(target, None);
            let length = self.slice_length(thread);
            let station = &mut self.stations[processor];
            return station.stay(self.now, thread, length, &mut self.calendar);
        }
        self.stations[processor].leave(self.now, thread, &mut self.calendar);
        self.follow(thread, next);
    }

    /// What comes after a slice.
    fn choose(&mut self, thread: u32) -> Next {
        let state = &mut self.threads[thread as usize];
        let plan = &self.plans[state.entry.0][state.phase];
        let next = plan.next(state.calls_made, self.rng);
        state.calls_made += 1;
        next
    }

    fn follow(&mut self, thread: u32, next: Next) {
        match next {
            Next::Send(target) => {
                self.request(target, None);
                self.begin_slice(thread);
            }
            Next::Call(target) => {
                self.threads[thread as usize].next = Step::Slice;
                let caller = self.wait_for(thread, 1);
                self.request(target, Some(caller));
            }
            Next::Fork => self.fork(thread),
            Next::End => self.end_phase(thread),
        }
    }

    fn end_phase(&mut self, thread: u32) {
        let state = &self.threads[thread as usize];
        let (phase, entry) = (state.phase, &self.model[state.entry]);
        if phase == 0 {
            self.reply(thread);
        }
        if phase + 1 < entry.phases.len() {
            return self.begin_phase(thread, phase + 1);
        }
        self.finish(thread);
    }

    pub(super) fn new_thread(&mut self, task: TaskId, entry: EntryId) -> u32 {
        let number = u32::try_from(self.threads.len()).expect("memory ends before the numbers do");
        self.threads.push(Thread {
            task,
            entry,
            phase: 0,
            calls_made: 0,
            caller: None,
            round: 0,
            awaited: 0,
            accepted_at: 0.0,
            next: Step::Run,
        });
        number
    }

    fn processor_of(&self, thread: u32) -> usize {
        self.model[self.threads[thread as usize].task].processor.0
    }
}
