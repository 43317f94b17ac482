//! Senders that obey, and one server, on virtual time.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::{collections::VecDeque, time::Duration};

use overload::{Algorithm, Class, Neighbour, Neighbours, Restriction, Terms};
use proptest::prelude::*;

/// From a sender to the server, and back.
const DELAY: Duration = Duration::from_millis(2);
const STEP: Duration = Duration::from_micros(250);

fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// Wants to send at a rate, with gaps as of a Poisson process.
struct Sender {
    key: u64,
    weight: u16,
    wants_per_s: f64,
    /// None: it takes no part.
    algorithm: Option<Algorithm>,
    restriction: Restriction,
    next_at: Duration,
    answers: VecDeque<(Duration, Terms)>,
    wanted: u32,
    sent: u32,
    served: u32,
}

struct Farm {
    now: Duration,
    server: Neighbours,
    capacity_per_s: f64,
    senders: Vec<Sender>,
    random: u64,
    offered: u32,
    /// Tokens of the server: what it can take right now.
    room: f64,
}

impl Farm {
    fn new(capacity_per_s: f64, senders: &[(f64, Option<Algorithm>)]) -> Self {
        let sender =
            |(key, &(wants_per_s, algorithm)): (usize, &(f64, Option<Algorithm>))| Sender {
                key: (key as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
                weight: 1,
                wants_per_s,
                algorithm,
                restriction: Restriction::default(),
                next_at: Duration::ZERO,
                answers: VecDeque::new(),
                wanted: 0,
                sent: 0,
                served: 0,
            };
        let server = Neighbours::new(1);
        server.set_capacity(0, Some(capacity_per_s));
        Self {
            now: s(1),
            server,
            capacity_per_s,
            senders: senders.iter().enumerate().map(sender).collect(),
            random: 7,
            offered: 0,
            room: 0.0,
        }
    }

    fn all_alike(number: usize, capacity_per_s: f64, times: f64, algorithm: Algorithm) -> Self {
        let wants = capacity_per_s * times / number as f64;
        Self::new(capacity_per_s, &vec![(wants, Some(algorithm)); number])
    }

    fn draw(&mut self) -> u64 {
        self.random = self
            .random
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(1);
        let mixed = (self.random >> 32 ^ self.random).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        for sender in &mut self.senders {
            (sender.wanted, sender.sent, sender.served) = (0, 0, 0);
        }
        self.offered = 0;
        while self.now < end {
            self.now += STEP;
            let most = self.capacity_per_s * 0.05;
            self.room = (self.room + self.capacity_per_s * STEP.as_secs_f64()).min(most.max(1.0));
            let first = self.draw() as usize % self.senders.len();
            for index in 0..self.senders.len() {
                self.step((first + index) % self.senders.len());
            }
        }
    }

    fn step(&mut self, index: usize) {
        loop {
            let draws = (self.draw(), self.draw());
            let (now, sender) = (self.now, &mut self.senders[index]);
            while let Some((_, terms)) = sender.answers.pop_front_if(|(at, _)| *at <= now) {
                sender.restriction.observe(now, &terms);
            }
            if sender.wants_per_s <= 0.0 || sender.next_at > now {
                return;
            }
            let uniform = (draws.0 >> 11) as f64 / (1_u64 << 53) as f64;
            let gap = -(1.0 - uniform).ln() / sender.wants_per_s;
            sender.next_at = sender.next_at.max(now - STEP) + Duration::from_secs_f64(gap);
            sender.wanted += 1;
            if !sender.restriction.admits(now, Class::New, draws.1) {
                continue;
            }
            sender.restriction.pass(now);
            sender.sent += 1;
            self.offered += 1;
            let Sender { key, weight, .. } = *sender;
            self.server
                .note(now, Neighbour { key, weight }, sender.algorithm, 1);
            if let Some(terms) = self.server.terms(now, sender.key) {
                sender.answers.push_back((now + 2 * DELAY, terms));
            }
            if self.room >= 1.0 {
                self.room -= 1.0;
                sender.served += 1;
            }
        }
    }

    fn served(&self) -> Vec<f64> {
        let served = self.senders.iter().map(|sender| f64::from(sender.served));
        served.collect()
    }

    /// The part of the capacity that is used in a time.
    fn goodput(&mut self, time: Duration) -> f64 {
        self.run(time);
        self.served().iter().sum::<f64>() / (self.capacity_per_s * time.as_secs_f64())
    }

    /// What comes, relative to the capacity.
    fn pressure(&mut self, time: Duration) -> f64 {
        self.run(time);
        f64::from(self.offered) / (self.capacity_per_s * time.as_secs_f64())
    }
}

fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

const BOTH: [Algorithm; 2] = [Algorithm::Loss, Algorithm::Rate];

#[test]
fn the_whole_capacity_is_used_and_hardly_more_comes() {
    for algorithm in BOTH {
        for (number, least) in [(1, 0.95), (3, 0.95), (10, 0.95), (100, 0.90)] {
            for times in [2.0, 5.0, 10.0, 12.5] {
                let mut farm = Farm::all_alike(number, 1_000.0, times, algorithm);
                farm.run(s(2));
                let goodput = farm.goodput(s(10));
                let pressure = farm.pressure(s(10));
                let case =
                    format!("{algorithm:?} of {number}, {times} x: {goodput:.3} of {pressure:.3}");
                assert!(goodput >= least, "{case}");
                // Who withholds a part sends by chance, at times less than the capacity.
                let least = if algorithm == Algorithm::Rate {
                    1.0
                } else {
                    least
                };
                assert!((least..1.25).contains(&pressure), "{case}");
            }
        }
    }
}

/// Offered 3:2:1, all get the same.
#[test]
fn shares_are_equal_whatever_is_offered() {
    for algorithm in BOTH {
        for times in [2.0, 5.0, 10.0] {
            let of = |part: f64| (1_000.0 * times * part / 6.0, Some(algorithm));
            let mut farm = Farm::new(1_000.0, &[of(3.0), of(2.0), of(1.0)]);
            farm.run(s(2));
            farm.run(s(10));
            let served = farm.served();
            // At 2 x, the least of them wants as much as its share.
            assert!(jain(&served) >= 0.98, "{algorithm:?}: {served:?}");
        }
    }
}

#[test]
fn shares_are_in_proportion_to_weights() {
    for algorithm in BOTH {
        let mut farm = Farm::all_alike(3, 1_000.0, 10.0, algorithm);
        for (sender, weight) in farm.senders.iter_mut().zip([3, 2, 1]) {
            sender.weight = weight;
        }
        farm.run(s(2));
        farm.run(s(10));
        let parts = farm.served().into_iter().zip([3.0, 2.0, 1.0]);
        let parts: Vec<f64> = parts.map(|(served, weight)| served / weight).collect();
        assert!(jain(&parts) >= 0.98, "{algorithm:?}: {parts:?}");
        assert!(
            parts.iter().sum::<f64>() > 4_700.0,
            "{algorithm:?}: {parts:?}"
        );
    }
}

#[test]
fn who_wants_less_than_its_share_may_send_it() {
    for algorithm in BOTH {
        let wants = [
            (5_000.0, Some(algorithm)),
            (3_000.0, Some(algorithm)),
            (100.0, Some(algorithm)),
        ];
        let mut farm = Farm::new(1_000.0, &wants);
        farm.run(s(2));
        farm.run(s(10));
        let served = farm.served();
        let least = &farm.senders[2];
        let part = f64::from(least.sent) / f64::from(least.wanted);
        assert!(part > 0.98, "{algorithm:?}: {part}");
        assert!(jain(&served[..2]) > 0.99, "{algorithm:?}: {served:?}");
    }
}

#[test]
fn a_step_is_met_within_a_second_and_forgotten_within_another() {
    for algorithm in BOTH {
        let mut farm = Farm::all_alike(3, 1_000.0, 0.5, algorithm);
        farm.server.set_capacity(0, None);
        let calm = farm.goodput(s(2));
        assert!((0.45..0.55).contains(&calm), "{calm}");
        farm.senders
            .iter_mut()
            .for_each(|sender| sender.wants_per_s *= 20.0);
        farm.server.set_capacity(0, Some(1_000.0));
        farm.run(s(1));
        let over = (farm.goodput(s(1)), farm.pressure(s(1)));
        assert!(over.0 > 0.95 && over.1 < 1.25, "{algorithm:?}: {over:?}");
        farm.senders
            .iter_mut()
            .for_each(|sender| sender.wants_per_s /= 20.0);
        farm.server.set_capacity(0, None);
        farm.run(s(1));
        let calm = farm.goodput(s(2));
        assert!((0.45..0.55).contains(&calm), "{algorithm:?}: {calm}");
    }
}

/// A server that takes a breath for a moment is not flooded.
#[test]
fn a_moment_of_relief_brings_no_flood() {
    for algorithm in BOTH {
        let mut farm = Farm::all_alike(3, 1_000.0, 10.0, algorithm);
        farm.run(s(3));
        farm.server.set_capacity(0, None);
        let relief = farm.pressure(Duration::from_millis(100));
        assert!(relief < 2.2, "{algorithm:?}: {relief}");
        farm.server.set_capacity(0, Some(1_000.0));
        farm.run(Duration::from_millis(500));
        let after = farm.pressure(s(2));
        assert!(after < 1.25, "{algorithm:?}: {after}");
    }
}

#[test]
fn capacity_that_halves_and_doubles_is_followed() {
    for algorithm in BOTH {
        let mut farm = Farm::all_alike(10, 1_000.0, 5.0, algorithm);
        farm.run(s(2));
        for capacity in [500.0, 1_000.0, 2_000.0] {
            farm.capacity_per_s = capacity;
            farm.server.set_capacity(0, Some(capacity));
            farm.run(s(1));
            let (goodput, pressure) = (farm.goodput(s(3)), farm.pressure(s(3)));
            let case = format!("{algorithm:?} {capacity}: {goodput:.3} of {pressure:.3}");
            assert!(goodput > 0.95 && pressure < 1.25, "{case}");
        }
    }
}

/// Who does not obey has a share, too, and leaves the others theirs.
#[test]
fn who_takes_no_part_has_no_more_room_than_the_others() {
    let rate = Some(Algorithm::Rate);
    let mut farm = Farm::new(
        1_000.0,
        &[(5_000.0, rate), (5_000.0, rate), (5_000.0, None)],
    );
    farm.run(s(3));
    let granted: Vec<f64> = farm
        .senders
        .iter()
        .map(|sender| farm.server.granted(sender.key))
        .collect();
    for granted in granted {
        assert!((340.0..360.0).contains(&granted), "{granted}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever they want: the capacity is used if there is demand for it, little more comes, and those
    /// who want more than their share get the same.
    #[test]
    fn any_demands_are_met_fairly(
        wants in prop::collection::vec(20.0..3_000.0_f64, 1..8),
        is_rate in any::<bool>(),
    ) {
        let algorithm = if is_rate { Algorithm::Rate } else { Algorithm::Loss };
        let senders: Vec<_> = wants.iter().map(|&wants| (wants, Some(algorithm))).collect();
        let mut farm = Farm::new(600.0, &senders);
        farm.run(s(3));
        farm.run(s(10));
        let all = 10.0 * wants.iter().sum::<f64>().min(600.0);
        // They want to send at random times, so by chance they want less.
        let least = 0.95 * all - 4.0 * all.sqrt();
        let served = farm.served();
        let goodput = served.iter().sum::<f64>();
        prop_assert!(goodput > least, "{goodput} of {all} by {served:?}");
        let level = 600.0 / wants.len() as f64;
        let greedy: Vec<f64> = wants
            .iter()
            .zip(&served)
            .filter_map(|(wants, served)| (*wants > 2.0 * level).then_some(*served))
            .collect();
        if greedy.len() > 1 {
            prop_assert!(jain(&greedy) > 0.98, "{greedy:?} of {served:?}");
        }
    }
}
