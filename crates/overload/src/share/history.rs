//! Who is surely new, of those who are let in.

/// What is remembered, in ticks.
const TICKS: usize = 320;
/// A request that isn't answered is repeated after so many ticks, and each time after twice as many. RFC 3261 T1
const FIRST_GAP: usize = 5;
const REPEATED: u32 = 6;

/// The shares that were let in lately, tick by tick.
///
/// A request that is heard for the first time is new, or all its copies before were kept out. Copies come at known
/// times. So whoever drew a share that was open at these times would have been heard then.
#[derive(Debug)]
pub(super) struct History {
    shares: [f64; TICKS],
    newest: usize,
}

impl Default for History {
    fn default() -> Self {
        Self {
            shares: [1.0; TICKS],
            newest: 0,
        }
    }
}

impl History {
    /// A tick is over in which this share was let in.
    pub(super) fn push(&mut self, share: f64) {
        self.newest = (self.newest + 1) % TICKS;
        self.shares[self.newest] = share;
    }

    /// Of those who come in this tick some are not heard.
    pub(super) fn forget(&mut self) {
        self.shares[self.newest] = 0.0;
    }

    /// Who drew less is new if he comes in this tick.
    pub(super) fn surely_new(&self) -> f64 {
        let copies = (1..=REPEATED).map(|copy| self.open_before(copy));
        copies.fold(1.0, f64::min)
    }

    /// The share that was let in at one of the times at which the copies before this one came.
    fn open_before(&self, copy: u32) -> f64 {
        let mut ago = 0;
        let open = (0..copy).rev().map(|before| {
            ago += FIRST_GAP << before;
            self.around(ago)
        });
        open.fold(0.0, f64::max)
    }

    /// The least share at about that time.
    fn around(&self, ago: usize) -> f64 {
        let shares = (ago - 1..=ago + 1).map(|ago| self.shares[self.place(ago)]);
        shares.fold(1.0, f64::min)
    }

    fn place(&self, ago: usize) -> usize {
        (self.newest + TICKS - ago) % TICKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_kept_out_for_a_second_comes_again_at_known_times() {
        let mut history = History::default();
        let share = |tick: usize| if (10..20).contains(&tick) { 0.3 } else { 1.0 };
        let mut in_doubt = Vec::new();
        for tick in 0..400 {
            history.push(share(tick));
            if history.surely_new() < 1.0 {
                in_doubt.push(tick);
            }
        }
        // The first copies come from half a second on. Who is not heard in the second after, had copies then.
        let expected: Vec<usize> = (14..=30).collect();
        assert_eq!(in_doubt, expected);
    }

    #[test]
    fn who_was_not_heard_may_come_again() {
        let mut history = History::default();
        history.push(1.0);
        history.forget();
        let doubts = (1..400).filter(|_| {
            history.push(1.0);
            history.surely_new() < 1.0
        });
        assert_eq!(doubts.count(), 3);
    }
}
