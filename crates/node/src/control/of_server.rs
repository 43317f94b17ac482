//! What is known of control with one server.

use std::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use overload::{Restriction, Terms};

/// A server that chokes on an offer so often gets none for an hour.
const STRIKES_MAX: u8 = 2;
/// A server that takes part is silent about it so often in a row at most.
const SILENCES_MAX: u8 = 2;

const NO_OFFER_FOR: Duration = Duration::from_secs(3_600);

/// Control of what goes to one server, shared by all workers.
#[derive(Debug, Default)]
pub(crate) struct Control {
    pub(crate) restriction: Restriction,
    /// It has told something.
    takes_part: AtomicBool,
    /// Answers in a row to offers that told nothing.
    silences: AtomicU8,
    /// It has answered an offer that had not been repeated.
    takes_offers: AtomicBool,
    /// How often it chokes on offers, the last times in a row.
    strikes: AtomicU8,
    /// Until when it gets no offer, in nanoseconds.
    no_offer_until: AtomicU64,
}

impl Control {
    pub(super) fn may_offer(&self, now: Duration, may_retry: bool) -> bool {
        let is_welcome = ns(now) >= self.no_offer_until.load(Relaxed);
        is_welcome && (may_retry || self.takes_part.load(Relaxed))
    }

    /// Whether it may choke on an offer, for all that is known. What it does not answer is repeated without one then.
    pub(super) fn may_choke(&self) -> bool {
        !self.takes_part.load(Relaxed) && !self.takes_offers.load(Relaxed)
    }

    pub(super) fn observe(&self, now: Duration, terms: &Terms) {
        self.takes_part.store(true, Relaxed);
        self.silences.store(0, Relaxed);
        self.restriction.observe(now, terms);
    }

    /// It answered an offer, and told nothing. Who takes part always tells: RFC 7339 §4.1. What it seemed
    /// to tell was of somebody behind it, who may write into our Via what they like.
    pub(super) fn is_silent(&self) {
        if !self.takes_part.load(Relaxed) {
            return;
        }
        let silences = self.silences.fetch_add(1, Relaxed).saturating_add(1);
        if silences >= SILENCES_MAX {
            self.silences.store(0, Relaxed);
            self.takes_part.store(false, Relaxed);
            self.restriction.forget();
        }
    }

    /// It has taken an offer.
    pub(super) fn welcomes(&self) {
        self.takes_offers.store(true, Relaxed);
        self.strikes.store(0, Relaxed);
    }

    /// An offer was at fault, it seems. Returns whether it gets none from now on.
    pub(super) fn strike(&self, now: Duration) -> bool {
        let strikes = self.strikes.load(Relaxed).saturating_add(1);
        let is_out = strikes >= STRIKES_MAX;
        if is_out {
            self.takes_part.store(false, Relaxed);
            self.takes_offers.store(false, Relaxed);
            let until = ns(now + NO_OFFER_FOR);
            self.no_offer_until.store(until, Relaxed);
        }
        // After its hour, one more is enough.
        self.strikes.store(strikes.min(STRIKES_MAX - 1), Relaxed);
        is_out
    }
}

fn ns(time: Duration) -> u64 {
    time.as_nanos() as u64
}
