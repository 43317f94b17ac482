//! The server's part: what neighbours send.

use std::net::SocketAddr;

use overload::Algorithm;
use sip::Overload;

use crate::{
    context::Context,
    strangers::is_known,
    wire::{reply, request::Request},
};

/// Counts a request of a neighbour; `begins` says whether it is a new one. Nobody is
/// counted who neither offers control nor meets a node that is over.
pub(crate) fn note(cx: Context<'_>, request: &Request<'_>, begins: impl FnOnce() -> bool) {
    let offers = request.via.has_overload;
    if !offers && !cx.shared.neighbours().is_over() {
        return;
    }
    let flow = reply::return_flow(Some(&request.via), request.datagram.flow);
    let offer = request.via.overload(request.message);
    note_offered(cx, flow.remote, offer, begins());
}

/// The same for one whose responses go to this address.
pub(crate) fn note_offered(
    cx: Context<'_>,
    neighbour: SocketAddr,
    offer: Option<Overload>,
    is_new: bool,
) {
    let neighbours = cx.shared.neighbours();
    if !is_known(cx.snapshot, neighbour.ip()) {
        if is_new && neighbours.is_over() {
            neighbours.note_others(cx.now, 1);
        }
        return;
    }
    let algorithm = offer.and_then(choose);
    if is_new || algorithm.is_some() {
        let key = cx.snapshot.keys().neighbour(neighbour);
        neighbours.note(cx.now, key, algorithm, is_new.into());
    }
}

/// A rate holds whatever a neighbour's callers do; so it is preferred. The choice stays the same:
/// RFC 7339 §5.8.
fn choose(offer: Overload) -> Option<Algorithm> {
    if offer.has_rate {
        Some(Algorithm::Rate)
    } else {
        offer.has_loss.then_some(Algorithm::Loss)
    }
}
