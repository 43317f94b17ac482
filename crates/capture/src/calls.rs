//! Groups messages into calls.

use crate::{merge::Sent, read::Map, trace::Trace};

/// How many of the latest calls with one Call-ID a message is compared with, before it starts a new
/// call.
const CALLS_WITH_ID_MAX: usize = 100;

/// A call: a dialog, or a request outside of one, with all its hops.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) call_id: u32,
    /// Its messages in the order of time, without retransmissions.
    pub(crate) sent: Vec<usize>,
    /// The tag of the party that started the call.
    from_tag: u64,
    /// The address that started the call.
    first_source: u32,
    last_cseq: u32,
    /// Whether it contains retransmissions.
    pub(crate) is_retransmitted: bool,
}

/// Returns the calls in the order of their first message.
///
/// Two calls with one Call-ID have different tags. Or the second starts with a request outside of a
/// dialog that is not a retransmission, has no higher CSeq, and comes from the source of the first
/// call.
pub(crate) fn calls(trace: &Trace, sent: &[Sent]) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut by_id: Map<u32, Vec<usize>> = Map::default();
    for (number, message) in sent.iter().enumerate() {
        let seen = &message.seen;
        let with_id = by_id.entry(seen.call_id).or_default();
        // The latest call goes first: it is the likeliest.
        let found = with_id
            .iter()
            .rev()
            .take(CALLS_WITH_ID_MAX)
            .copied()
            .find(|&at| calls[at].is_of(message));
        let begins = found.is_none_or(|at| calls[at].is_begun_anew_by(trace, message));
        let at = if begins {
            with_id.push(calls.len());
            calls.push(Call::begun_by(message));
            calls.len() - 1
        } else {
            found.unwrap_or_default()
        };
        let call = &mut calls[at];
        if message.is_retransmission {
            call.is_retransmitted = true;
            continue;
        }
        if seen.ends.0 == call.first_source {
            call.last_cseq = call.last_cseq.max(seen.cseq);
        }
        call.sent.push(number);
    }
    calls
}

impl Call {
    fn begun_by(message: &Sent) -> Self {
        Self {
            call_id: message.seen.call_id,
            sent: Vec::new(),
            from_tag: message.seen.from_tag,
            first_source: message.seen.ends.0,
            last_cseq: message.seen.cseq,
            is_retransmitted: false,
        }
    }

    fn is_of(&self, message: &Sent) -> bool {
        let seen = &message.seen;
        seen.from_tag == self.from_tag || seen.to_tag == self.from_tag
    }

    fn is_begun_anew_by(&self, trace: &Trace, message: &Sent) -> bool {
        let seen = &message.seen;
        let label = trace.labels.get(seen.label);
        let is_initial = label.status.is_none()
            && seen.to_tag == 0
            && !matches!(label.method.as_str(), "ACK" | "CANCEL");
        is_initial
            && !message.is_retransmission
            && seen.ends.0 == self.first_source
            && seen.cseq <= self.last_cseq
    }
}
