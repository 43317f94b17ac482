use std::{fmt, net::SocketAddr, time::Duration};

use hdrhistogram::Histogram;

use super::processor::Discipline;
use crate::{Law, Retransmission};

/// The behaviour of an emulated [`Server`](crate::Server).
#[derive(Clone, Copy, Debug)]
pub struct ServerConfig {
    /// Its address, which is in Contact.
    pub address: SocketAddr,
    /// The service time of a request.
    pub service: Service,
    /// The service time of a retransmitted request, which is matched, and at most answered again.
    pub repeated: Law,
    /// The order of service.
    pub discipline: Discipline,
    /// Whether the server sends 100 at once for an INVITE that can't be answered immediately,
    /// unless the processor stalls.
    pub trying: bool,
    /// The time from the 180 to the 200.
    pub ringing: Law,
    /// Whether the server retransmits a 200 without an ACK, and then ends the call with a BYE.
    pub retransmission: Retransmission,
    /// Pauses of the processor, such as a garbage collector makes.
    pub stall: Option<Stall>,
    /// The time from the ACK to the server's own BYE; none: callers end the calls.
    pub hang_up: Option<Law>,
}

/// The service times of requests on a processor of speed 1, by method. ACK and CANCEL take no time.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// INVITE, in a dialog or not.
    pub invite: Law,
    /// BYE.
    pub bye: Law,
    /// Every other method.
    pub other: Law,
}

/// Pauses in which the server does nothing. The first is given separately: otherwise servers with
/// equal shares of the load would all stall at once.
#[derive(Clone, Copy, Debug)]
pub enum Stall {
    /// After this many INVITEs.
    Calls {
        /// The first comes after this INVITE.
        first: u64,
        /// The number of INVITEs between two later stalls.
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

/// The counters of a server.
#[derive(Clone, PartialEq)]
pub struct ServerStats {
    /// INVITEs that started a call.
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
    /// Calls that the server ended with a BYE of its own, which was answered.
    pub hung_up: u64,
    /// The same, but nobody answered the BYE.
    pub unheard: u64,
    /// Requests of other kinds that were answered, such as OPTIONS.
    pub others: u64,
    /// Requests for a dialog or transaction that the server does not know, so they were meant for
    /// another server.
    pub strangers: u64,
    /// Retransmitted requests.
    pub repeated: u64,
    /// Responses, and the BYEs of unconfirmed calls, that were retransmitted.
    pub retransmissions: u64,
    /// Stalls that started.
    pub stalls: u64,
    /// Requests that each INVITE of a new call found waiting or in service.
    pub occupancy: Histogram<u64>,
}

impl Service {
    /// No service time.
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
            hang_up: None,
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
            hung_up: 0,
            unheard: 0,
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
            .field("hung_up", &self.hung_up)
            .field("unheard", &self.unheard)
            .field("others", &self.others)
            .field("strangers", &self.strangers)
            .field("repeated", &self.repeated)
            .field("retransmissions", &self.retransmissions)
            .field("stalls", &self.stalls)
            .finish_non_exhaustive()
    }
}
