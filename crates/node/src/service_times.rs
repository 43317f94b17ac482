//! How long servers take for requests that meet them idle.
//!
//! A request that met a server with nothing else to do was answered in its service time. The time
//! to the first response past 100 counts: a 100 comes before the work, a 200 after the ringing.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::stats::MethodLabel;

/// The latest times kept for each server and method, and how many say anything.
const SAMPLES: usize = 128;
const SAMPLES_MIN: u64 = 32;

/// The part of the times, the longest, that are left out: servers stop now and then.
const LEFT_OUT: usize = SAMPLES / 8;

pub(crate) const LABELS: usize = MethodLabel::ALL.len();

/// How long requests took that met this server idle.
#[derive(Debug, Default)]
pub(crate) struct ServiceTimes {
    /// Requests that wait for a response past 100.
    waiting: AtomicU32,
    by_label: [Samples; LABELS],
}

/// The latest times, in tenths of a microsecond, written in a circle.
#[derive(Debug)]
struct Samples {
    recorded: AtomicU64,
    times: [AtomicU32; SAMPLES],
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            recorded: AtomicU64::new(0),
            times: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }
}

impl ServiceTimes {
    /// A request goes to the server; true when no other waits there.
    pub(crate) fn begin(&self) -> bool {
        self.waiting.fetch_add(1, Relaxed) == 0
    }

    pub(crate) fn end(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }

    pub(crate) fn record(&self, label: MethodLabel, time: Duration) {
        let Samples { recorded, times } = &self.by_label[label as usize];
        let tenths = u32::try_from(time.as_nanos() / 100).unwrap_or(u32::MAX);
        let slot = recorded.fetch_add(1, Relaxed) as usize % SAMPLES;
        times[slot].store(tenths.max(1), Relaxed);
    }

    pub(crate) fn typical(&self) -> [Option<f64>; LABELS] {
        std::array::from_fn(|label| self.by_label[label].typical())
    }
}

impl Samples {
    /// The mean time without the longest; none while there are few.
    fn typical(&self) -> Option<f64> {
        let recorded = self.recorded.load(Relaxed);
        if recorded < SAMPLES_MIN {
            return None;
        }
        let mut times = [0; SAMPLES];
        let known = (recorded as usize).min(SAMPLES);
        let times = &mut times[..known];
        for (time, sample) in times.iter_mut().zip(&self.times) {
            *time = sample.load(Relaxed);
        }
        times.sort_unstable();
        let kept = &times[..known - LEFT_OUT * known / SAMPLES];
        Some(kept.iter().map(|time| f64::from(*time)).sum::<f64>() / kept.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_times_are_left_out() {
        let times = ServiceTimes::default();
        assert_eq!(times.typical(), [None; LABELS]);
        for sample in 0..1_000 {
            let stall = if sample % 16 == 0 { 1_000_000 } else { 0 };
            times.record(MethodLabel::Bye, Duration::from_micros(830 + stall));
        }
        assert_eq!(times.typical()[MethodLabel::Bye as usize], Some(8_300.0));
        assert_eq!(times.typical()[MethodLabel::Invite as usize], None);
        times.record(MethodLabel::Invite, Duration::MAX);
        assert!(times.begin() && !times.begin());
        times.end();
        times.end();
        assert!(times.begin());
    }
}
