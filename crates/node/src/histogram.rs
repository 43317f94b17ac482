//! How long servers took to respond, with a call for each time.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Upper bounds of the response-time buckets, in microseconds.
pub const BUCKETS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// Buckets; the last is beyond all bounds.
const BUCKETS: usize = BUCKETS_US.len() + 1;
/// The longest Call-ID of an exemplar: with a trace and all names that are within the 128 characters of OpenMetrics.
const CALL_ID_MAX: usize = 72;

/// A histogram of times from a request to its first response, which all workers write.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
    /// The second in which each bucket's exemplar was replaced, counted from 1; 0: there is none.
    replaced_s: [AtomicU64; BUCKETS],
    exemplars: [Mutex<Option<Box<Exemplar>>>; BUCKETS],
}

/// One of those that a bucket has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exemplar {
    /// When the response came.
    pub at: Duration,
    /// How long the server took.
    pub time: Duration,
    length: u8,
    call_id: [u8; CALL_ID_MAX],
}

impl Histogram {
    /// Counts a time. Each bucket keeps one call of a second.
    pub(crate) fn record(&self, now: Duration, time: Duration, call_id: &[u8]) {
        let us = time.as_micros() as u64;
        let bucket = BUCKETS_US.partition_point(|&bound| bound < us);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
        if self.replaced_s[bucket].load(Relaxed) <= now.as_secs() {
            self.replace(bucket, now, time, call_id);
        }
    }

    #[cold]
    fn replace(&self, bucket: usize, now: Duration, time: Duration, call_id: &[u8]) {
        let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        if call_id.len() > CALL_ID_MAX || !call_id.iter().all(is_plain) {
            return;
        }
        // Whoever reads it now keeps it for another second.
        let Ok(mut exemplar) = self.exemplars[bucket].try_lock() else {
            return;
        };
        self.replaced_s[bucket].store(now.as_secs() + 1, Relaxed);
        let exemplar = exemplar.get_or_insert_with(|| Box::new(Exemplar::EMPTY));
        (exemplar.at, exemplar.time) = (now, time);
        exemplar.length = call_id.len() as u8;
        exemplar.call_id[..call_id.len()].copy_from_slice(call_id);
    }

    /// Whether it has counted nothing yet.
    pub fn is_empty(&self) -> bool {
        self.buckets.iter().all(|count| count.load(Relaxed) == 0)
    }

    /// Counts per bucket (the last is beyond all bounds) and the sum in microseconds.
    pub fn read(&self) -> ([u64; BUCKETS], u64) {
        (
            std::array::from_fn(|place| self.buckets[place].load(Relaxed)),
            self.sum_us.load(Relaxed),
        )
    }

    /// The latest call that each bucket has kept.
    pub fn exemplars(&self) -> [Option<Exemplar>; BUCKETS] {
        let read = |exemplar: &Mutex<Option<Box<Exemplar>>>| {
            let exemplar = exemplar.lock().unwrap_or_else(PoisonError::into_inner);
            exemplar.as_deref().cloned()
        };
        std::array::from_fn(|place| read(&self.exemplars[place]))
    }
}

impl Exemplar {
    const EMPTY: Self = Self {
        at: Duration::ZERO,
        time: Duration::ZERO,
        length: 0,
        call_id: [0; CALL_ID_MAX],
    };

    /// The call's Call-ID: visible characters without quotes and backslashes.
    #[must_use]
    pub fn call_id(&self) -> &str {
        let bytes = &self.call_id[..usize::from(self.length)];
        str::from_utf8(bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_keeps_one_call_of_a_second() {
        let histogram = Histogram::default();
        let record = |at_ms, us, call: &[u8]| {
            let (now, time) = (Duration::from_millis(at_ms), Duration::from_micros(us));
            histogram.record(now, time, call);
        };
        record(500, 95, b"zeroth");
        assert!(histogram.exemplars()[0].is_some());
        record(1_000, 90, b"first");
        record(1_999, 80, b"second");
        record(1_999, 10_000_001, b"slow");
        record(2_000, 70, b"third@example.com");
        record(3_000, 60, b"a \"quote\"");
        record(3_000, 60, &[b'x'; CALL_ID_MAX + 1]);
        let (counts, sum_us) = histogram.read();
        assert_eq!((counts[0], counts[16], sum_us), (6, 1, 10_000_456));
        let exemplars = histogram.exemplars();
        let kept = |place: usize| {
            let kept = exemplars[place].as_ref()?;
            Some((kept.call_id(), kept.at.as_millis(), kept.time.as_micros()))
        };
        assert_eq!(kept(0), Some(("third@example.com", 2_000, 70)));
        assert_eq!(kept(1), None);
        assert_eq!(kept(16), Some(("slow", 1_999, 10_000_001)));
    }
}
