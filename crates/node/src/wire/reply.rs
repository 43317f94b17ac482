//! Answers of the node's own. RFC 3261 §8.2.6

use sip::{Back, Fault, Message, Method, Via};
use transaction::Flow;

use crate::{
    context::Context,
    control,
    io::{Datagram, Outbox},
    snapshot::Snapshot,
    stats::Dropped,
};

/// An answer of the node's own to a request. As an error it is a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) reason: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Reply {
    pub(crate) fn new(status: u16) -> Self {
        Self::because(status, sip::reason_phrase(status))
    }

    /// With another reason phrase than the usual one.
    pub(crate) fn because(status: u16, reason: &'static str) -> Self {
        Self {
            status,
            reason,
            headers: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}

impl From<Fault> for Reply {
    fn from(fault: Fault) -> Self {
        Self::because(fault.status(), fault.reason())
    }
}

/// Bytes of an answer of our own at most, for each byte of its request: who writes another's address into
/// a datagram gains little by what we send there.
const AMPLIFICATION_MAX: usize = 2;

/// Counts and queues an answer of the node's own. One that would be much longer than its request goes
/// without its last header fields, or not at all.
pub(crate) fn send(
    cx: Context<'_>,
    datagram: &Datagram<'_>,
    request: &Message<'_>,
    reply: &Reply,
    out: &mut Outbox,
) {
    let via = request.top_via().ok();
    let back = return_flow(via.as_ref(), datagram.flow);
    let mut fits = false;
    out.send(back, |out| {
        fits = write_within(cx, datagram, request, reply, out);
    });
    count(cx, datagram, request, reply, fits);
}

/// Counts an answer of the node's own, or that there was none as it would have been too long.
pub(crate) fn count(
    cx: Context<'_>,
    datagram: &Datagram<'_>,
    request: &Message<'_>,
    reply: &Reply,
    fits: bool,
) {
    if fits {
        cx.count_reply(datagram.flow, request, reply.status);
    } else {
        cx.drop_of(datagram.flow, Dropped::AnswerTooLong);
    }
}

/// Appends an answer of the node's own that is not much longer than its request. False: there is none.
pub(crate) fn write_within(
    cx: Context<'_>,
    datagram: &Datagram<'_>,
    request: &Message<'_>,
    reply: &Reply,
    out: &mut Vec<u8>,
) -> bool {
    let start = out.len();
    // What a user is told of their bindings can't be cut short.
    let is_granted = reply.status < 300 && request.method() == Some(Method::Register);
    let most = if is_granted {
        usize::MAX
    } else {
        datagram.bytes.len() * AMPLIFICATION_MAX
    };
    let least = usize::from(matches!(reply.status, 401 | 407));
    for headers in (least..=reply.headers.len()).rev() {
        let headers = &reply.headers[..headers];
        write_with(cx, datagram.flow, request, reply, headers, out);
        if out.len() - start <= most {
            return true;
        }
        out.truncate(start);
    }
    false
}

/// Where the responses of a request with this topmost Via go: back over its connection, if it has one.
/// RFC 3261 §18.2.2, RFC 3581 §4. A phone behind a NAT that does not ask for its port gets it all the same.
pub(crate) fn return_flow(via: Option<&Via<'_>>, flow: Flow) -> Flow {
    let mut back = flow;
    if let Some(via) = via.filter(|_| !flow.transport.is_stream()) {
        back.remote.set_port(via.port_back(flow.remote));
    }
    back
}

/// Appends an answer of the node's own. Its To tag is the same for each retransmission.
/// RFC 3261 §8.2.6.2, §8.2.7
pub(crate) fn write(
    cx: Context<'_>,
    flow: Flow,
    request: &Message<'_>,
    reply: &Reply,
    out: &mut Vec<u8>,
) {
    write_with(cx, flow, request, reply, &reply.headers, out);
}

/// The tag of our answers to a request with this Call-ID and branch. RFC 3261 §8.2.6.2, §8.2.7
fn tag(snapshot: &Snapshot, request: &Message<'_>) -> String {
    let call_id = request.call_id().unwrap_or_default();
    let branch = request.top_via().ok().and_then(|via| via.branch);
    let key = snapshot.keys().session(call_id);
    let tag = snapshot
        .keys()
        .of_session(key, &[b"reply", branch.unwrap_or_default()]);
    format!("{tag:016x}")
}

/// Whether an ACK is of an answer of our own: it has the branch of its INVITE. RFC 3261 §17.1.1.3
pub(crate) fn is_of_ours(snapshot: &Snapshot, ack: &Message<'_>) -> bool {
    ack.to_tag() == Ok(Some(tag(snapshot, ack).as_bytes()))
}

fn write_with(
    cx: Context<'_>,
    flow: Flow,
    request: &Message<'_>,
    reply: &Reply,
    headers: &[(&'static str, String)],
    out: &mut Vec<u8>,
) {
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let via = request.top_via().ok();
    let asks = via.filter(|via| via.has_overload);
    let back = Back {
        from: flow.remote,
        terms: asks
            .and_then(|via| control::terms(cx, &via, || Some(return_flow(Some(&via), flow)))),
    };
    sip::write_reply_with(
        request,
        reply.status,
        reply.reason,
        Some(&tag(cx.snapshot, request)),
        back,
        &headers,
        out,
    );
}
