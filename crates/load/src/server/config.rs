use std::{fmt, net::SocketAddr, time::Duration};

use hdrhistogram::Histogram;

use super::processor::Discipline;
use crate::{Law, Retransmission};

/// What a [`Server`](crate::Server) emulates.
#[derive(Clone, Copy, Debug)]
pub struct ServerConfig {
    /// Its address, which stands in Contact.
    pub address: SocketAddr,
    /// How much work a request is for its one processor.
    pub service: Service,
    /// How much work a request is that has come before: it is matched, and at most answered again.
    pub repeated: Law,
    /// The order of that work.
    pub discipline: Discipline,
    /// Whether an INVITE that has to wait or to be worked on is answered with 100 at once, unless
    /// the processor stalls.
    pub trying: bool,
    /// The time from the 180 to the 200.
    pub ringing: Law,
    /// Whether a 200 is sent again that nobody acknowledges, and the call then ended with a BYE.
    pub retransmission: Retransmission,
    /// Pauses of the processor, such as a garbage collector makes.
    pub stall: Option<Stall>,
}

/// How long a request keeps a processor of speed 1 busy, by method. ACK and CANCEL take no time.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// INVITE, in a dialog or not.
    pub invite: Law,
    /// BYE.
    pub bye: Law,
    /// Every other method.
    pub other: Law,
}

/// Pauses in which the server does nothing at all. The first is given apart: servers that get equal
/// shares would all stall at once if each began its count at the same place.
#[derive(Clone, Copy, Debug)]
pub enum Stall {
    /// Whenever so many INVITEs have been served.
    Calls {
        /// The first comes after this INVITE.
        first: u64,
        /// The others come after every so many INVITEs from there.
        every: u64,
        /// How long each lasts.
        lasting: Duration,
    },
    /// Whenever so much time has passed.
    Periodic {
        /// The first begins so long after the server's start.
        first: Duration,
        /// From the beginning of one to the beginning of the next.
        every: Duration,
        /// How long each lasts.
        lasting: Duration,
    },
}

/// What a server has counted.
#[derive(Clone, PartialEq)]
pub struct ServerStats {
    /// INVITEs that began a call.
    pub invites: u64,
    /// Calls answered with 200.
    pub answered: u64,
    /// Re-INVITEs answered with 200.
    pub reinvites: u64,
    /// BYEs that ended a call.
    pub byes: u64,
    /// Calls that were cancelled.
    pub cancelled: u64,
    /// Calls that the server ended because no ACK came.
    pub unconfirmed: u64,
    /// Requests of every other kind that were served, such as OPTIONS.
    pub others: u64,
    /// Requests that name a dialog or transaction of which the server knows nothing: they were
    /// meant for another.
    pub strangers: u64,
    /// Requests that came again.
    pub repeated: u64,
    /// Responses, and the BYEs of unconfirmed calls, sent again.
    pub retransmissions: u64,
    /// Stalls that have begun.
    pub stalls: u64,
    /// Requests that each INVITE of a new call found waiting or being worked on.
    pub occupancy: Histogram<u64>,
}

impl Service {
    /// No work at all.
    pub const NONE: Self = Self {
        invite: Law::ZERO,
        bye: Law::ZERO,
        other: Law::ZERO,
    };
}

impl ServerConfig {
    /// A server that answers at once and never stalls.
    #[must_use]
    pub fn prompt(address: SocketAddr) -> Self {
        Self {
            address,
            service: Service::NONE,
            repeated: Law::ZERO,
            discipline: Discipline::Fifo,
            trying: false,
            ringing: Law::ZERO,
            retransmission: Retransmission::Rfc3261,
            stall: None,
        }
    }
}

impl Default for ServerStats {
    fn default() -> Self {
        const REQUESTS_MAX: u64 = 1 << 20;
        Self {
            invites: 0,
            answered: 0,
            reinvites: 0,
            byes: 0,
            cancelled: 0,
            unconfirmed: 0,
            others: 0,
            strangers: 0,
            repeated: 0,
            retransmissions: 0,
            stalls: 0,
            occupancy: Histogram::new_with_max(REQUESTS_MAX, 3).expect("the bounds are valid"),
        }
    }
}

/// The counts alone: a histogram has thousands of places.
impl fmt::Debug for ServerStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerStats")
            .field("invites", &self.invites)
            .field("answered", &self.answered)
            .field("reinvites", &self.reinvites)
            .field("byes", &self.byes)
            .field("cancelled", &self.cancelled)
            .field("unconfirmed", &self.unconfirmed)
            .field("others", &self.others)
            .field("strangers", &self.strangers)
            .field("repeated", &self.repeated)
            .field("retransmissions", &self.retransmissions)
            .field("stalls", &self.stalls)
            .finish_non_exhaustive()
    }
}
