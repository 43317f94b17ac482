//! Threads, their requests, and the next event.

use std::collections::VecDeque;

use super::{
    calendar::{Calendar, Event},
    law::{Law, exponential},
    processor::Station,
    tally::{Counts, EntryCounts},
};
use crate::{
    QUEUE_MAX,
    model::{CallKind, CallOrder, EntryId, Model, Phase, Role, Task, TaskId},
};

/// A model on its way through time.
pub(super) struct Engine<'a> {
    model: &'a Model,
    rng: &'a mut fastrand::Rng,
    /// By entry, then phase.
    plans: Vec<Vec<Plan>>,
    threads: Vec<Thread>,
    pools: Vec<Pool>,
    stations: Vec<Station>,
    calendar: Calendar,
    /// Threads that go on at this moment.
    ready: Vec<u32>,
    now: f64,
    events: u64,
    entries: Vec<EntryCounts>,
}

/// How a phase goes.
struct Plan {
    slice: Law,
    think_time: f64,
    order: CallOrder,
    quorum: Option<u32>,
    /// Each with the chance that it or one before it comes next.
    calls: Vec<(EntryId, CallKind, f64)>,
}

struct Thread {
    task: TaskId,
    entry: EntryId,
    phase: usize,
    /// Calls made, in a fixed order.
    calls_made: usize,
    caller: Option<Caller>,
    /// Rounds of calls that it has waited for, and the replies that are missing in this one.
    round: u64,
    awaited: u32,
    accepted_at: f64,
    next: Step,
}

/// What a thread does when its time comes.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    /// Begins its reference entry.
    Run,
    /// Begins a slice.
    Slice,
    /// Chooses the next call.
    Choose,
}

/// What comes after a slice.
enum Next {
    Send(EntryId),
    Call(EntryId),
    /// All calls at once.
    Fork,
    End,
}

/// A task's threads.
struct Pool {
    /// None: as many as there are requests.
    idle: Option<usize>,
    free: Vec<u32>,
    waiting: VecDeque<Request>,
    waiting_async: usize,
    queue_max: usize,
    busy: usize,
    since: f64,
    busy_time: f64,
}

struct Request {
    entry: EntryId,
    caller: Option<Caller>,
    at: f64,
}

/// Who waits for a reply, and in which round of calls: a fork may go on before all have replied.
#[derive(Clone, Copy)]
struct Caller {
    thread: u32,
    round: u64,
}

impl<'a> Engine<'a> {
    pub(super) fn new(model: &'a Model, rng: &'a mut fastrand::Rng) -> Self {
        let plans = (0..model.entries.len()).map(EntryId).map(|entry| {
            let phases = model[entry].phases.iter().enumerate();
            phases
                .map(|(place, phase)| Plan::new(model.demand(entry, place), phase))
                .collect()
        });
        let stations = model.processors.iter().zip(0..);
        let mut engine = Self {
            model,
            plans: plans.collect(),
            threads: Vec::new(),
            pools: model.tasks.iter().map(Pool::new).collect(),
            stations: stations
                .map(|(processor, number)| Station::new(number, processor))
                .collect(),
            calendar: Calendar::default(),
            ready: Vec::new(),
            now: 0.0,
            events: 0,
            entries: vec![EntryCounts::default(); model.entries.len()],
            rng,
        };
        engine.begin();
        engine
    }

    /// All customers think, and the first requests from outside are on their way.
    fn begin(&mut self) {
        for (place, task) in self.model.tasks.iter().enumerate() {
            let Role::Reference { think_time } = task.role else {
                continue;
            };
            for _ in 0..task.multiplicity.finite().unwrap_or(0) {
                let thread = self.new_thread(TaskId(place), task.entries[0]);
                let at = exponential(think_time, self.rng);
                self.calendar.schedule(at, Event::Rested(thread));
            }
        }
        for (place, entry) in (0..).zip(&self.model.entries) {
            if entry.open_arrival_rate > 0.0 {
                let at = exponential(1.0 / entry.open_arrival_rate, self.rng);
                self.calendar.schedule(at, Event::Arrival(place));
            }
        }
    }

    pub(super) fn now(&self) -> f64 {
        self.now
    }

    pub(super) fn events(&self) -> u64 {
        self.events
    }

    pub(super) fn run_events(&mut self, events: u64) {
        for _ in 0..events {
            self.step();
        }
    }

    pub(super) fn run_until(&mut self, end: f64) {
        while self.calendar.next_at().is_some_and(|at| at <= end) {
            self.step();
        }
        self.now = end;
    }

    pub(super) fn start_batch(&mut self) {
        self.counts();
        self.entries.fill(EntryCounts::default());
    }

    /// What happened since the batch began.
    pub(super) fn counts(&mut self) -> (&'a Model, Counts) {
        let now = self.now;
        let counts = Counts {
            entries: self.entries.clone(),
            task_time: self
                .pools
                .iter_mut()
                .map(|pool| pool.take_busy_time(now))
                .collect(),
            processor_time: self
                .stations
                .iter_mut()
                .map(|station| station.take_busy_time(now))
                .collect(),
        };
        (self.model, counts)
    }

    fn step(&mut self) {
        let Some((at, event)) = self.calendar.pop() else {
            return;
        };
        self.now = at;
        self.events += 1;
        match event {
            Event::Rested(thread) => self.ready.push(thread),
            Event::Served(thread) => self.served(thread),
            Event::Shared { processor, version } => {
                let station = &mut self.stations[processor as usize];
                self.ready
                    .extend(station.shared(at, version, &mut self.calendar));
            }
            Event::Arrival(place) => {
                let entry = EntryId(place as usize);
                let mean = 1.0 / self.model[entry].open_arrival_rate;
                let next = at + exponential(mean, self.rng);
                self.calendar.schedule(next, Event::Arrival(place));
                self.request(entry, None);
            }
        }
        while let Some(thread) = self.ready.pop() {
            self.go_on(thread);
        }
    }

    fn go_on(&mut self, thread: u32) {
        match self.threads[thread as usize].next {
            Step::Run => {
                let task = self.threads[thread as usize].task;
                self.pools[task.0].count(self.now, 1);
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

    fn begin_phase(&mut self, thread: u32, phase: usize) {
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
        let processor = self.processor_of(thread);
        self.stations[processor].arrive(self.now, thread, length, &mut self.calendar);
    }

    fn slice_length(&mut self, thread: u32) -> f64 {
        let state = &self.threads[thread as usize];
        self.plans[state.entry.0][state.phase]
            .slice
            .sample(self.rng)
    }

    /// A slice on a server of its own is done. A send leaves the processor to the thread.
    fn served(&mut self, thread: u32) {
        let next = self.choose(thread);
        if let Next::Send(target) = next {
            self.request(target, None);
            let at = self.now + self.slice_length(thread);
            return self.calendar.schedule(at, Event::Served(thread));
        }
        let processor = self.processor_of(thread);
        self.stations[processor].leave(self.now, &mut self.calendar);
        self.follow(thread, next);
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

    /// Makes all calls of a phase. What comes then is the phase's end.
    fn fork(&mut self, thread: u32) {
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

    fn wait_for(&mut self, thread: u32, replies: u32) -> Caller {
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

    /// What comes after a slice.
    fn choose(&mut self, thread: u32) -> Next {
        let state = &mut self.threads[thread as usize];
        let plan = &self.plans[state.entry.0][state.phase];
        if plan.quorum.is_some() {
            state.calls_made += 1;
            return if state.calls_made == 1 {
                Next::Fork
            } else {
                Next::End
            };
        }
        let next = match plan.order {
            CallOrder::Stochastic if plan.calls.is_empty() => None,
            CallOrder::Stochastic => {
                let chance = self.rng.f64();
                plan.calls.iter().find(|call| chance < call.2)
            }
            CallOrder::Deterministic => plan.calls.get(state.calls_made),
        };
        state.calls_made += 1;
        match next {
            Some(&(target, CallKind::Asynchronous, _)) => Next::Send(target),
            Some(&(target, CallKind::Synchronous, _)) => Next::Call(target),
            None => Next::End,
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

    /// To the caller, or to whom the entry leaves it.
    fn reply(&mut self, thread: u32) {
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

    fn finish(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        let (task, entry) = (state.task, state.entry);
        let counts = &mut self.entries[entry.0];
        counts.served += 1;
        counts.service += self.now - state.accepted_at;
        let pool = &mut self.pools[task.0];
        if let Role::Reference { think_time } = self.model[task].role {
            state.next = Step::Run;
            pool.count(self.now, -1);
            let at = self.now + exponential(think_time, self.rng);
            return self.calendar.schedule(at, Event::Rested(thread));
        }
        pool.free.push(thread);
        if let Some(request) = pool.waiting.pop_front() {
            pool.waiting_async -= usize::from(request.caller.is_none());
            return self.accept(request);
        }
        pool.count(self.now, -1);
        if let Some(idle) = &mut pool.idle {
            *idle += 1;
        }
    }

    fn request(&mut self, entry: EntryId, caller: Option<Caller>) {
        let request = Request {
            entry,
            caller,
            at: self.now,
        };
        let pool = &mut self.pools[self.model[entry].task.0];
        match &mut pool.idle {
            Some(0) if caller.is_none() && pool.waiting_async >= pool.queue_max => {
                self.entries[entry.0].lost += 1;
            }
            Some(0) => {
                pool.waiting_async += usize::from(caller.is_none());
                pool.waiting.push_back(request);
            }
            idle => {
                if let Some(idle) = idle {
                    *idle -= 1;
                }
                pool.count(self.now, 1);
                self.accept(request);
            }
        }
    }

    fn accept(&mut self, request: Request) {
        let Request { entry, caller, at } = request;
        let counts = &mut self.entries[entry.0];
        counts.accepted += 1;
        counts.waiting += self.now - at;
        let task = self.model[entry].task;
        let thread = match self.pools[task.0].free.pop() {
            Some(thread) => thread,
            None => self.new_thread(task, entry),
        };
        let state = &mut self.threads[thread as usize];
        state.entry = entry;
        state.caller = caller;
        state.accepted_at = self.now;
        self.begin_phase(thread, 0);
    }

    fn new_thread(&mut self, task: TaskId, entry: EntryId) -> u32 {
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

impl Plan {
    fn new(demand: f64, phase: &Phase) -> Self {
        // Calls at the same time don't cut it.
        let slices = match phase.quorum {
            Some(_) => 1.0,
            None => 1.0 + phase.calls_mean(),
        };
        let total = 1.0 + phase.calls_mean();
        let mut chance = 0.0;
        let mut calls = Vec::new();
        for call in &phase.calls {
            chance += call.mean / total;
            let times = match phase.order {
                CallOrder::Stochastic => 1,
                CallOrder::Deterministic => call.mean as usize,
            };
            calls.extend(std::iter::repeat_n((call.target, call.kind, chance), times));
        }
        Self {
            slice: Law::new(demand / slices, phase.cvsq),
            think_time: phase.think_time,
            order: phase.order,
            quorum: phase.quorum,
            calls,
        }
    }
}

impl Pool {
    fn new(task: &Task) -> Self {
        let threads = task.multiplicity.finite().map(|number| number as usize);
        Self {
            idle: threads,
            free: Vec::new(),
            waiting: VecDeque::new(),
            waiting_async: 0,
            queue_max: task
                .queue_length
                .map_or(QUEUE_MAX, |length| length as usize),
            busy: 0,
            since: 0.0,
            busy_time: 0.0,
        }
    }

    fn count(&mut self, now: f64, change: isize) {
        self.settle(now);
        self.busy = self.busy.saturating_add_signed(change);
    }

    fn settle(&mut self, now: f64) {
        self.busy_time += (now - self.since) * self.busy as f64;
        self.since = now;
    }

    fn take_busy_time(&mut self, now: f64) -> f64 {
        self.settle(now);
        std::mem::take(&mut self.busy_time)
    }
}
