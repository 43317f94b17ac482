//! How much each source may have in a second.

use std::time::Duration;

/// Sources that are told apart at most. Those that share a slot share its budget.
const SLOTS: usize = 1_024;

/// A budget for each source, in memory that does not grow.
#[derive(Debug)]
pub(super) struct PerSource {
    per_s: u32,
    slots: Box<[Slot]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    second: u64,
    spent: u32,
}

impl PerSource {
    /// So many for each source in a second.
    pub(super) fn new(per_s: u32) -> Self {
        Self {
            per_s,
            slots: vec![Slot::default(); SLOTS].into(),
        }
    }

    /// Whether the source with this [keyed hash](crate::wire::keys::Keys::source) may have one more.
    pub(super) fn spend(&mut self, now: Duration, source: u64) -> bool {
        let second = now.as_secs();
        let slot = &mut self.slots[(source % SLOTS as u64) as usize];
        if slot.second != second {
            *slot = Slot { second, spent: 0 };
        }
        let may = slot.spent < self.per_s;
        slot.spent += u32::from(may);
        may
    }
}
