//! What a worker serves, and what it could serve for neighbours.

use std::time::Duration;

/// The weight of the time since the last look in the means.
const LATELY: f64 = 0.2;
/// The least part of the time that counts as that of known hosts.
const LEAST: f64 = 0.1;
/// A worker that is idle for no more than the rest of the time tells what it could serve in all of it.
const BUSY: f64 = 0.9;

/// How many new requests a worker serves, and how much of its time strangers' connections take.
///
/// These have only the time that known hosts leave, so it counts as free. What was served in it counts for nothing.
#[derive(Debug, Default)]
pub struct Throughput {
    looked_at: Duration,
    busy: Duration,
    for_strangers: Duration,
    served: u32,
    /// The means of what was served in a second, of the part of the time that the worker was busy, and of the part of that
    /// which strangers' connections took.
    served_per_s: f64,
    part_busy: f64,
    part_for_strangers: f64,
}

impl Throughput {
    /// The worker was busy for so long since it told last, and for strangers' connections.
    pub fn note_busy(&mut self, busy: Duration, for_strangers: Duration) {
        self.busy += busy;
        self.for_strangers += for_strangers;
    }

    /// A new request was served, maybe in the time of strangers.
    pub fn note_served(&mut self, is_apart: bool) {
        self.served += u32::from(!is_apart);
    }

    /// Looks at what happened since the last time; how long the worker was busy.
    pub fn look(&mut self, now: Duration) -> Duration {
        let passed = now.saturating_sub(self.looked_at).as_secs_f64();
        let part_busy = self.busy.as_secs_f64() / passed.max(f64::MIN_POSITIVE);
        let part = match self.busy.is_zero() {
            true => 0.0,
            false => self.for_strangers.div_duration_f64(self.busy).min(1.0),
        };
        let served_per_s = f64::from(self.served) / passed.max(f64::MIN_POSITIVE);
        self.served_per_s += (served_per_s - self.served_per_s) * LATELY;
        self.part_busy += (part_busy.min(1.0) - self.part_busy) * LATELY;
        self.part_for_strangers += (part - self.part_for_strangers) * LATELY;
        let busy = self.busy;
        *self = Self {
            looked_at: now,
            served_per_s: self.served_per_s,
            part_busy: self.part_busy,
            part_for_strangers: self.part_for_strangers,
            ..Self::default()
        };
        busy
    }

    /// Whether the worker could not do more.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.part_busy > BUSY
    }

    /// New requests that could be served in a second, if strangers' connections took nothing. While some wait, these are as many as
    /// are served; else the worker could be busy all the time.
    #[must_use]
    pub fn capacity_per_s(&self, some_wait: bool) -> f64 {
        let served_per_s = self.served_per_s / (1.0 - self.part_for_strangers).max(LEAST);
        match some_wait {
            true => served_per_s,
            false => served_per_s / self.part_busy.max(BUSY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// After ticks with this many requests served, and so many milliseconds of each busy and for strangers.
    fn after(served: u32, busy: u64, for_strangers: u64) -> Throughput {
        let mut throughput = Throughput::default();
        for tick in 1..=50 {
            throughput.note_served(true);
            (0..served).for_each(|_| throughput.note_served(false));
            throughput.note_busy(ms(busy), ms(for_strangers));
            assert_eq!(throughput.look(ms(100 * tick)), ms(busy));
        }
        throughput
    }

    /// Strangers' connections took the time that neighbours left, so that the node told these less and less.
    #[test]
    fn the_time_of_strangers_is_free_for_neighbours() {
        for (served, for_strangers, per_s) in [(60, 0, 600.0), (30, 50, 600.0), (1, 100, 100.0)] {
            let could = after(served, 100, for_strangers).capacity_per_s(true);
            assert!((could - per_s).abs() < 1.0, "{could} of {per_s}");
        }
    }

    /// A worker that was idle for a tenth of the time told neighbours what it served, and they took seconds to send more.
    #[test]
    fn a_worker_that_is_hardly_idle_tells_what_it_could_serve() {
        for (busy, per_s) in [(100, 600.0), (95, 631.6), (90, 666.7), (50, 666.7)] {
            let could = after(60, busy, 0).capacity_per_s(false);
            assert!((could - per_s).abs() < 1.0, "{could} of {per_s}");
        }
    }
}
