//! The server's part: what neighbours are told.

use std::{net::SocketAddr, time::Duration};

use overload::Algorithm;
use sip::{OverloadTerms, Via};
use transaction::Flow;

use crate::context::Context;

/// What to tell the neighbour that gets a response there. None: it does not take part.
pub(crate) fn terms(
    cx: Context<'_>,
    via: &Via<'_>,
    to: impl FnOnce() -> Option<Flow>,
) -> Option<OverloadTerms> {
    let neighbours = cx.shared.neighbours();
    if neighbours.is_empty() {
        return None;
    }
    let key = cx.snapshot.keys().neighbour(neighbour(via, to()?));
    let terms = neighbours.terms(cx.now, key)?;
    let divided_at = Duration::from_nanos(terms.sequence.unwrap_or_default());
    Some(OverloadTerms {
        is_rate: terms.algorithm == Algorithm::Rate,
        value: terms.value,
        validity_ms: terms.validity.as_millis() as u32,
        sequence: (cx.shared.wall(divided_at).as_micros() / 10) as u64,
    })
}

/// Where the responses of a request with this topmost Via go is who its sender is. On a connection that is its port of the
/// moment, so there it is the port that the Via names.
pub(super) fn neighbour(via: &Via<'_>, back: Flow) -> SocketAddr {
    match back.transport.is_stream() {
        true => (back.remote.ip(), via.port.unwrap_or(5060)).into(),
        false => back.remote,
    }
}
