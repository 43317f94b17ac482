//! Neighbours that send more than their share, whatever they are told. Their new requests wait as those of strangers do,
//! so that they take less from who obeys.

use std::{
    net::IpAddr,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// Hosts at most. Full: no more are treated so.
const HOSTS_MAX: usize = 32;

/// For how long after a host was last seen to send too much. Nobody counts what the kernel drops, so it seems to obey then.
const STAYS: Duration = Duration::from_secs(60);
/// Who is seen again sooner than this is not noted again: a flood takes no lock for writing.
const PAUSE: Duration = Duration::from_secs(1);

/// The hosts, shared by all workers.
#[derive(Debug, Default)]
pub(crate) struct Unruly {
    hosts: RwLock<Vec<(IpAddr, Duration)>>,
    number: AtomicUsize,
    changes: AtomicU64,
}

impl Unruly {
    /// A host sends too much. Whether that is news.
    pub(crate) fn insert(&self, now: Duration, host: IpAddr) -> bool {
        let host = host.to_canonical();
        if self.is_fresh(now, host) {
            return false;
        }
        let mut hosts = self.hosts.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, until)) = hosts.iter_mut().find(|(known, _)| *known == host) {
            *until = now + STAYS;
            return false;
        }
        let is_news = hosts.len() < HOSTS_MAX;
        if is_news {
            hosts.push((host, now + STAYS));
            self.changed(hosts.len());
        }
        is_news
    }

    /// Whether there are any.
    pub(crate) fn are_some(&self) -> bool {
        self.number.load(Relaxed) > 0
    }

    /// Whether a host is one of them.
    pub(crate) fn contains(&self, host: IpAddr) -> bool {
        if !self.are_some() {
            return false;
        }
        let host = host.to_canonical();
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        hosts.iter().any(|(known, _)| *known == host)
    }

    fn is_fresh(&self, now: Duration, host: IpAddr) -> bool {
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        let mut hosts = hosts.iter();
        hosts.any(|&(known, until)| known == host && now + STAYS < until + PAUSE)
    }

    /// How often they have changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// All of them.
    pub(crate) fn hosts(&self) -> Vec<IpAddr> {
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        hosts.iter().map(|(host, _)| *host).collect()
    }

    /// Forgets those that were not seen to send too much for a while.
    pub(crate) fn on_timers(&self, now: Duration) {
        if !self.are_some() {
            return;
        }
        let mut hosts = self.hosts.write().unwrap_or_else(PoisonError::into_inner);
        let before = hosts.len();
        hosts.retain(|(_, until)| now < *until);
        if hosts.len() < before {
            self.changed(hosts.len());
        }
    }

    fn changed(&self, number: usize) {
        self.number.store(number, Relaxed);
        self.changes.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    #[test]
    fn hosts_stay_for_a_while_and_are_bounded() {
        let s = Duration::from_secs;
        let unruly = Unruly::default();
        assert!(!unruly.contains(host(1)));
        assert!(unruly.insert(s(1), host(1)) && !unruly.insert(s(11), host(1)));
        for number in 2..=HOSTS_MAX as u8 {
            assert!(unruly.insert(s(20), host(number)));
        }
        assert!(!unruly.insert(s(20), host(99)) && !unruly.contains(host(99)));
        assert_eq!((unruly.hosts().len(), unruly.changes()), (HOSTS_MAX, 32));
        assert!(unruly.contains("::ffff:192.0.2.1".parse().expect("an address")));
        unruly.on_timers(s(70));
        assert!(unruly.contains(host(1)), "it was seen after 11 s");
        unruly.on_timers(s(71));
        assert!(!unruly.contains(host(1)) && unruly.contains(host(2)));
        assert_eq!(unruly.changes(), 33);
    }
}
