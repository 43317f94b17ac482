//! The server's part: what neighbours send.

use std::net::SocketAddr;

use overload::Neighbour;
use sip::{Message, Method, Via};
use transaction::Flow;

use super::terms::neighbour;
use crate::{
    context::Context,
    stats::Event,
    wire::{reply, request::Request},
};

/// Counts a request of a neighbour; `begins` says whether it is a new one. Nobody is counted who neither
/// offers control nor meets a node that is over.
pub(crate) fn note(
    cx: Context<'_>,
    flow: Flow,
    message: &Message<'_>,
    via: &Via<'_>,
    begins: impl FnOnce() -> bool,
) {
    if !via.has_overload && !cx.shared.neighbours().is_over() {
        return;
    }
    let neighbour = neighbour_of(via, flow);
    let (offer, is_new) = (via.overload(message), begins());
    let neighbours = cx.shared.neighbours();
    if !cx.snapshot.is_known(neighbour.ip()) {
        // Over streams strangers have the time that neighbours leave.
        let has_claim = !flow.transport.is_stream()
            && matches!(message.method(), Some(Method::Invite | Method::Register));
        if is_new && has_claim && neighbours.is_over() {
            neighbours.note_others(cx.now, 1);
        }
        return;
    }
    let algorithm = offer.and_then(|offer| neighbours.choose(offer.has_loss, offer.has_rate));
    if is_new || algorithm.is_some() {
        let of = Neighbour {
            key: cx.snapshot.keys().neighbour(neighbour),
            weight: cx.snapshot.config().trust.weight_of(neighbour.ip()),
        };
        neighbours.note(cx.now, of, algorithm, is_new.into());
        if neighbours.overruns(of.key) && cx.shared.unruly().insert(cx.now, neighbour.ip()) {
            cx.stats.count(Event::Unruly, 1);
        }
    }
}

/// Whether a request is that of a neighbour who obeys what it is told.
pub(crate) fn takes_part(cx: Context<'_>, flow: Flow, message: &Message<'_>) -> bool {
    cx.snapshot.is_known(flow.remote.ip()) && message.top_via().is_ok_and(|via| via.has_overload)
}

/// Whether a request is that of a neighbour who was told how much to send, and sends no more.
pub(crate) fn is_granted(cx: Context<'_>, flow: Flow, message: &Message<'_>) -> bool {
    let neighbours = cx.shared.neighbours();
    if !neighbours.are_restricted() || !takes_part(cx, flow, message) {
        return false;
    }
    message.top_via().is_ok_and(|via| {
        let neighbour = neighbour_of(&via, flow);
        neighbours.obeys(cx.snapshot.keys().neighbour(neighbour))
    })
}

/// The neighbour that sent a request and is told how much to send. None: nobody who takes part did.
pub(crate) fn key_of_neighbour(cx: Context<'_>, request: &Request<'_>) -> Option<u64> {
    let (via, flow) = (&request.via, request.datagram.flow);
    let takes_part = via.has_overload && cx.snapshot.is_known(flow.remote.ip());
    takes_part.then(|| {
        let neighbour = neighbour_of(via, flow);
        cx.snapshot.keys().neighbour(neighbour)
    })
}

/// Counts a new request that is refused before it is read whole: what a neighbour's is refused is offered, too. Strangers claim
/// only what they are served.
pub(crate) fn note_refused(cx: Context<'_>, flow: Flow, message: &Message<'_>) {
    let neighbours = cx.shared.neighbours();
    if (neighbours.is_over() || !neighbours.is_empty())
        && let Ok(via) = message.top_via()
        && cx.snapshot.is_known(neighbour_of(&via, flow).ip())
    {
        note(cx, flow, message, &via, || true);
    }
}

/// The neighbour that a request with this topmost Via comes from.
fn neighbour_of(via: &Via<'_>, flow: Flow) -> SocketAddr {
    neighbour(via, reply::return_flow(Some(via), flow))
}
