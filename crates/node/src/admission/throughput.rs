//! What a worker serves, and what it could serve for neighbours.

use std::time::Duration;

/// The weight of the time since the last look in the means.
const LATELY: f64 = 0.2;
/// The least part of the time that counts as that of known hosts.
const LEAST: f64 = 0.1;

/// How many new requests a worker serves, and how much of its time strangers' connections take.
///
/// These have only the time that known hosts leave, so it counts as free. What was served in it counts for nothing.
#[derive(Debug, Default)]
pub(super) struct Throughput {
    looked_at: Duration,
    busy: Duration,
    for_strangers: Duration,
    served: u32,
    /// The means of what was served in a second, and of the part of the busy time that strangers' connections took.
    served_per_s: f64,
    part_for_strangers: f64,
}

impl Throughput {
    /// The worker was busy for so long since it told last, and for strangers' connections.
    pub(super) fn note_busy(&mut self, busy: Duration, for_strangers: Duration) {
        self.busy += busy;
        self.for_strangers += for_strangers;
    }

    /// A new request was served, maybe in the time of strangers.
    pub(super) fn note_served(&mut self, is_apart: bool) {
        self.served += u32::from(!is_apart);
    }

    /// Looks at what happened since the last time; how long the worker was busy.
    pub(super) fn look(&mut self, now: Duration) -> Duration {
        let passed = now.saturating_sub(self.looked_at).as_secs_f64();
        let part = match self.busy.is_zero() {
            true => 0.0,
            false => self.for_strangers.div_duration_f64(self.busy).min(1.0),
        };
        let served_per_s = f64::from(self.served) / passed.max(f64::MIN_POSITIVE);
        self.served_per_s += (served_per_s - self.served_per_s) * LATELY;
        self.part_for_strangers += (part - self.part_for_strangers) * LATELY;
        let busy = self.busy;
        *self = Self {
            looked_at: now,
            served_per_s: self.served_per_s,
            part_for_strangers: self.part_for_strangers,
            ..Self::default()
        };
        busy
    }

    /// New requests that could be served in a second, if strangers' connections took nothing.
    pub(super) fn capacity_per_s(&self) -> f64 {
        self.served_per_s / (1.0 - self.part_for_strangers).max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The capacity after ticks with this many requests served, and of each so many milliseconds for strangers.
    fn capacity(served: u32, for_strangers: u64) -> f64 {
        let mut throughput = Throughput::default();
        for tick in 1..=50 {
            throughput.note_served(true);
            (0..served).for_each(|_| throughput.note_served(false));
            throughput.note_busy(ms(100), ms(for_strangers));
            assert_eq!(throughput.look(ms(100 * tick)), ms(100));
        }
        throughput.capacity_per_s()
    }

    /// Strangers' connections took the time that neighbours left, so that the node told these less and less.
    #[test]
    fn the_time_of_strangers_is_free_for_neighbours() {
        for (served, for_strangers, per_s) in [(60, 0, 600.0), (30, 50, 600.0), (1, 100, 100.0)] {
            let capacity = capacity(served, for_strangers);
            assert!((capacity - per_s).abs() < 1.0, "{capacity} of {per_s}");
        }
    }
}
