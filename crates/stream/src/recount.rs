//! Counting anew, for tests.

use std::collections::HashSet;

use crate::{
    Connections, Layer, Why,
    connection::{Connection, Opener, Phase},
    index::Peer,
};

impl<L: Layer> Connections<L> {
    /// Compares all counts with what is there.
    ///
    /// # Panics
    /// If one of them is wrong.
    #[doc(hidden)]
    pub fn recount(&self) {
        let all = || self.table.iter().map(|(_, of)| of);
        let count = |is: &dyn Fn(&Connection<L>) -> bool| all().filter(|of| is(of)).count();
        let peers: HashSet<_> = all().map(|of| Peer::of(of.flow)).collect();
        assert_eq!(
            self.index.totals(),
            [
                self.len(),
                peers.len(),
                count(&|of| of.is_counted),
                count(&|of| of.is_counted && of.is_opening()),
            ]
        );
        for opener in Opener::ALL {
            let is_its = |of: &Connection<L>| of.is_opening() && of.opener == opener;
            assert_eq!(self.opening[opener as usize], count(&is_its));
        }
        for (listener, &counted) in self.by_listener.iter().enumerate() {
            let is_its = |of: &Connection<L>| usize::from(of.flow.listener) == listener;
            assert_eq!(counted, count(&is_its));
        }
        assert_eq!(self.backed_up, count(&|of| of.backlog.is_too_long));
        assert_eq!(self.held, all().map(Connection::capacity).sum::<usize>());
        let counters = &self.counters;
        let closed: u64 = Why::ALL.iter().map(|&why| counters.closed(why)).sum();
        assert_eq!(
            counters.accepted + counters.opened,
            closed + self.len() as u64
        );
        for of in all() {
            assert_eq!(self.find(of.flow) == Some(of.number), of.takes_answers());
            assert!(of.armed.is_some(), "each connection ends at some time");
            assert!(!of.backlog.is_too_long || !of.queue.is_empty());
            assert_eq!(of.is_told, !of.queue.to_write().is_empty());
            assert!(of.phase != Phase::Open || of.layer.is_open());
        }
    }
}
