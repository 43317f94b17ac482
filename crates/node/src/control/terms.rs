//! The server's part: what neighbours are told.

use std::time::Duration;

use overload::Algorithm;
use sip::OverloadTerms;
use transaction::Flow;

use crate::context::Context;

/// What to tell the neighbour that gets a response there. None: it does not take part.
pub(crate) fn terms(cx: Context<'_>, to: impl FnOnce() -> Option<Flow>) -> Option<OverloadTerms> {
    let neighbours = cx.shared.neighbours();
    if neighbours.is_empty() {
        return None;
    }
    let key = cx.snapshot.keys().neighbour(to()?.remote);
    let terms = neighbours.terms(cx.now, key)?;
    let divided_at = Duration::from_nanos(terms.sequence.unwrap_or_default());
    Some(OverloadTerms {
        is_rate: terms.algorithm == Algorithm::Rate,
        value: terms.value,
        validity_ms: terms.validity.as_millis() as u32,
        sequence: (cx.shared.wall(divided_at).as_micros() / 10) as u64,
    })
}
