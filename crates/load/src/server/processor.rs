//! A processor in virtual time: it computes nothing while it is busy.

use std::{cmp::Ordering, collections::BinaryHeap, time::Duration};

/// The order in which requests are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// First come, first served.
    Fifo,
    /// All at once, each at its equal part of the speed.
    ProcessorSharing,
}

/// A processor with its jobs.
///
/// Progress is a single number: the work since the processor was last idle that a job has received.
/// It is all of the work if the processor serves one job after another, and an equal part if it
/// shares. A job is done when the progress reaches the value that the job got on arrival.
#[derive(Debug)]
pub struct Processor<T> {
    discipline: Discipline,
    speed: f64,
    jobs: BinaryHeap<Job<T>>,
    arrived: u64,
    progress_ns: f64,
    /// Work that is left of all jobs together, at speed 1.
    left_ns: f64,
    updated: Duration,
    stalled_until: Duration,
    busy: Duration,
}

#[derive(Debug)]
struct Job<T> {
    /// The progress at which it is done.
    done_at_ns: f64,
    number: u64,
    what: T,
}

/// Progress is done when so little is missing, far below a nanosecond of time and far above the
/// rounding of a day's progress.
const EPSILON_NS: f64 = 0.05;

impl<T> Processor<T> {
    /// An idle one of speed 1.
    #[must_use]
    pub fn new(discipline: Discipline) -> Self {
        Self {
            discipline,
            speed: 1.0,
            jobs: BinaryHeap::new(),
            arrived: 0,
            progress_ns: 0.0,
            left_ns: 0.0,
            updated: Duration::ZERO,
            stalled_until: Duration::ZERO,
            busy: Duration::ZERO,
        }
    }

    /// Starts a job with this much work at speed 1. The caller must have popped everything that was
    /// due by `now`.
    pub fn begin(&mut self, now: Duration, work: Duration, what: T) {
        self.advance(now);
        let work_ns = work.as_nanos() as f64;
        let done_at_ns = match self.discipline {
            Discipline::Fifo => self.progress_ns + self.left_ns + work_ns,
            Discipline::ProcessorSharing => self.progress_ns + work_ns,
        };
        self.left_ns += work_ns;
        self.arrived += 1;
        self.jobs.push(Job {
            done_at_ns,
            number: self.arrived,
            what,
        });
    }

    /// Takes the next job that is done by `now`, with the time when it was done.
    pub fn pop(&mut self, now: Duration) -> Option<(Duration, T)> {
        let due = self.deadline().filter(|due| *due <= now)?;
        self.advance(due);
        let job = self.jobs.pop()?;
        if self.jobs.is_empty() {
            (self.progress_ns, self.left_ns) = (0.0, 0.0);
        }
        Some((due, job.what))
    }

    /// When the next job is done.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let missing_ns = self.jobs.peek()?.done_at_ns - self.progress_ns;
        let resumes = self.updated.max(self.stalled_until);
        if missing_ns < EPSILON_NS {
            return Some(resumes);
        }
        let takes_ns = (missing_ns * self.sharers() / self.speed).ceil();
        Some(resumes.saturating_add(Duration::from_nanos(takes_ns as u64)))
    }

    /// Stalls the processor for this much longer.
    pub fn stall(&mut self, now: Duration, lasting: Duration) {
        self.advance(now);
        self.stalled_until = self.stalled_until.max(now).saturating_add(lasting);
    }

    /// Sets the speed to `speed` from `now` on.
    pub fn set_speed(&mut self, now: Duration, speed: f64) {
        self.advance(now);
        self.speed = speed;
    }

    /// When the last stall ends or has ended.
    #[must_use]
    pub fn resumes_at(&self) -> Duration {
        self.stalled_until
    }

    /// Jobs that wait or are in service.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// The time until all jobs that are there at `now` are done.
    #[must_use]
    pub fn backlog(&self, now: Duration) -> Duration {
        let left_ns = (self.left_ns - self.work_ns(now)).max(0.0) / self.speed;
        let stalled = self.stalled_until.saturating_sub(now);
        stalled.saturating_add(Duration::from_nanos(left_ns as u64))
    }

    /// Time spent on jobs up to the last change.
    #[must_use]
    pub fn busy(&self) -> Duration {
        self.busy
    }

    fn advance(&mut self, now: Duration) {
        let work_ns = self.work_ns(now);
        if work_ns > 0.0 {
            self.busy += now - self.updated.max(self.stalled_until);
            self.progress_ns += work_ns / self.sharers();
            self.left_ns = (self.left_ns - work_ns).max(0.0);
        }
        self.updated = self.updated.max(now);
    }

    /// Work done between the last change and `now`.
    fn work_ns(&self, now: Duration) -> f64 {
        if self.jobs.is_empty() {
            return 0.0;
        }
        let resumes = self.updated.max(self.stalled_until);
        now.saturating_sub(resumes).as_nanos() as f64 * self.speed
    }

    fn sharers(&self) -> f64 {
        match self.discipline {
            Discipline::Fifo => 1.0,
            Discipline::ProcessorSharing => self.jobs.len() as f64,
        }
    }
}

/// The greatest is done first.
impl<T> Ord for Job<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_number = || other.number.cmp(&self.number);
        let by_progress = other.done_at_ns.total_cmp(&self.done_at_ns);
        by_progress.then_with(by_number)
    }
}

impl<T> PartialOrd for Job<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Job<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Job<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The times, in milliseconds, at which jobs of (arrival, work) are done, in that order.
    fn check(discipline: Discipline, jobs: &[(u64, u64)], expected: &[(usize, u64)]) {
        let mut processor = Processor::new(discipline);
        let mut done = Vec::new();
        for (number, &(arrival, work)) in jobs.iter().enumerate() {
            while let Some((at, job)) = processor.pop(ms(arrival)) {
                done.push((job, at));
            }
            processor.begin(ms(arrival), ms(work), number);
        }
        assert!(processor.jobs() > 0);
        while let Some((at, job)) = processor.pop(ms(100_000)) {
            done.push((job, at));
        }
        let expected: Vec<_> = expected.iter().map(|&(job, at)| (job, ms(at))).collect();
        assert_eq!(done, expected, "{discipline:?}");
        let work = jobs.iter().map(|(_, work)| work).sum();
        assert_eq!(processor.busy(), ms(work));
    }

    #[test]
    fn first_come_first_served() {
        let jobs = [(0, 30), (10, 10), (20, 5), (100, 1)];
        check(
            Discipline::Fifo,
            &jobs,
            &[(0, 30), (1, 40), (2, 45), (3, 101)],
        );
    }

    #[test]
    fn short_jobs_overtake_where_the_processor_is_shared() {
        let jobs = [(0, 30), (10, 10), (100, 1)];
        check(
            Discipline::ProcessorSharing,
            &jobs,
            &[(1, 30), (0, 40), (2, 101)],
        );
    }

    #[test]
    fn equal_jobs_are_done_together_in_their_order() {
        let jobs = [(0, 10), (0, 10), (0, 10)];
        check(
            Discipline::ProcessorSharing,
            &jobs,
            &[(0, 30), (1, 30), (2, 30)],
        );
    }

    #[test]
    fn a_stall_stops_the_work() {
        for discipline in [Discipline::Fifo, Discipline::ProcessorSharing] {
            let mut processor = Processor::new(discipline);
            processor.begin(ms(0), ms(30), ());
            processor.stall(ms(10), ms(1_000));
            assert_eq!(processor.backlog(ms(10)), ms(1_020));
            assert_eq!(processor.resumes_at(), ms(1_010));
            processor.stall(ms(20), ms(100));
            processor.begin(ms(500), ms(10), ());
            assert_eq!(processor.backlog(ms(500)), ms(640));
            assert_eq!(processor.pop(ms(1_119)), None);
            processor.pop(ms(2_000)).unwrap();
            assert_eq!(processor.pop(ms(2_000)), Some((ms(1_140), ())));
            assert_eq!((processor.busy(), processor.pop(ms(9_999))), (ms(40), None));
        }
    }

    #[test]
    fn speed_changes_what_is_left() {
        let mut processor = Processor::new(Discipline::Fifo);
        processor.begin(ms(0), ms(30), ());
        processor.set_speed(ms(10), 0.5);
        assert_eq!(processor.backlog(ms(10)), ms(40));
        assert_eq!(processor.deadline(), Some(ms(50)));
        processor.set_speed(ms(30), 2.0);
        assert_eq!(processor.pop(ms(35)), Some((ms(35), ())));
        assert_eq!(processor.backlog(ms(35)), Duration::ZERO);
    }

    /// The driver's grain does not change when jobs are done.
    #[test]
    fn shared_work_is_exact_over_many_jobs() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut processor = Processor::new(Discipline::ProcessorSharing);
        let (mut now, mut work) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..100_000 {
            now += Duration::from_nanos(rng.u64(..2_000_000));
            while processor.pop(now).is_some() {}
            let job = Duration::from_nanos(rng.u64(..2_000_000));
            processor.begin(now, job, ());
            work += job;
        }
        while processor.pop(Duration::MAX).is_some() {}
        assert!(processor.busy().abs_diff(work) < Duration::from_millis(1));
    }
}
