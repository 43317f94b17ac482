//! A model on its way from event to event.

mod plan;
mod pool;
mod requests;
mod threads;

use super::{
    calendar::{Calendar, Event},
    law::exponential,
    processor::Station,
    tally::{Counts, EntryCounts},
};
use crate::model::{EntryId, Model, Role, TaskId};
use plan::Plan;
use pool::Pool;
use threads::Thread;

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

    /// Whether nothing will ever happen again: all wait for each other.
    pub(super) fn is_stuck(&self) -> bool {
        self.calendar.next_at().is_none()
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
}
