//! How many connections to the admin API there are, in all and of each source.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Connections at a time.
const PLACES: usize = 512;
/// Of one source: an IPv4 address, or an IPv6 network of 64 bits.
const PLACES_OF_SOURCE: usize = 128;

/// The places of all connections.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: Mutex<HashMap<IpAddr, usize>>,
    refused: AtomicU64,
}

/// The place of a connection, which it gives back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    of: Arc<Places>,
    source: IpAddr,
}

impl Places {
    /// A place for a connection from this address; none: there are too many, which is counted.
    pub(super) fn take(self: &Arc<Self>, from: IpAddr) -> Option<Place> {
        let source = source(from);
        let mut taken = self.taken();
        let of_source = taken.get(&source).copied().unwrap_or(0);
        if of_source >= PLACES_OF_SOURCE || taken.values().sum::<usize>() >= PLACES {
            self.refused.fetch_add(1, Relaxed);
            return None;
        }
        taken.insert(source, of_source + 1);
        Some(Place {
            of: Arc::clone(self),
            source,
        })
    }

    /// Connections that there are.
    pub(crate) fn count(&self) -> usize {
        self.taken().values().sum()
    }

    /// Connections that were closed at once since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.of.taken();
        if let Some(count) = taken.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.source);
            }
        }
    }
}

fn source(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & (u128::MAX << 64);
            IpAddr::V6(network.into())
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_leaves_places_to_others() {
        let places = Arc::new(Places::default());
        let take = |from: &str| places.take(from.parse().expect("an address"));
        let mut taken: Vec<_> = (0..PLACES_OF_SOURCE)
            .map(|at| take(&format!("2001:db8::{at:x}")).expect("there is room"))
            .collect();
        assert!(take("2001:db8::ffff").is_none());
        assert_eq!(places.refused(), 1);
        taken.extend(take("2001:db8:0:1::1"));
        taken.extend(take("::ffff:192.0.2.1"));
        assert_eq!(places.count(), PLACES_OF_SOURCE + 2);
        taken.remove(0);
        assert!(take("2001:db8::ffff").is_some());
        drop(taken);
        assert_eq!(places.count(), 0);
    }

    #[test]
    fn there_are_so_many_in_all() {
        let places = Arc::new(Places::default());
        let take = |at: usize| places.take(IpAddr::from([192, 0, (at / 256) as u8, at as u8]));
        let taken: Vec<_> = (0..PLACES + 3).filter_map(take).collect();
        assert_eq!((taken.len(), places.refused()), (PLACES, 3));
    }
}
