use std::time::Duration;

use fastrand::Rng;

use crate::law::exponential;

/// When calls start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Open loop: at this rate, whatever becomes of them. Latencies count from the scheduled time,
    /// so that a late caller does not hide a slow server.
    Open(Rate, Stream),
    /// Closed loop: this many are always in progress.
    Window(usize),
}

/// How many calls start per second, over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Always as many per second.
    Constant(f64),
    /// In steps from one rate to another, and then at the latter.
    Ramp(Ramp),
}

/// A rate that rises or falls in steps. All rates are per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ramp {
    /// The first.
    pub from: f64,
    /// The last.
    pub to: f64,
    /// The size of a step; positive, in either direction.
    pub step: f64,
    /// How long each rate is held.
    pub every: Duration,
}

/// How arrivals are spaced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stream {
    /// At a constant pace.
    Even,
    /// A Poisson stream: each comes by itself.
    Poisson,
    /// A Poisson stream that switches between two rates (a Markov-modulated Poisson process of two
    /// states). In the long run the mean is that of [`Rate`].
    Bursty(Bursts),
}

/// Calm times and bursts, both of exponentially distributed length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// The rate in a burst over the rate in calm times; at least 1.
    pub ratio: f64,
    /// The mean length of a calm time.
    pub calm: Duration,
    /// The mean length of a burst.
    pub burst: Duration,
}

impl Arrivals {
    /// Constant spacing, with `per_s` arrivals per second.
    #[must_use]
    pub fn paced(per_s: f64) -> Self {
        Self::Open(Rate::Constant(per_s), Stream::Even)
    }

    /// A Poisson stream, `per_s` in a second.
    #[must_use]
    pub fn poisson(per_s: f64) -> Self {
        Self::Open(Rate::Constant(per_s), Stream::Poisson)
    }
}

impl Rate {
    /// The rate after this time, and for how much longer it stays.
    #[must_use]
    pub fn at(&self, elapsed: Duration) -> (f64, Duration) {
        match *self {
            Self::Constant(per_s) => (per_s, Duration::MAX),
            Self::Ramp(ramp) => ramp.at(elapsed),
        }
    }
}

impl Ramp {
    /// The time to the end of the last step.
    #[must_use]
    pub fn lasting(&self) -> Duration {
        self.every.mul_f64(self.steps() + 1.0)
    }

    fn steps(&self) -> f64 {
        ((self.to - self.from).abs() / self.step).ceil()
    }

    fn at(&self, elapsed: Duration) -> (f64, Duration) {
        let step = elapsed.as_nanos() / self.every.as_nanos().max(1);
        if step as f64 >= self.steps() {
            return (self.to, Duration::MAX);
        }
        let signed = self.step.copysign(self.to - self.from);
        let held_ns = elapsed.as_nanos() - step * self.every.as_nanos();
        let held = Duration::from_nanos(u64::try_from(held_ns).unwrap_or(u64::MAX));
        (self.from + signed * step as f64, self.every - held)
    }
}

impl Bursts {
    /// The rate in calm times as a share of the mean rate.
    fn calm_share(&self) -> f64 {
        let (calm, burst) = (self.calm.as_secs_f64(), self.burst.as_secs_f64());
        (calm + burst) / (calm + self.ratio * burst)
    }
}

/// Draws the arrivals of an open loop one after another.
#[derive(Debug)]
pub(crate) struct Schedule {
    rate: Rate,
    stream: Stream,
    zero: Duration,
    last: Duration,
    in_burst: bool,
    phase_end: Duration,
}

impl Schedule {
    /// Arrivals after `zero`.
    pub(crate) fn new(rate: Rate, stream: Stream, zero: Duration, rng: &mut Rng) -> Self {
        let phase_end = match stream {
            Stream::Bursty(bursts) => zero.saturating_add(bursts.calm.mul_f64(exponential(rng))),
            Stream::Even | Stream::Poisson => Duration::MAX,
        };
        Self {
            rate,
            stream,
            zero,
            last: zero,
            in_burst: false,
            phase_end,
        }
    }

    /// The next arrival; never: [`Duration::MAX`].
    ///
    /// A stream of rate 1 is stretched so that the rate's integral from one arrival to the next is
    /// what the former's interval was.
    pub(crate) fn next(&mut self, rng: &mut Rng) -> Duration {
        let mut ahead = match self.stream {
            Stream::Even => 1.0,
            Stream::Poisson | Stream::Bursty(_) => exponential(rng),
        };
        loop {
            let (per_s, constant_until) = self.per_s();
            let passed = (constant_until - self.last).as_secs_f64() * per_s;
            if passed >= ahead {
                let interval = Duration::try_from_secs_f64(ahead / per_s).unwrap_or(Duration::MAX);
                self.last = self.last.saturating_add(interval);
                return self.last;
            }
            if constant_until == Duration::MAX {
                return Duration::MAX;
            }
            ahead -= passed;
            self.last = constant_until;
            self.change_phase(rng);
        }
    }

    /// The rate after the last arrival, and until when it stays.
    fn per_s(&self) -> (f64, Duration) {
        let (mean, stays) = self.rate.at(self.last - self.zero);
        let until = self.last.saturating_add(stays).min(self.phase_end);
        let share = match self.stream {
            Stream::Bursty(bursts) if self.in_burst => bursts.calm_share() * bursts.ratio,
            Stream::Bursty(bursts) => bursts.calm_share(),
            Stream::Even | Stream::Poisson => 1.0,
        };
        (mean * share, until)
    }

    fn change_phase(&mut self, rng: &mut Rng) {
        if let Stream::Bursty(bursts) = self.stream
            && self.last == self.phase_end
        {
            self.in_burst = !self.in_burst;
            let mean = if self.in_burst {
                bursts.burst
            } else {
                bursts.calm
            };
            let lasting = mean.mul_f64(exponential(rng));
            self.phase_end = self.last.saturating_add(lasting);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    /// Arrivals in each of the first `seconds` seconds.
    fn by_second(rate: Rate, stream: Stream, seconds: usize) -> Vec<u64> {
        let mut rng = Rng::with_seed(7);
        let mut schedule = Schedule::new(rate, stream, S, &mut rng);
        let mut counts = vec![0; seconds];
        while let Some(count) = counts.get_mut((schedule.next(&mut rng) - S).as_secs() as usize) {
            *count += 1;
        }
        counts
    }

    /// The mean of a second, and the variance over the mean, which is 1 for Poisson.
    fn moments(counts: &[u64]) -> (f64, f64) {
        let seconds = counts.len() as f64;
        let mean = counts.iter().sum::<u64>() as f64 / seconds;
        let square = |count: &u64| (*count as f64 - mean).powi(2);
        let variance = counts.iter().map(square).sum::<f64>() / seconds;
        (mean, variance / mean)
    }

    #[test]
    fn a_constant_rate_is_kept() {
        let rate = Rate::Constant(100.0);
        let (mean, dispersion) = moments(&by_second(rate, Stream::Even, 1_000));
        assert!((mean - 100.0).abs() < 0.1 && dispersion < 0.02);
        let (mean, dispersion) = moments(&by_second(rate, Stream::Poisson, 10_000));
        assert!((mean - 100.0).abs() < 1.0 && (dispersion - 1.0).abs() < 0.1);
    }

    #[test]
    fn bursts_keep_the_mean() {
        let bursts = Bursts {
            ratio: 10.0,
            calm: 9 * S,
            burst: S,
        };
        let rate = Rate::Constant(100.0);
        let counts = by_second(rate, Stream::Bursty(bursts), 100_000);
        let (mean, dispersion) = moments(&counts);
        assert!((mean - 100.0).abs() < 2.0, "{mean}");
        assert!(dispersion > 30.0, "{dispersion}");
    }

    #[test]
    fn a_ramp_goes_in_steps_and_stays_at_its_end() {
        let ramp = |from, to, step| Ramp {
            from,
            to,
            step,
            every: 2 * S,
        };
        let check = |ramp: Ramp, expected: [u64; 10]| {
            let counts = by_second(Rate::Ramp(ramp), Stream::Even, 10);
            let near = |(count, expected): (&u64, u64)| count.abs_diff(expected) <= 1;
            assert!(counts.iter().zip(expected).all(near), "{counts:?}");
        };
        let up = ramp(10.0, 35.0, 10.0);
        check(up, [10, 10, 20, 20, 30, 30, 35, 35, 35, 35]);
        assert_eq!(up.lasting(), 8 * S);
        let down = ramp(30.0, 10.0, 10.0);
        check(down, [30, 30, 20, 20, 10, 10, 10, 10, 10, 10]);
    }

    #[test]
    fn a_rate_of_zero_brings_nothing() {
        let mut rng = Rng::with_seed(1);
        let rate = Rate::Constant(0.0);
        let mut schedule = Schedule::new(rate, Stream::Poisson, S, &mut rng);
        assert_eq!(schedule.next(&mut rng), Duration::MAX);
    }
}
