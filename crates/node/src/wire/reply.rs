//! Answers of the node's own. RFC 3261 §8.2.6

use sip::{Fault, Message, Via};
use transaction::Flow;

use crate::{
    context::Context,
    io::{Datagram, Outbox},
    snapshot::Snapshot,
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

/// Counts and queues an answer of the node's own.
pub(crate) fn send(
    cx: Context<'_>,
    datagram: &Datagram<'_>,
    request: &Message<'_>,
    reply: &Reply,
    out: &mut Outbox,
) {
    cx.stats.reply(reply.status);
    let via = request.top_via().ok();
    let back = return_flow(via.as_ref(), datagram.flow);
    out.send(back, |out| {
        write(cx.snapshot, datagram.flow, request, reply, out)
    });
}

/// Where the responses of a request with this topmost Via go. RFC 3261 §18.2.2, RFC 3581 §4
pub(crate) fn return_flow(via: Option<&Via<'_>>, flow: Flow) -> Flow {
    let mut back = flow;
    if let Some(via) = via.filter(|via| !via.rport.is_present()) {
        back.remote.set_port(via.port.unwrap_or(5060));
    }
    back
}

/// Appends an answer of the node's own. Its To tag is the same for each retransmission.
/// RFC 3261 §8.2.6.2, §8.2.7
pub(crate) fn write(
    snapshot: &Snapshot,
    flow: Flow,
    request: &Message<'_>,
    reply: &Reply,
    out: &mut Vec<u8>,
) {
    let via = request.top_via().ok();
    let call_id = request.call_id().unwrap_or_default();
    let branch = via.and_then(|via| via.branch).unwrap_or_default();
    let key = snapshot.keys().session(call_id);
    let tag = snapshot.keys().of_session(key, &[b"reply", branch]);
    let headers = reply.headers.iter();
    let headers: Vec<_> = headers
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    sip::write_reply(
        request,
        reply.status,
        reply.reason,
        Some(&format!("{tag:016x}")),
        flow.remote,
        &headers,
        out,
    );
}
