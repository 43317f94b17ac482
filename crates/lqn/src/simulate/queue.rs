//! Slices on servers of their own, and those that wait for one.

use std::collections::VecDeque;

use super::calendar::{Calendar, Event};

/// What a thread wants of a processor.
pub(super) struct Slice {
    pub(super) thread: u32,
    /// The higher one is served first.
    pub(super) priority: u32,
    pub(super) length: f64,
}

/// Servers that serve the most urgent slice first, and of equal ones the first that came.
pub(super) struct Queue {
    waiting: VecDeque<Slice>,
    /// Slices that may be interrupted; of equal priorities the first that came is first.
    running: Vec<Running>,
    is_preemptive: bool,
}

struct Running {
    thread: u32,
    priority: u32,
    ends_at: f64,
}

impl Queue {
    pub(super) fn new(is_preemptive: bool) -> Self {
        Self {
            waiting: VecDeque::new(),
            running: Vec::new(),
            is_preemptive,
        }
    }

    /// A slice begins, or goes on, on a free server.
    pub(super) fn start(&mut self, now: f64, slice: &Slice, calendar: &mut Calendar) {
        let ends_at = now + slice.length;
        calendar.schedule(ends_at, Event::Served(slice.thread));
        if self.is_preemptive {
            self.running.push(Running {
                thread: slice.thread,
                priority: slice.priority,
                ends_at,
            });
        }
    }

    /// A slice comes while all servers are busy: it interrupts a less urgent one, or waits.
    pub(super) fn join(&mut self, now: f64, slice: Slice, calendar: &mut Calendar) {
        let last_first = self.running.iter().enumerate().rev();
        let least = last_first.min_by_key(|(_, running)| running.priority);
        match least {
            Some((place, least)) if least.priority < slice.priority => {
                self.interrupt(now, place);
                self.start(now, &slice, calendar);
            }
            _ => {
                let before = |other: &Slice| other.priority >= slice.priority;
                let place = self.waiting.partition_point(before);
                self.waiting.insert(place, slice);
            }
        }
    }

    /// A running slice waits again, before its equals: it came before them.
    fn interrupt(&mut self, now: f64, place: usize) {
        let Running {
            thread,
            priority,
            ends_at,
        } = self.running.remove(place);
        let before = |other: &Slice| other.priority > priority;
        let place = self.waiting.partition_point(before);
        self.waiting.insert(
            place,
            Slice {
                thread,
                priority,
                length: ends_at - now,
            },
        );
    }

    /// Whether a thread's slice ends at this moment: it may have been interrupted since it was to.
    pub(super) fn ends(&self, now: f64, thread: u32) -> bool {
        let mut running = self.running.iter();
        !self.is_preemptive
            || running.any(|running| running.thread == thread && running.ends_at == now)
    }

    /// A thread whose slice ended stays for another one, unless it was interrupted meanwhile.
    pub(super) fn stay(&mut self, now: f64, thread: u32, length: f64, calendar: &mut Calendar) {
        if let Some(slice) = self.interrupted(thread) {
            slice.length += length;
            return;
        }
        let ends_at = now + length;
        calendar.schedule(ends_at, Event::Served(thread));
        let mut running = self.running.iter_mut();
        if let Some(running) = running.find(|running| running.thread == thread) {
            running.ends_at = ends_at;
        }
    }

    fn interrupted(&mut self, thread: u32) -> Option<&mut Slice> {
        let mut waiting = self.waiting.iter_mut().filter(|_| self.is_preemptive);
        waiting.find(|slice| slice.thread == thread)
    }

    /// A thread leaves its server. Says whether the next one is on it.
    pub(super) fn leave(&mut self, now: f64, thread: u32, calendar: &mut Calendar) -> bool {
        self.running.retain(|running| running.thread != thread);
        let next = self.waiting.pop_front();
        if let Some(slice) = &next {
            self.start(now, slice, calendar);
        }
        next.is_some()
    }
}
