//! Requests to connections that other edges of the cluster keep: they are passed on there.

use transaction::NextHop;

use super::{Proxy, routing};
use crate::{
    calls::SessionId,
    context::Context,
    io::Outbox,
    stats::Event,
    wire::{
        reply::Reply,
        request::Request,
        token::{Affinity, Direction, Starter},
    },
};

impl Proxy {
    /// Leads a request to the edge that keeps the connection which it is to take. One that starts something goes
    /// on from here as to a phone of this node; one of a dialog is passed on as it is. True: it is dealt with.
    ///
    /// # Errors
    /// No such edge is heard, so the flow is gone: RFC 5626 §5.3.1.
    pub(crate) fn lead_elsewhere(
        &mut self,
        cx: Context<'_>,
        request: &mut Request<'_>,
        out: &mut Outbox,
    ) -> Result<bool, Reply> {
        let Some(edge) = request.path.elsewhere else {
            return Ok(false);
        };
        let from = request.datagram.flow;
        let affinity = request.affinity().unwrap_or_default();
        if affinity.is_some_and(|affinity| self.is_here_by_now(request, affinity)) {
            return Ok(false);
        }
        if !affinity.is_none_or(|affinity| routing::may_follow(cx, request, affinity)) {
            cx.stats.count(Event::NotOfServer, 1);
            return Err(Reply::new(403));
        }
        // It goes from edge to edge once.
        let is_passed_on = cx.snapshot.config().exchange.peers.contains(&from.remote);
        let address = cx.shared.edge_at(edge).filter(|_| !is_passed_on);
        let flow = address.and_then(|at| cx.snapshot.flow_to(NextHop::udp(at), from.listener));
        let Some(flow) = flow else {
            cx.stats.count(Event::FlowFailed, 1);
            return Err(Reply::new(430));
        };
        cx.stats.count(Event::ToOtherEdge, 1);
        if affinity.is_none() {
            request.lead_to_edge(flow);
            return Ok(false);
        }
        let (_, stateless, mut step) = self.split(cx, out);
        stateless.pass_on(&mut step, request, flow);
        Ok(true)
    }

    /// Whether the client has come to this node since its dialog began.
    fn is_here_by_now(&self, request: &Request<'_>, affinity: Affinity) -> bool {
        let from_server = affinity.starter == Starter::Server;
        let is_of_it = |entry: &SessionId| self.work.calls.get(*entry).from_server == from_server;
        let session = self.work.calls.find(request.key).filter(is_of_it);
        let client = session.and_then(|entry| self.work.calls.get(entry).client.get());
        affinity.direction == Direction::FromServer && client.is_some()
    }
}
