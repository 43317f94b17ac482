//! How much each source may have in a second.

use std::time::Duration;

/// Sources that are told apart at most. Those that share a slot share its budget.
const SLOTS: usize = 1_024;

/// A budget for each source, in memory that does not grow.
#[derive(Debug)]
pub(super) struct PerSource {
    per_s: u32,
    slots: Box<[Budget]>,
}

/// A budget for a second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    second: u64,
    spent: u32,
}

impl PerSource {
    /// So many for each source in a second.
    pub(super) fn new(per_s: u32) -> Self {
        Self {
            per_s,
            slots: vec![Budget::default(); SLOTS].into(),
        }
    }

    /// Whether the source with this [keyed hash](crate::wire::keys::Keys::source) may have one more.
    pub(super) fn spend(&mut self, now: Duration, source: u64) -> bool {
        self.slots[(source % SLOTS as u64) as usize].spend(now, self.per_s)
    }
}

impl Budget {
    /// Whether there may be one more, of so many in a second.
    pub(super) fn spend(&mut self, now: Duration, per_s: u32) -> bool {
        let second = now.as_secs();
        if self.second != second {
            *self = Self { second, spent: 0 };
        }
        let may = self.spent < per_s;
        self.spent += u32::from(may);
        may
    }
}
