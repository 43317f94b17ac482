//! Events in the order of time.

use std::{cmp::Ordering, collections::BinaryHeap};

/// What is to happen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A thread's pause is over.
    Rested(u32),
    /// A thread's slice is done, on a processor with servers of its own.
    Served(u32),
    /// The first slice on a sharing processor is done, if nothing changed since.
    Shared { processor: u32, version: u64 },
    /// A request from outside.
    Arrival(u32),
}

#[derive(Clone, Copy, Debug)]
struct Dated {
    at: f64,
    number: u64,
    event: Event,
}

/// Events to come; of those at the same time the first scheduled is the first.
#[derive(Default)]
pub(super) struct Calendar {
    heap: BinaryHeap<Dated>,
    number: u64,
}

impl Calendar {
    pub(super) fn schedule(&mut self, at: f64, event: Event) {
        self.number += 1;
        self.heap.push(Dated {
            at,
            number: self.number,
            event,
        });
    }

    pub(super) fn next_at(&self) -> Option<f64> {
        self.heap.peek().map(|dated| dated.at)
    }

    pub(super) fn pop(&mut self) -> Option<(f64, Event)> {
        self.heap.pop().map(|dated| (dated.at, dated.event))
    }
}

impl Ord for Dated {
    /// The earliest is the greatest, for the heap.
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .at
            .total_cmp(&self.at)
            .then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Dated {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Dated {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Dated {}
