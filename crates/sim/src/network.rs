//! The network between the parties: latency, loss, copies, reordering, cuts and full queues.

use std::{collections::BTreeMap, time::Duration};

use fastrand::Rng;
use load::Law;

use crate::PartyId;

/// The properties of the way from one party to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// How long each datagram takes. If the time is random, datagrams may overtake each other.
    pub latency: Law,
    /// The share that is lost, 0 to 1.
    pub loss: f64,
    /// The share that arrives twice, 0 to 1.
    pub duplication: f64,
    /// The share that is held back so that others overtake it, 0 to 1.
    pub reordering: f64,
    /// How long those are held back.
    pub held_back: Duration,
    /// The limit of the rate.
    pub bottleneck: Option<Bottleneck>,
    /// Whether the link is cut, so that nothing passes.
    pub is_cut: bool,
}

/// A queue that datagrams leave one by one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bottleneck {
    /// How many leave it per second.
    pub per_s: f64,
    /// How many may wait in it; more are lost.
    pub waiting_max: u32,
}

/// The links between all parties.
#[derive(Debug)]
pub struct Network {
    rng: Rng,
    usual: Link,
    links: BTreeMap<(PartyId, PartyId), Link>,
    /// When the last datagram in a bottleneck's queue leaves it.
    free_at: BTreeMap<(PartyId, PartyId), Duration>,
}

/// What becomes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    Arrives(Duration),
    ArrivesTwice(Duration, Duration),
    Lost,
    Cut,
    Full,
}

impl Link {
    /// A link with this constant latency and no faults.
    #[must_use]
    pub fn clean(latency: Duration) -> Self {
        Self {
            latency: Law::Constant(latency),
            loss: 0.0,
            duplication: 0.0,
            reordering: 0.0,
            held_back: Duration::ZERO,
            bottleneck: None,
            is_cut: false,
        }
    }
}

impl Network {
    /// A network in which all links are the same.
    #[must_use]
    pub fn new(usual: Link, rng: Rng) -> Self {
        Self {
            rng,
            usual,
            links: BTreeMap::new(),
            free_at: BTreeMap::new(),
        }
    }

    /// The link from one party to another.
    #[must_use]
    pub fn link(&self, from: PartyId, to: PartyId) -> &Link {
        if self.links.is_empty() {
            return &self.usual;
        }
        self.links.get(&(from, to)).unwrap_or(&self.usual)
    }

    /// Changes the link from one party to another, in this direction only.
    pub fn link_mut(&mut self, from: PartyId, to: PartyId) -> &mut Link {
        self.links.entry((from, to)).or_insert(self.usual)
    }

    /// Resets all links to `usual`: cut links work again, and lossy links get the usual loss.
    pub fn set_usual(&mut self, usual: Link) {
        self.usual = usual;
        self.links.clear();
    }

    /// Cuts or repairs both directions between two parties.
    pub fn set_cut(&mut self, one: PartyId, other: PartyId, is_cut: bool) {
        self.link_mut(one, other).is_cut = is_cut;
        self.link_mut(other, one).is_cut = is_cut;
    }

    pub(crate) fn carry(&mut self, now: Duration, from: PartyId, to: PartyId) -> Passage {
        let link = *self.link(from, to);
        if link.is_cut {
            return Passage::Cut;
        }
        if self.happens(link.loss) {
            return Passage::Lost;
        }
        let Some(left) = self.leave(now, from, to, link.bottleneck) else {
            return Passage::Full;
        };
        let first = self.arrival(left, &link);
        if self.happens(link.duplication) {
            return Passage::ArrivesTwice(first, self.arrival(left, &link));
        }
        Passage::Arrives(first)
    }

    fn arrival(&mut self, left: Duration, link: &Link) -> Duration {
        let at = left + link.latency.sample(&mut self.rng);
        if self.happens(link.reordering) {
            at + link.held_back
        } else {
            at
        }
    }

    /// When a datagram is through the bottleneck, unless the queue is full.
    fn leave(
        &mut self,
        now: Duration,
        from: PartyId,
        to: PartyId,
        bottleneck: Option<Bottleneck>,
    ) -> Option<Duration> {
        let Some(Bottleneck { per_s, waiting_max }) = bottleneck else {
            return Some(now);
        };
        let free_at = self.free_at.entry((from, to)).or_default();
        let waiting = free_at.saturating_sub(now).as_secs_f64() * per_s;
        if waiting > f64::from(waiting_max) {
            return None;
        }
        *free_at = now.max(*free_at) + Duration::from_secs_f64(1.0 / per_s);
        Some(*free_at)
    }

    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.rng.f64() < share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PartyId = PartyId(0);
    const TWO: PartyId = PartyId(1);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn network(usual: Link) -> Network {
        Network::new(usual, Rng::with_seed(7))
    }

    fn share(link: Link, counts: impl Fn(Passage) -> bool) -> f64 {
        let mut network = network(link);
        let hits = (0..10_000).filter(|_| counts(network.carry(ms(0), ONE, TWO)));
        hits.count() as f64 / 10_000.0
    }

    #[test]
    fn a_clean_link_takes_its_time() {
        let mut network = network(Link::clean(ms(3)));
        assert_eq!(network.carry(ms(5), ONE, TWO), Passage::Arrives(ms(8)));
    }

    #[test]
    fn shares_are_as_configured() {
        let clean = Link::clean(ms(1));
        let lossy = Link { loss: 0.2, ..clean };
        let lost = share(lossy, |passage| passage == Passage::Lost);
        assert!((lost - 0.2).abs() < 0.02, "{lost}");
        let copying = Link {
            duplication: 0.3,
            ..clean
        };
        let copied = share(copying, |passage| {
            matches!(passage, Passage::ArrivesTwice(..))
        });
        assert!((copied - 0.3).abs() < 0.02, "{copied}");
        let holding = Link {
            reordering: 0.1,
            held_back: ms(9),
            ..clean
        };
        let held = share(holding, |passage| passage == Passage::Arrives(ms(10)));
        assert!((held - 0.1).abs() < 0.02, "{held}");
    }

    #[test]
    fn a_full_queue_drops_and_drains() {
        let bottleneck = Bottleneck {
            per_s: 100.0,
            waiting_max: 2,
        };
        let mut network = network(Link {
            bottleneck: Some(bottleneck),
            ..Link::clean(ms(0))
        });
        for at in [10, 20, 30] {
            assert_eq!(network.carry(ms(0), ONE, TWO), Passage::Arrives(ms(at)));
        }
        assert_eq!(network.carry(ms(0), ONE, TWO), Passage::Full);
        assert_eq!(network.carry(ms(0), TWO, ONE), Passage::Arrives(ms(10)));
        assert_eq!(network.carry(ms(25), ONE, TWO), Passage::Arrives(ms(40)));
    }

    #[test]
    fn a_cut_holds_until_it_is_mended() {
        let mut network = network(Link::clean(ms(1)));
        network.set_cut(ONE, TWO, true);
        assert_eq!(network.carry(ms(0), ONE, TWO), Passage::Cut);
        assert_eq!(network.carry(ms(0), TWO, ONE), Passage::Cut);
        network.set_cut(TWO, ONE, false);
        assert_eq!(network.carry(ms(0), ONE, TWO), Passage::Arrives(ms(1)));
    }
}
