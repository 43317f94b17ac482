//! Processors at work.

use super::{
    calendar::{Calendar, Event},
    queue::{Queue, Slice},
};
use crate::model::{Processor, Scheduling};

/// A processor and the slices on it.
pub(super) struct Station {
    number: u32,
    kind: Kind,
    servers: usize,
    busy: usize,
    since: f64,
    busy_time: f64,
}

enum Kind {
    Queue(Queue),
    Sharing {
        /// Threads, and the attained service at which each is done.
        slices: Vec<(u32, f64)>,
        /// Service that a slice here from the beginning would have got.
        attained: f64,
        at: f64,
        version: u64,
    },
}

impl Station {
    pub(super) fn new(number: u32, processor: &Processor) -> Self {
        let kind = match processor.scheduling {
            Scheduling::Fcfs | Scheduling::HeadOfLine | Scheduling::Delay => {
                Kind::Queue(Queue::new(false))
            }
            Scheduling::PreemptiveResume => Kind::Queue(Queue::new(true)),
            Scheduling::Sharing { .. } => Kind::Sharing {
                slices: Vec::new(),
                attained: 0.0,
                at: 0.0,
                version: 0,
            },
        };
        let servers = processor
            .servers()
            .finite()
            .map_or(usize::MAX, |number| number as usize);
        Self {
            number,
            kind,
            servers,
            busy: 0,
            since: 0.0,
            busy_time: 0.0,
        }
    }

    /// A thread's slice comes.
    pub(super) fn arrive(&mut self, now: f64, slice: Slice, calendar: &mut Calendar) {
        match &mut self.kind {
            Kind::Queue(queue) if self.busy == self.servers => {
                return queue.join(now, slice, calendar);
            }
            Kind::Queue(queue) => queue.start(now, &slice, calendar),
            Kind::Sharing {
                slices,
                attained,
                at,
                ..
            } => {
                *attained += (now - *at) * rate(slices.len(), self.servers);
                *at = now;
                slices.push((slice.thread, *attained + slice.length));
                self.reschedule(now, calendar);
            }
        }
        self.count(now, 1);
    }

    /// Whether a thread's slice on a server of its own ends at this moment.
    pub(super) fn ends(&self, now: f64, thread: u32) -> bool {
        match &self.kind {
            Kind::Queue(queue) => queue.ends(now, thread),
            Kind::Sharing { .. } => false,
        }
    }

    /// A thread whose slice ended has another one at once, for which it doesn't queue.
    pub(super) fn stay(&mut self, now: f64, thread: u32, length: f64, calendar: &mut Calendar) {
        if let Kind::Queue(queue) = &mut self.kind {
            queue.stay(now, thread, length, calendar);
        }
    }

    /// A thread leaves its server; the next slice begins.
    pub(super) fn leave(&mut self, now: f64, thread: u32, calendar: &mut Calendar) {
        if let Kind::Queue(queue) = &mut self.kind
            && !queue.leave(now, thread, calendar)
        {
            self.count(now, -1);
        }
    }

    /// The thread whose slice is done, if the event still holds.
    pub(super) fn shared(&mut self, now: f64, event: u64, calendar: &mut Calendar) -> Option<u32> {
        let Kind::Sharing {
            slices,
            attained,
            at,
            version,
        } = &mut self.kind
        else {
            return None;
        };
        if *version != event {
            return None;
        }
        let place = first_done(slices)?;
        let (thread, done_at) = slices.swap_remove(place);
        *attained = done_at;
        *at = now;
        if slices.is_empty() {
            *attained = 0.0;
        }
        self.reschedule(now, calendar);
        self.count(now, -1);
        Some(thread)
    }

    fn reschedule(&mut self, now: f64, calendar: &mut Calendar) {
        let Kind::Sharing {
            slices,
            attained,
            version,
            ..
        } = &mut self.kind
        else {
            return;
        };
        *version += 1;
        let Some(place) = first_done(slices) else {
            return;
        };
        let left = (slices[place].1 - *attained).max(0.0);
        let at = now + left / rate(slices.len(), self.servers);
        calendar.schedule(
            at,
            Event::Shared {
                processor: self.number,
                version: *version,
            },
        );
    }

    fn count(&mut self, now: f64, change: isize) {
        self.settle(now);
        self.busy = self.busy.saturating_add_signed(change);
    }

    fn settle(&mut self, now: f64) {
        self.busy_time += (now - self.since) * self.busy.min(self.servers) as f64;
        self.since = now;
    }

    /// Server time used since the last time this was asked.
    pub(super) fn take_busy_time(&mut self, now: f64) -> f64 {
        self.settle(now);
        std::mem::take(&mut self.busy_time)
    }
}

fn first_done(slices: &[(u32, f64)]) -> Option<usize> {
    let ends = slices.iter().enumerate();
    ends.min_by(|(_, a), (_, b)| a.1.total_cmp(&b.1))
        .map(|(place, _)| place)
}

/// What each of so many slices gets.
fn rate(slices: usize, servers: usize) -> f64 {
    if slices <= servers {
        1.0
    } else {
        servers as f64 / slices as f64
    }
}
