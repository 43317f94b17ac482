//! How much of what comes may come in.

use std::time::Duration;

/// How often the share is set.
const INTERVAL: Duration = Duration::from_millis(100);
/// What comes in for each request that is served, so that there is always one to serve.
const SURPLUS: f64 = 1.15;
/// The share stays while what comes in is within these, for each request that is served.
const HOLD: std::ops::RangeInclusive<f64> = 1.03..=1.3;
/// How fast it grows while there is less.
const GROWTH: f64 = 1.25;
/// The least share.
const LEAST: f64 = 1.0 / 1024.0;

/// The share of new requests that may come in: as much as is served, and a little more.
///
/// Of what stays out each message costs next to nothing, so this bounds what an overload costs.
#[derive(Debug)]
pub(crate) struct Share {
    share: f64,
    came: u32,
    served: u32,
    next: Duration,
}

impl Share {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            share: 1.0,
            came: 0,
            served: 0,
            next: now + INTERVAL,
        }
    }

    /// The share, of 1.
    pub(crate) fn get(&self) -> f64 {
        self.share
    }

    /// Requests came in.
    pub(crate) fn came(&mut self, requests: u32) {
        self.came += requests;
    }

    /// Requests were served.
    pub(crate) fn served(&mut self, requests: u32) {
        self.served += requests;
    }

    /// Sets the share anew at the end of an interval; none: it stays.
    pub(crate) fn next(&mut self, now: Duration) -> Option<f64> {
        if now < self.next {
            return None;
        }
        self.next = now + INTERVAL;
        let [came, served] = [self.came, self.served].map(f64::from);
        (self.came, self.served) = (0, 0);
        let share = match came / served.max(1.0) {
            ratio if HOLD.contains(&ratio) => return None,
            ratio if ratio > *HOLD.end() => self.share * SURPLUS / ratio,
            _ => self.share * GROWTH,
        };
        let share = share.clamp(LEAST, 1.0);
        let changes = share != self.share;
        self.share = share;
        changes.then_some(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shares of so many intervals, while `offered` requests come in each and 100 can be served.
    fn shares(share: &mut Share, from: u32, intervals: u32, offered: f64) -> Vec<f64> {
        let intervals = from..from + intervals;
        let step = |interval| {
            let comes = (offered * share.share) as u32;
            share.came(comes);
            share.served(comes.min(100));
            share.next(INTERVAL * (interval + 1));
            share.share
        };
        intervals.map(step).collect()
    }

    #[test]
    fn the_share_follows_what_is_served() {
        let mut share = Share::new(Duration::ZERO);
        assert_eq!(shares(&mut share, 0, 10, 99.0), [1.0; 10]);
        let over = shares(&mut share, 10, 5, 1000.0);
        assert!(
            over.iter().all(|share| (0.10..=0.13).contains(share)),
            "{over:?}"
        );
        let after = shares(&mut share, 15, 15, 50.0);
        assert_eq!(after[10..], [1.0; 5], "{after:?}");
    }
}
