//! What a client keeps of a server's terms, and obeys.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use fastrand::Rng;

use crate::terms::{Algorithm, Terms, pack, unpack};

/// How many intervals between requests a bucket holds at least: RFC 7415 §3.5.1's TAU, and that of requests which
/// come first, §3.5.2.
const TOLERANCE: u64 = 4;
const TOLERANCE_FIRST: u64 = 8;

/// The same in nanoseconds. Calls come by chance: of 1,000 a second, four intervals leave 7 to 9 % of the rate unused.
const TOLERANCE_NS: u64 = 10_000_000;
const TOLERANCE_FIRST_NS: u64 = 20_000_000;

/// The longest validity that is believed. A server that stays in need repeats itself.
const VALIDITY_MAX: Duration = Duration::from_secs(60);

/// Terms with a lower sequence number are late for so long. After that the server counts anew.
const LATE_FOR: Duration = Duration::from_secs(5);

/// Requests by how soon they are withheld. Those that belong to something that has begun never are. RFC 7339 §5.10.1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It repeats what was sent and not answered: it has no claim on a rate that others use up.
    Repeated,
    /// It begins something.
    New,
    /// The same, in an emergency: it is withheld when nothing else is left to withhold.
    Emergency,
}

/// What one server has told its client to withhold, shared by all threads.
#[derive(Debug, Default)]
pub struct Restriction {
    terms: AtomicU64,
    /// Until when they hold, in nanoseconds.
    until: AtomicU64,
    sequence: AtomicU64,
    /// Until when lower sequence numbers are late.
    late_until: AtomicU64,
    /// When the bucket is empty: RFC 7415 §3.5.1's LCT + X.
    empty_at: AtomicU64,
}

impl Restriction {
    /// Takes a server's terms. False: they are no news, because they are late or are known.
    pub fn observe(&self, now: Duration, terms: &Terms) -> bool {
        let at = ns(now);
        if let Some(sequence) = terms.sequence {
            let is_late = sequence <= self.sequence.load(Relaxed);
            if is_late && at < self.late_until.load(Relaxed) {
                return false;
            }
            self.sequence.store(sequence, Relaxed);
            self.late_until.store(ns(now + LATE_FOR), Relaxed);
        }
        if let (Some(new), Some(old)) = (interval(terms), self.interval(now)) {
            self.stretch(at, new as f64 / old as f64);
        }
        if let Some(interval) = interval(terms) {
            let most = at + tolerance(Class::Emergency, interval) + interval;
            self.empty_at.fetch_min(most, Relaxed);
        }
        self.terms.store(pack(terms), Relaxed);
        let until = match terms.validity.min(VALIDITY_MAX) {
            Duration::ZERO => 0,
            validity => ns(now + validity),
        };
        self.until.store(until, Relaxed);
        true
    }

    /// The bucket holds as many requests as before, although each lasts so many times as long.
    fn stretch(&self, at: u64, times: f64) {
        let stretch = |empty_at: u64| {
            let content = empty_at.checked_sub(at)?;
            Some(at + (content as f64 * times) as u64)
        };
        let _ = self.empty_at.fetch_update(Relaxed, Relaxed, stretch);
    }

    fn interval(&self, now: Duration) -> Option<u64> {
        interval(&self.terms(now)?)
    }

    /// Forgets the terms: the server is not one that has any.
    pub fn forget(&self) {
        self.until.store(0, Relaxed);
    }

    /// Whether the server has terms.
    #[must_use]
    pub fn is_active(&self, now: Duration) -> bool {
        ns(now) < self.until.load(Relaxed)
    }

    /// The terms, if the server has any.
    #[must_use]
    pub fn terms(&self, now: Duration) -> Option<Terms> {
        let sequence = Some(self.sequence.load(Relaxed));
        self.is_active(now)
            .then(|| unpack(self.terms.load(Relaxed), sequence))
    }

    /// Whether a request may go to the server. `draw` decides under loss: evenly spread among requests,
    /// the same for each copy of one. Who sends the request says so by [`Self::pass`].
    #[must_use]
    pub fn admits(&self, now: Duration, class: Class, draw: u64) -> bool {
        let Some(terms) = self.terms(now) else {
            return true;
        };
        match (terms.algorithm, class) {
            // Its first copy was drawn for all.
            (Algorithm::Loss, Class::Repeated) => true,
            (Algorithm::Loss, Class::New) => percent(draw) >= terms.value,
            (Algorithm::Loss, Class::Emergency) => terms.value < 100,
            (Algorithm::Rate, class) => self.has_room(now, &terms, class),
        }
    }

    /// A request goes to the server.
    pub fn pass(&self, now: Duration) {
        if let Some(interval) = self.interval(now) {
            let at = ns(now);
            let add = |empty_at: u64| Some(empty_at.max(at) + scattered(interval, at));
            let _ = self.empty_at.fetch_update(Relaxed, Relaxed, add);
        }
    }

    fn has_room(&self, now: Duration, terms: &Terms, class: Class) -> bool {
        let content = self.empty_at.load(Relaxed).saturating_sub(ns(now));
        interval(terms).is_some_and(|interval| content <= tolerance(class, interval))
    }
}

/// How much a bucket may hold before a request of this class has no room: RFC 7415 §3.5.1's TAU in nanoseconds.
fn tolerance(class: Class, interval: u64) -> u64 {
    match class {
        Class::Emergency => TOLERANCE_FIRST_NS.max(TOLERANCE_FIRST * interval),
        Class::New => TOLERANCE_NS.max(TOLERANCE * interval),
        Class::Repeated => 0,
    }
}

/// RFC 7415 §3.5.1's T in nanoseconds. None: nothing may be sent, or there is no rate.
fn interval(terms: &Terms) -> Option<u64> {
    let is_rate = terms.algorithm == Algorithm::Rate && terms.restrict();
    (is_rate && terms.value > 0).then(|| 1_000_000_000 / u64::from(terms.value))
}

/// A long interval is half to one and a half times as long by chance: many clients that are told a rate at the same time would
/// keep sending at the same time. RFC 7415 §3.5.3 does so when a bucket was empty, and in an overload none ever is.
fn scattered(interval: u64, at: u64) -> u64 {
    match interval <= TOLERANCE_NS {
        true => interval,
        false => interval / 2 + Rng::with_seed(at).u64(..interval),
    }
}

/// A draw as one of 0 to 99.
fn percent(draw: u64) -> u32 {
    ((u128::from(draw) * 100) >> 64) as u32
}

fn ns(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn terms(algorithm: Algorithm, value: u32, validity: u64, sequence: u64) -> Terms {
        Terms {
            algorithm,
            value,
            validity: ms(validity),
            sequence: Some(sequence),
        }
    }

    fn told(algorithm: Algorithm, value: u32, validity: u64) -> Restriction {
        let restriction = Restriction::default();
        assert!(restriction.observe(ms(0), &terms(algorithm, value, validity, 1)));
        restriction
    }

    /// Numbers spread as a hash is.
    fn draw(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn a_loss_withholds_its_percentage_and_the_same_requests_each_time() {
        for value in [0, 1, 37, 99, 100, 250] {
            let restriction = told(Algorithm::Loss, value, 500);
            let admitted = |number| restriction.admits(ms(1), Class::New, draw(number));
            let passed = (0..100_000).filter(|&number| admitted(number)).count();
            let expected = 1_000 * (100_usize).saturating_sub(value as usize);
            assert!(passed.abs_diff(expected) < 200, "{value}: {passed}");
            assert!((0..100).all(|number| admitted(number) == admitted(number)));
        }
    }

    /// RFC 7415 §3.5.1
    #[test]
    fn a_rate_holds_for_whatever_is_offered() {
        for (rate, offered) in [(10, 1_000), (100, 1_000), (100, 50), (1, 10), (900, 1_000)] {
            let restriction = told(Algorithm::Rate, rate, 60_000);
            let mut passed = 0;
            for number in 0..20 * offered {
                let now = ms(number * 1_000 / offered);
                if restriction.admits(now, Class::New, 0) {
                    restriction.pass(now);
                    passed += 1;
                }
            }
            let expected = 20 * u64::from(rate).min(offered);
            let most = expected + TOLERANCE.max(u64::from(rate) / 100) + 1;
            let chance = if rate < 100 { expected.isqrt() } else { 0 };
            let likely = expected - chance..=most + chance;
            assert!(likely.contains(&passed), "{rate}: {passed}");
        }
    }

    /// 500 clients that were told two requests a second sent in waves, one each half second: their server was idle for a tenth of
    /// the time. RFC 7415 §3.5.3
    #[test]
    fn clients_that_are_told_at_once_do_not_send_at_once() {
        let clients: Vec<_> = (0..500).map(|_| told(Algorithm::Rate, 2, 60_000)).collect();
        let mut sent = [0; 100];
        for tick in 0..10_000 {
            let now = ms(tick) + Duration::from_nanos(tick * 12_345 % 1_000_000);
            for (number, client) in clients.iter().enumerate() {
                let now = now + Duration::from_nanos(number as u64);
                if client.admits(now, Class::New, 0) {
                    client.pass(now);
                    sent[tick as usize / 100] += 1;
                }
            }
        }
        let later = &sent[50..];
        let (least, most) = (later.iter().min().unwrap(), later.iter().max().unwrap());
        assert!(*least > 60 && *most < 140, "{least} to {most} of 100");
        let all: u32 = later.iter().sum();
        assert!(all.abs_diff(5_000) < 100, "{all}");
    }

    /// A bucket of four intervals was empty too often: 7 % of the rate stayed unused while more came than that.
    #[test]
    fn calls_that_come_by_chance_use_the_rate_up() {
        let restriction = told(Algorithm::Rate, 1_000, 60_000);
        let mut rng = Rng::with_seed(1);
        let (mut at, mut passed) = (0.0, 0);
        while at < 20.0 {
            at -= (1.0 - rng.f64()).ln() / 1_080.0;
            let now = Duration::from_secs_f64(at);
            if restriction.admits(now, Class::New, 0) {
                restriction.pass(now);
                passed += 1;
            }
        }
        assert!((19_600..=20_011).contains(&passed), "{passed}");
    }

    #[test]
    fn at_rate_zero_nothing_new_passes() {
        let restriction = told(Algorithm::Rate, 0, 500);
        assert!(!restriction.admits(ms(0), Class::New, u64::MAX));
        assert!(!restriction.admits(ms(499), Class::Emergency, u64::MAX));
        assert!(restriction.admits(ms(500), Class::New, 0), "it has expired");
    }

    /// Copies had an equal claim on the rate, so for two seconds after a step a hundredth of the calls was answered 1.5 s late.
    #[test]
    fn copies_go_only_if_some_of_the_rate_is_left() {
        let rate = told(Algorithm::Rate, 100, 60_000);
        assert!(rate.admits(ms(1), Class::Repeated, 0));
        rate.pass(ms(1));
        assert!(rate.admits(ms(2), Class::New, 0) && !rate.admits(ms(2), Class::Repeated, 0));
        assert!(rate.admits(ms(11), Class::Repeated, 0));
        let loss = told(Algorithm::Loss, 99, 500);
        assert!(loss.admits(ms(1), Class::Repeated, 0));
    }

    #[test]
    fn emergencies_are_withheld_last() {
        let loss = told(Algorithm::Loss, 99, 500);
        assert!(loss.admits(ms(1), Class::Emergency, 0) && !loss.admits(ms(1), Class::New, 0));
        let rate = told(Algorithm::Rate, 10, 500);
        while rate.admits(ms(1), Class::New, 0) {
            rate.pass(ms(1));
        }
        assert!(rate.admits(ms(1), Class::Emergency, 0));
    }

    #[test]
    fn zero_validity_ends_control_and_what_is_late_does_not_bring_it_back() {
        for algorithm in [Algorithm::Loss, Algorithm::Rate] {
            let restriction = told(algorithm, 0, 5_000);
            assert!(restriction.is_active(ms(1)));
            assert!(restriction.observe(ms(1), &terms(algorithm, 0, 0, 3)));
            assert!(!restriction.is_active(ms(1)));
            assert!(restriction.admits(ms(1), Class::New, 0));
            for late in [1, 2, 3] {
                assert!(!restriction.observe(ms(2), &terms(algorithm, 0, 500, late)));
            }
            assert!(restriction.observe(ms(3), &terms(algorithm, 0, 500, 4)));
            assert!(restriction.is_active(ms(3)));
        }
    }

    /// RFC 7339 §4.4: a server that starts anew may count from one again.
    #[test]
    fn a_server_may_count_anew() {
        let restriction = told(Algorithm::Loss, 10, 500);
        assert!(restriction.observe(ms(1), &terms(Algorithm::Loss, 10, 500, 1_000)));
        assert!(!restriction.observe(ms(4_000), &terms(Algorithm::Loss, 20, 500, 2)));
        assert!(restriction.observe(ms(5_002), &terms(Algorithm::Loss, 20, 500, 2)));
    }

    /// A bucket that filled at one request per second held a client back for seconds after its server had granted more.
    /// After it had granted less, the client sent five at once.
    #[test]
    fn another_rate_holds_at_once() {
        for (before, after) in [(1, 100), (1, 2), (2, 1), (100, 1)] {
            let restriction = told(Algorithm::Rate, before, 5_000);
            while restriction.admits(ms(1), Class::New, 0) {
                restriction.pass(ms(1));
            }
            assert!(restriction.observe(ms(1), &terms(Algorithm::Rate, after, 5_000, 2)));
            let interval = 1_000 / u64::from(after);
            let [early, late] = [interval / 2 - 1, 1 + interval * 3 / 2];
            let admits = |at| restriction.admits(ms(at), Class::New, 0);
            assert!(!admits(early) && admits(late), "{before}, {after}");
        }
    }

    #[test]
    fn no_server_may_withhold_for_long() {
        let restriction = told(Algorithm::Loss, 100, u64::from(u32::MAX));
        assert!(!restriction.admits(ms(59_999), Class::New, u64::MAX));
        assert!(restriction.admits(ms(60_000), Class::New, 0));
    }
}
