use std::{net::SocketAddr, time::Duration};

use transaction::Transport;

use super::wire::{INVITE_CSEQ, PROVEN_CSEQ};
use crate::{Arrivals, Law, Retransmission};

/// The calls that a [`Caller`](crate::Caller) makes.
#[derive(Clone, Debug)]
pub struct CallerConfig {
    /// The addresses to call from, in turn. They are in Via and Contact.
    pub sockets: Vec<SocketAddr>,
    /// What carries the messages. It is in Via and Contact.
    pub transport: Transport,
    /// The outbound proxy. It gets the INVITEs, and all further requests unless a route set changes
    /// that.
    pub proxy: SocketAddr,
    /// The domain of the callers and of the called users.
    pub domain: String,
    /// How many users there are to call, `user-0` and so on; at least 1.
    pub users: u32,
    /// When calls begin.
    pub arrivals: Arrivals,
    /// The time from the 2xx to the BYE.
    pub holding: Law,
    /// How many calls to make before stopping.
    pub calls_max: u64,
    /// The shares of special calls.
    pub habits: Habits,
    /// Whether requests are retransmitted.
    pub retransmission: Retransmission,
    /// With it the callers, all of whom are `caller`, answer a challenge to their INVITE.
    pub password: Option<String>,
    /// The time between two keep-alives from each socket, if there are any. RFC 5626 §3.5.1
    pub keep_alive: Option<Duration>,
}

/// The shares of calls that differ from INVITE, ACK, BYE. Their sum is at most 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Habits {
    /// These send a re-INVITE in the middle of the holding time.
    pub reinvite: f64,
    /// These are cancelled when the first provisional response comes.
    pub cancel: f64,
    /// The caller vanishes at the end of the holding time, and never sends a BYE.
    pub abandon: f64,
}

/// What one call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Talk,
    Renew,
    Cancel,
    Vanish,
}

impl CallerConfig {
    /// Calls without holding time that start without end, have no special cases, and use
    /// retransmissions.
    #[must_use]
    pub fn plain(sockets: Vec<SocketAddr>, proxy: SocketAddr, arrivals: Arrivals) -> Self {
        Self {
            sockets,
            transport: Transport::Udp,
            proxy,
            domain: "example.com".to_owned(),
            users: 10_000,
            arrivals,
            holding: Law::ZERO,
            calls_max: u64::MAX,
            habits: Habits::default(),
            retransmission: Retransmission::Rfc3261,
            password: None,
            keep_alive: None,
        }
    }
}

impl CallerConfig {
    /// The highest CSeq of an INVITE that begins a call.
    pub(super) fn last_opening(&self) -> u32 {
        match self.password {
            None => INVITE_CSEQ,
            Some(_) => PROVEN_CSEQ,
        }
    }
}

impl Habits {
    pub(super) fn draw(&self, rng: &mut fastrand::Rng) -> Plan {
        if *self == Self::default() {
            return Plan::Talk;
        }
        let mut at = rng.f64();
        for (share, plan) in [
            (self.reinvite, Plan::Renew),
            (self.cancel, Plan::Cancel),
            (self.abandon, Plan::Vanish),
        ] {
            if at < share {
                return plan;
            }
            at -= share;
        }
        Plan::Talk
    }
}
