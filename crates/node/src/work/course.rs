//! Which way a request goes.

use std::net::SocketAddr;

use balance::ServerId;

use crate::{calls::SessionId, wire::token::Direction};

/// Where a request goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    pub(crate) direction: Direction,
    /// The server at the inner end; none: it isn't configured here, a token named its address.
    pub(crate) server: Option<ServerId>,
    pub(crate) next_hop: SocketAddr,
    pub(crate) session: Option<SessionId>,
    /// The server was chosen just now: the ledger has the request.
    pub(crate) is_placed: bool,
}
