//! What a tick counts, and what ticks in a row tell.

use std::time::Duration;

/// How often the share is looked at.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// What was read in a tick came in no less than this part of it: who reads less than that of what comes has lanes.
const CAME_IN_LEAST: f64 = 0.1;
/// Copies come after 0.5 s. RFC 3261 T1
const FRESH_TICKS: u32 = 5;
/// To turn away what was read takes so much of what it takes to serve it. After the cut that time is free.
const TURNED_AWAY: f64 = 0.1;
/// So many ticks with room left tell something.
pub(super) const FEW_TICKS: u32 = 3;
/// How busy a node must have been at least to tell what it can serve.
const BUSY_ENOUGH: f64 = 0.2;

/// What came in, and what became of it, in a tick or in several.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) came: u32,
    /// Which nobody looked at. Once the tick is over they are part of what came.
    pub(super) lost: u32,
    /// Stayed out, as far as is known.
    pub(super) stayed_out: u32,
    pub(super) served: u32,
    pub(super) turned_away: u32,
    /// Of these, which surely were new.
    pub(super) new_turned_away: u32,
}

impl Counted {
    /// What came in this tick, which took so long: what was read in it came in another time, zero if that is not known.
    /// If that was less than the tick, those that were lost came after these.
    pub(super) fn offered(self, passed: Duration, came_in: Duration) -> Offered {
        let part = match came_in.is_zero() {
            true => 1.0,
            false => came_in.div_duration_f64(passed).max(CAME_IN_LEAST),
        };
        let [read, lost] = [self.came.saturating_sub(self.lost), self.lost].map(f64::from);
        Offered {
            requests: (read / part).max(read / part.max(1.0) + lost),
            ticks: passed.div_duration_f64(TICK),
        }
    }

    /// While a buffer is half full, nobody tells what its filter drops from what finds no room. Of all that comes, only this
    /// share gets through the filter. What was lost after all came, too.
    pub(super) fn without_filtered(mut self, share: f64) -> Self {
        let [read, lost, stayed_out] = [self.came, self.lost, self.stayed_out].map(f64::from);
        let filtered = (1.0 - share) * (read + lost + stayed_out) - stayed_out;
        let filtered = self.lost.min(filtered as u32);
        self.stayed_out = self.stayed_out.saturating_add(filtered);
        self.lost -= filtered;
        self.miss(self.lost);
        self
    }

    /// So many came and were turned away.
    pub(super) fn miss(&mut self, number: u32) {
        self.came = self.came.saturating_add(number);
        self.turned_away = self.turned_away.saturating_add(number);
        self.new_turned_away = self.new_turned_away.saturating_add(number);
    }

    /// New requests that were turned away for each that was served.
    pub(super) fn surplus(self) -> f64 {
        f64::from(self.new_turned_away) / f64::from(self.served.max(1))
    }
}

/// Ticks in a row in which there was room left, what they served, and the sum of how busy the processor was.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calm {
    pub(super) ticks: u32,
    pub(super) served: u32,
    pub(super) busy: f64,
    /// In so many of them others waited.
    pub(super) beside_others: u32,
}

impl Calm {
    /// What a tick could have served, by how busy it was; none: too little is known.
    pub(super) fn pace(self) -> Option<f64> {
        let is_known = self.ticks >= FEW_TICKS && self.busy > BUSY_ENOUGH * f64::from(self.ticks);
        (is_known && self.beside_others == 0).then(|| f64::from(self.served) / self.busy)
    }
}

/// So many requests came in so many ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offered {
    requests: f64,
    ticks: f64,
}

impl Offered {
    fn add(&mut self, more: Self) {
        self.requests += more.requests;
        self.ticks += more.ticks;
    }

    pub(super) fn in_a_tick(self) -> f64 {
        self.requests / self.ticks
    }
}

/// What happened since there was room last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overload {
    ticks: u32,
    /// What came in. In the first tick there may have been room, and those after [`FRESH_TICKS`] have copies in them.
    fresh: Offered,
    /// What was served after the first tick, and what could have been while others were turned away.
    served: f64,
    /// It may have begun before the node, which has to read what has gathered then.
    is_first: bool,
    /// The most that a tick served or could have served besides, in such an overload; 0 in others.
    most: f64,
}

impl Overload {
    /// One in which a node begins.
    pub(super) fn first() -> Self {
        Self {
            is_first: true,
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, seen: &Seen) {
        self.ticks += 1;
        if self.ticks > 1 {
            let could = seen.served + TURNED_AWAY * (seen.read - seen.served).max(0.0);
            self.served += could;
            if self.is_first {
                self.most = self.most.max(could);
            }
        }
        if (2..=FRESH_TICKS).contains(&self.ticks) {
            self.fresh.add(seen.came);
        }
    }

    /// Whether it has lasted for long enough to tell what a tick can serve: the first may have begun late.
    pub(super) fn is_known(&self) -> bool {
        self.ticks >= FEW_TICKS
    }

    /// What came in for each request that could be served, copies left out; none: that can't be told yet. At first the node
    /// reads more than it serves, so `most` that a tick served lately tells what it can.
    pub(super) fn excess(&self, most: f64) -> Option<f64> {
        let ticks = self.ticks.checked_sub(1).filter(|ticks| *ticks > 0)?;
        let served = match self.ticks > FRESH_TICKS {
            true => self.served / f64::from(ticks),
            false => most.max(self.most),
        };
        Some(self.fresh.in_a_tick() / served.max(1.0))
    }
}

/// What the last tick tells.
pub(super) struct Seen {
    pub(super) now: Duration,
    /// What came in, and in which time.
    pub(super) came: Offered,
    /// What was looked at.
    pub(super) read: f64,
    pub(super) served: f64,
    /// What came in for each request that could be served.
    pub(super) excess: f64,
    /// What came, in or not.
    pub(super) offered: f64,
    pub(super) some_turned_away: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 24,100 INVITEs came in a second. In the second tick of that, 448 were read that had come in a sixth of the tick, and those
    /// that were lost were added to what that makes: 4,346 in a tenth of a second.
    #[test]
    fn what_is_lost_came_after_what_was_read() {
        let tick = Counted {
            came: 448 + 2_527,
            lost: 2_527,
            ..Counted::default()
        };
        let offered = tick.offered(Duration::from_millis(120), Duration::from_millis(20));
        let in_a_tick = offered.in_a_tick();
        assert!((2_400.0..2_600.0).contains(&in_a_tick), "{in_a_tick}");
    }

    /// A filter let in a third, and the kernel called what it dropped lost, as the buffer was half full. So 43,000 of 49,000
    /// REGISTERs counted as too much, and the share was cut to a fifth of what could be served.
    #[test]
    fn what_a_filter_drops_is_not_lost() {
        // What was read, was lost and stayed out, and which of these were lost after all.
        for (read, lost, stayed_out, remain) in [
            (6_135, 42_865, 132, 10_079),
            (400, 600, 2_000, 590),
            (300, 0, 700, 0),
            (0, 300, 0, 99),
        ] {
            let tick = Counted {
                came: read,
                lost,
                stayed_out,
                ..Counted::default()
            };
            let tick = tick.without_filtered(0.33);
            assert!(tick.lost.abs_diff(remain) < 2, "{} {remain}", tick.lost);
            assert_eq!(tick.came + tick.stayed_out, read + lost + stayed_out);
            assert_eq!([tick.turned_away, tick.new_turned_away], [tick.lost; 2]);
        }
    }
}
