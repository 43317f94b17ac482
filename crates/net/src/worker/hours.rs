//! When a worker works, and when it waits.

use std::{mem, ops::Range, time::Duration};

use node::Work;

/// What a worker has done since the node was told last.
#[derive(Debug)]
pub(super) struct Hours {
    told_at: Duration,
    /// The processor time that it had used then.
    processor_time: Duration,
    waited: Duration,
    /// The last wait.
    wait: Range<Duration>,
}

impl Hours {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            told_at: now,
            processor_time: Duration::ZERO,
            waited: Duration::ZERO,
            wait: now..now,
        }
    }

    /// It rested for so long.
    pub(super) fn rest(&mut self, time: Duration) {
        self.waited += time;
    }

    /// It waited since `began` for something to come, for `timeout` at most.
    pub(super) fn wait(&mut self, began: Duration, now: Duration, timeout: Duration) {
        self.wait = began..now.min(began + timeout);
    }

    /// The wait was over when the first message came, or at its timeout. A worker whose quota is used up stands still after that, and
    /// to its clock it works.
    pub(super) fn end_wait(&mut self, came: Duration) {
        let Range { start, end } = mem::take(&mut self.wait);
        self.waited += end.min(came).saturating_sub(start);
    }

    /// When the node was told last.
    pub(super) fn told_at(&self) -> Duration {
        self.told_at
    }

    /// What to tell it.
    pub(super) fn take(&mut self, now: Duration, processor_time: Duration) -> Work {
        let passed = now.saturating_sub(mem::replace(&mut self.told_at, now));
        let before = mem::replace(&mut self.processor_time, processor_time);
        Work {
            busy: passed.saturating_sub(mem::take(&mut self.waited)),
            ran: processor_time.saturating_sub(before),
            ..Work::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// How long a worker was busy that waited until 100 ms, for so long at most, and read what had come at this time.
    fn busy(timeout: u64, came: u64) -> Duration {
        let mut hours = Hours::new(ms(0));
        hours.wait(ms(10), ms(100), ms(timeout));
        hours.end_wait(ms(came));
        hours.take(ms(100), ms(5)).busy
    }

    /// A node whose quota was used up while it waited counted the standstill as waiting. It took what came meanwhile for a queue, and
    /// told neighbours a third of what it could serve.
    #[test]
    fn who_waits_longer_than_it_has_to_stands_still() {
        assert_eq!(busy(90, 100), ms(10));
        assert_eq!(busy(20, 100), ms(80));
        assert_eq!(busy(90, 15), ms(95));
        assert_eq!(busy(90, 5), ms(100));
    }

    #[test]
    fn what_was_told_is_not_told_again() {
        let mut hours = Hours::new(ms(0));
        hours.rest(ms(4));
        let work = hours.take(ms(10), ms(5));
        assert_eq!([work.busy, work.ran], [ms(6), ms(5)]);
        let work = hours.take(ms(30), ms(12));
        assert_eq!([work.busy, work.ran], [ms(20), ms(7)]);
    }
}
