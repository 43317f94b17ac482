//! Requests to tasks, and the replies to them.

use super::{
    super::{calendar::Event, law::exponential},
    Engine,
    pool::{Admission, Caller, Request},
    threads::{Step, Thread},
};
use crate::model::{CallKind, EntryId, Role};

impl Engine<'_> {
    /// Makes all calls of a phase. What comes then is the phase's end.
    pub(super) fn fork(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        state.next = Step::Choose;
        let (entry, phase) = (state.entry.0, state.phase);
        let quorum = self.plans[entry][phase].quorum.unwrap_or(0);
        let caller = self.wait_for(thread, quorum);
        for place in 0..self.plans[entry][phase].calls.len() {
            let (target, kind, _) = self.plans[entry][phase].calls[place];
            self.request(target, (kind == CallKind::Synchronous).then_some(caller));
        }
    }

    pub(super) fn wait_for(&mut self, thread: u32, replies: u32) -> Caller {
        let state = &mut self.threads[thread as usize];
        state.round += 1;
        state.awaited = replies;
        Caller {
            thread,
            round: state.round,
        }
    }

    fn answer(&mut self, caller: Option<Caller>) {
        let Some(Caller { thread, round }) = caller else {
            return;
        };
        let state = &mut self.threads[thread as usize];
        // Nobody waits for those beyond the quorum.
        if state.round != round || state.awaited == 0 {
            return;
        }
        state.awaited -= 1;
        if state.awaited == 0 {
            self.ready.push(thread);
        }
    }

    /// To the caller, or to whom the entry leaves it.
    pub(super) fn reply(&mut self, thread: u32) {
        let Thread { entry, caller, .. } = self.threads[thread as usize];
        self.entries[entry.0].replies += 1;
        let mut chance = self.rng_if(!self.model[entry].forwards.is_empty());
        for forward in &self.model[entry].forwards {
            if chance < forward.probability {
                return self.request(forward.target, caller);
            }
            chance -= forward.probability;
        }
        self.answer(caller);
    }

    fn rng_if(&mut self, wanted: bool) -> f64 {
        if wanted { self.rng.f64() } else { 0.0 }
    }

    pub(super) fn finish(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        let (task, entry) = (state.task, state.entry);
        let counts = &mut self.entries[entry.0];
        counts.served += 1;
        counts.service += self.now - state.accepted_at;
        let pool = &mut self.pools[task.0];
        pool.exit(self.now, self.model[entry].locking);
        if let Role::Reference { think_time } = self.model[task].role {
            state.next = Step::Run;
            let at = self.now + exponential(think_time, self.rng);
            return self.calendar.schedule(at, Event::Rested(thread));
        }
        pool.free.push(thread);
        // A writer that leaves may make room for several readers.
        while let Some(request) = self.pools[task.0].next() {
            self.accept(request);
        }
    }

    pub(super) fn request(&mut self, entry: EntryId, caller: Option<Caller>) {
        let request = Request {
            entry,
            locking: self.model[entry].locking,
            caller,
            at: self.now,
        };
        match self.pools[self.model[entry].task.0].admit(request) {
            Admission::Accepted => self.accept(request),
            Admission::Waits => {}
            Admission::Refused => {
                self.entries[entry.0].lost += 1;
                self.answer(caller);
            }
        }
    }

    fn accept(&mut self, request: Request) {
        let Request {
            entry,
            locking,
            caller,
            at,
        } = request;
        let counts = &mut self.entries[entry.0];
        counts.accepted += 1;
        counts.waiting += self.now - at;
        let task = self.model[entry].task;
        let pool = &mut self.pools[task.0];
        pool.enter(self.now, locking);
        let thread = match pool.free.pop() {
            Some(thread) => thread,
            None => self.new_thread(task, entry),
        };
        let state = &mut self.threads[thread as usize];
        state.entry = entry;
        state.caller = caller;
        state.accepted_at = self.now;
        self.begin_phase(thread, 0);
    }
}
