//! What a public network adds to a world: NATs that rebind, servers that hang up, and strangers.

use std::{net::IpAddr, time::Duration};

use fastrand::Rng;
use load::Law;

use super::attack::Attack;

/// What is not drawn yet: a node that holds each silence against a server, or believes any ICMP, loses
/// servers to the first three; one that passes on any response relays the last.
const NOT_WITHSTOOD: [Attack; 0] = [];

/// Sets what is drawn here apart from the rest of the plan.
const OWN_STREAM: u64 = 0x7075_626c_6963;

/// The public part of a plan. Callers are numbers.
#[derive(Clone, Debug)]
pub struct Public {
    /// The NAT before each caller.
    pub nats: Vec<Option<NatPlan>>,
    /// The time from an ACK to the server's own BYE; none: callers end the calls.
    pub hang_up: Option<Law>,
    /// Strangers see and send again what others sent, besides what is sent to them.
    pub is_tapped: bool,
    /// What happens, sorted by time.
    pub deeds: Vec<(Duration, Deed)>,
}

/// A NAT, and what the caller does about it.
#[derive(Clone, Copy, Debug)]
pub struct NatPlan {
    /// A mapping on which nothing was sent for so long is dropped.
    pub idle_max: Duration,
    /// The caller keeps its mappings alive.
    pub is_kept_alive: bool,
}

/// What happens on a public network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A caller's NAT forgets all mappings.
    Rebind(usize),
    /// A stranger attacks.
    Attack(Attack),
}

impl Deed {
    pub(super) fn text(self) -> String {
        match self {
            Self::Rebind(caller) => format!("the NAT before caller {caller} rebinds"),
            Self::Attack(attack) => format!("{attack:?}"),
        }
    }
}

impl Public {
    /// Draws the public part of a seed's plan; every second seed has none.
    pub(super) fn draw(seed: u64, callers: usize, until: Duration) -> Option<Self> {
        let mut rng = Rng::with_seed(seed ^ OWN_STREAM);
        let rng = &mut rng;
        if rng.bool() {
            return None;
        }
        let nats: Vec<_> = (0..callers).map(|_| rng.bool().then(|| nat(rng))).collect();
        let hang_up = rng.bool().then(|| {
            let mean = Duration::from_millis(rng.u64(0..15_000));
            Law::Exponential(mean)
        });
        let is_tapped = rng.u8(..3) == 0;
        let mut deeds = Vec::new();
        if rng.u8(..4) > 0 {
            let every = Duration::from_millis(rng.u64(50..2_000));
            deeds.extend(moments(rng, every, until, |rng| {
                Deed::Attack(attack(rng, is_tapped))
            }));
        }
        if rng.u8(..3) > 0 {
            let every = Duration::from_secs(rng.u64(2..20));
            let rebinds = moments(rng, every, until, |rng| Deed::Rebind(rng.usize(..callers)));
            deeds.extend(rebinds);
        }
        deeds.sort_by_key(|(at, _)| *at);
        Some(Self {
            nats,
            hang_up,
            is_tapped,
            deeds,
        })
    }

    /// Whether every caller behind a NAT keeps its mappings alive.
    #[must_use]
    pub fn is_kept_alive(&self) -> bool {
        self.nats.iter().flatten().all(|nat| nat.is_kept_alive)
    }
}

impl NatPlan {
    /// How often its caller sends keep-alives.
    #[must_use]
    pub fn keep_alive(self) -> Option<Duration> {
        self.is_kept_alive.then_some(self.idle_max / 2)
    }
}

/// The public address of the NAT before this caller.
pub(super) fn nat_ip(caller: usize) -> IpAddr {
    IpAddr::from([203, 0, 113, caller as u8 + 1])
}

/// The address that a caller behind a NAT knows itself by.
pub(super) fn private_ip(caller: usize) -> IpAddr {
    IpAddr::from([192, 168, caller as u8 + 1, 2])
}

fn nat(rng: &mut Rng) -> NatPlan {
    NatPlan {
        idle_max: Duration::from_secs(rng.u64(40..180)),
        is_kept_alive: rng.bool(),
    }
}

fn attack(rng: &mut Rng, is_tapped: bool) -> Attack {
    loop {
        let attack = Attack::ALL[rng.usize(..Attack::ALL.len())];
        let is_possible = is_tapped || !attack.needs_tap();
        if is_possible && !NOT_WITHSTOOD.contains(&attack) {
            return attack;
        }
    }
}

fn moments(
    rng: &mut Rng,
    every: Duration,
    until: Duration,
    draw: impl Fn(&mut Rng) -> Deed,
) -> Vec<(Duration, Deed)> {
    let pause = Law::Exponential(every);
    let mut at = pause.sample(rng);
    let mut deeds = Vec::new();
    while at < until {
        deeds.push((at, draw(rng)));
        at += pause.sample(rng);
    }
    deeds
}
