//! Messages of several workers' taps in the order in which they passed.

use std::time::Duration;

use node::{
    Flow,
    tap::{Tap, What},
};

/// A message that has passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed<'a> {
    pub(crate) at: Duration,
    pub(crate) came_in: bool,
    pub(crate) flow: Flow,
    pub(crate) bytes: &'a [u8],
}

/// The same, with its bytes.
#[derive(Debug)]
pub(crate) struct Waiting {
    at: Duration,
    came_in: bool,
    flow: Flow,
    bytes: Box<[u8]>,
}

impl Waiting {
    pub(crate) fn new(passed: &Passed<'_>) -> Self {
        Self {
            at: passed.at,
            came_in: passed.came_in,
            flow: passed.flow,
            bytes: passed.bytes.into(),
        }
    }

    fn passed(&self) -> Passed<'_> {
        Passed {
            at: self.at,
            came_in: self.came_in,
            flow: self.flow,
            bytes: &self.bytes,
        }
    }
}

/// All messages in order, and how many of them are not later than `until`.
pub(crate) fn in_order<'a>(
    waiting: &'a [Waiting],
    taps: &'a [Tap],
    until: Duration,
) -> (Vec<Passed<'a>>, usize) {
    let mut passed: Vec<Passed<'_>> = waiting.iter().map(Waiting::passed).collect();
    passed.extend(taps.iter().flat_map(passed_in));
    passed.sort_by_key(|passed| passed.at);
    let due = passed.partition_point(|passed| passed.at <= until);
    (passed, due)
}

fn passed_in(tap: &Tap) -> impl Iterator<Item = Passed<'_>> {
    tap.entries().iter().filter_map(|entry| {
        let (came_in, flow) = match entry.what {
            What::Received(flow) => (true, flow),
            What::Sent(flow) => (false, flow),
            What::Because(_) | What::Placed(_) => return None,
        };
        Some(Passed {
            at: entry.at,
            came_in,
            flow,
            bytes: tap.message(entry),
        })
    })
}
