//! Which way a request goes.

use balance::ServerId;
use transaction::Flow;

use crate::{
    calls::SessionId,
    context::Context,
    wire::{
        request::Request,
        token::{Direction, End, Starter},
    },
};

/// Where a request goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    pub(crate) direction: Direction,
    /// The server at the inner end; none: it isn't configured here, a token named its address.
    pub(crate) server: Option<ServerId>,
    pub(crate) next_hop: Flow,
    pub(crate) session: Option<SessionId>,
    /// The server was chosen just now: the ledger has the request.
    pub(crate) is_placed: bool,
}

impl Course {
    /// The server's end of a dialog that its request may start, and who starts that. A peer that calls a
    /// phone stands where a server would.
    pub(crate) fn ends(&self, cx: Context<'_>, request: &Request<'_>) -> Option<(End, Starter)> {
        let server = self.server.and_then(|server| cx.snapshot.member(server));
        let server = server.map(|member| End::from(member.address));
        match self.direction {
            Direction::ToServer => Some((server?, Starter::Client)),
            Direction::FromServer => {
                let peer = Some(request.datagram.flow).filter(|_| request.path.phone.is_some());
                let peer = peer.map(End::from);
                Some((server.or(peer)?, Starter::Server))
            }
        }
    }
}
