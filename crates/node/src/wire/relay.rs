//! Messages as they leave: what RFC 3261 has a proxy add and take away, and nothing else.

use std::net::SocketAddr;

use sip::{Edits, Essentials, HeaderName, Message, Method, Uri};
use transaction::Flow;

use super::{
    branch::{Branch, Purpose},
    identity,
    request::Request,
    response::Response,
    token::{self, Starter},
};
use crate::{io::Outbox, snapshot::Snapshot};

/// Where a request goes and what it carries there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop<'a> {
    pub(crate) to: SocketAddr,
    pub(crate) purpose: Purpose,
    /// Its Request-URI there, if that is another.
    pub(crate) uri: Option<&'a [u8]>,
    /// What its Route begins with there; may be empty.
    pub(crate) path: &'a [u8],
    /// For a dialog that may begin: its server, and who starts it.
    pub(crate) affinity: Option<(SocketAddr, Starter)>,
}

/// Queues a request for its next hop. RFC 3261 §16.6. Nothing, when no listener reaches it.
pub(crate) fn request(
    snapshot: &Snapshot,
    edits: &mut Edits,
    request: &Request<'_>,
    hop: &Hop<'_>,
    out: &mut Outbox,
) {
    if let Some(flow) = prepare(snapshot, edits, request, hop) {
        let bytes = request.message.bytes();
        out.send(flow, |out| edits.apply(bytes, out));
    }
}

/// Gathers the edits for a request's next hop, and says on which flow it is reached.
pub(crate) fn prepare(
    snapshot: &Snapshot,
    edits: &mut Edits,
    request: &Request<'_>,
    hop: &Hop<'_>,
) -> Option<Flow> {
    let hit = request.datagram.flow.listener;
    let flow = snapshot.flow_to(hop.to, hit)?;
    let listener = flow.listener;
    let message = request.message;
    edits.clear();
    edits.set_max_forwards(message, request.hops_left());
    if request.path.own_routes > 0 {
        edits.pop_routes(message, request.path.own_routes);
    }
    if request.path.was_strict {
        edits.undo_strict_route(message);
    }
    if let Some(uri) = hop.uri {
        edits.set_request_uri(message, uri);
    }
    if !hop.path.is_empty() {
        edits.push_route(message, |out| out.extend_from_slice(hop.path));
    }
    if let Some(next) = request.path.next.filter(|next| is_strict(next.uri)) {
        edits.redo_strict_route(message, &next);
    }
    edits.set_received(message, &request.via, request.datagram.flow.remote);
    edit_headers(snapshot, edits, request, hop);
    identity::guard(snapshot, edits, message, request.datagram.flow, || {
        Some(flow)
    });
    if request.is_proven {
        identity::assert_proven(snapshot, edits, request, flow);
    }
    if let Some((server, starter)) = hop.affinity {
        // The hop nearest to the next one comes on top: two on a change of listener, RFC 5658.
        for index in [Some(hit).filter(|_| hit != listener), Some(listener)]
            .into_iter()
            .flatten()
        {
            edits.push_record_route(message, |out| {
                out.extend_from_slice(b"<sip:");
                token::write(
                    snapshot.keys(),
                    server,
                    starter,
                    request.call_id,
                    request.from_tag,
                    out,
                );
                out.push(b'@');
                out.extend_from_slice(snapshot.listener(index).advertise.as_bytes());
                out.extend_from_slice(b";lr>");
            });
        }
    }
    let branch = Branch {
        purpose: hop.purpose,
        listener: hit,
        id: request.id,
    };
    edits.push_via(message, |out| write_via(snapshot, listener, branch, out));
    Some(flow)
}

/// Gathers the edits of the route that a request takes, if it begins something. A request that a server
/// sends where its own Route or Request-URI says takes none.
fn edit_headers(snapshot: &Snapshot, edits: &mut Edits, request: &Request<'_>, hop: &Hop<'_>) {
    let is_of_another = matches!(request.method, Method::Ack | Method::Cancel);
    if !snapshot.edits_headers() || !request.is_initial() || is_of_another {
        return;
    }
    let leads_itself = request.next_hop() == Some(hop.to);
    if leads_itself && snapshot.member_of(request.datagram.flow).is_some() {
        return;
    }
    let Ok(route) = snapshot.route(&request.traits()) else {
        return;
    };
    for name in &route.remove {
        edits.remove_header(request.message, name.as_bytes(), |_| true);
    }
    for (name, value) in &route.add {
        edits.append_header(request.message, name, |out| {
            out.extend_from_slice(value.as_bytes());
        });
    }
}

/// Gathers the edits that a response needs on its way back: our Via goes, RFC 3261 §16.7 step 3, and so
/// do identities that it may not have.
pub(crate) fn back(snapshot: &Snapshot, edits: &mut Edits, response: &Response<'_>) {
    let message = response.message;
    edits.clear();
    edits.pop_via(message, &response.via);
    identity::guard(snapshot, edits, message, response.flow, || {
        let to = message.via_below(&response.via)?.response_address()?;
        Some(Flow::udp(response.branch.listener, to))
    });
}

/// Queues the request that ends an INVITE on a server that it was taken away from: the ACK of a
/// failure (RFC 3261 §17.1.1.3), or the CANCEL of a branch that is not needed (RFC 3261 §16.10).
/// Its Request-URI is not the INVITE's, which is forgotten: servers match these by branch.
pub(crate) fn withdraw(
    snapshot: &Snapshot,
    method: Method<'_>,
    branch: Branch,
    to: SocketAddr,
    response: &Message<'_>,
    out: &mut Outbox,
) {
    let uri = format!("sip:{to}");
    end_invite(snapshot, method, branch, to, uri.as_bytes(), response, out);
}

/// Queues the CANCEL of an INVITE that was sent to a server on this branch. RFC 3261 §9.1
pub(crate) fn cancel(
    snapshot: &Snapshot,
    branch: Branch,
    to: SocketAddr,
    uri: &[u8],
    invite: &Message<'_>,
    out: &mut Outbox,
) {
    end_invite(snapshot, Method::Cancel, branch, to, uri, invite, out);
}

/// Queues an ACK or CANCEL of our own with what an INVITE or its response says of the transaction.
fn end_invite(
    snapshot: &Snapshot,
    method: Method<'_>,
    branch: Branch,
    server: SocketAddr,
    uri: &[u8],
    message: &Message<'_>,
    out: &mut Outbox,
) {
    let Some(flow) = snapshot.flow_to(server, branch.listener) else {
        return;
    };
    let Ok(Essentials { call_id, cseq, .. }) = message.essentials() else {
        return;
    };
    out.send(flow, |out| {
        out.extend_from_slice(method.as_bytes());
        out.push(b' ');
        out.extend_from_slice(uri);
        out.extend_from_slice(b" SIP/2.0\r\nVia: ");
        write_via(snapshot, flow.listener, branch, out);
        out.extend_from_slice(b"\r\nFrom: ");
        out.extend_from_slice(message.header(HeaderName::From).unwrap_or_default());
        out.extend_from_slice(b"\r\nTo: ");
        match message.to() {
            // RFC 3261 §9.1: a CANCEL has the INVITE's To, which had no tag.
            Ok(to) if method == Method::Cancel => {
                out.extend_from_slice(b"<");
                out.extend_from_slice(to.uri);
                out.extend_from_slice(b">");
            }
            _ => out.extend_from_slice(message.header(HeaderName::To).unwrap_or_default()),
        }
        out.extend_from_slice(b"\r\nMax-Forwards: 70\r\nCall-ID: ");
        out.extend_from_slice(call_id);
        out.extend_from_slice(format!("\r\nCSeq: {} ", cseq.number).as_bytes());
        out.extend_from_slice(method.as_bytes());
        out.extend_from_slice(b"\r\nContent-Length: 0\r\n\r\n");
    });
}

pub(crate) fn write_via(snapshot: &Snapshot, listener: u8, branch: Branch, out: &mut Vec<u8>) {
    out.extend_from_slice(b"SIP/2.0/UDP ");
    out.extend_from_slice(snapshot.listener(listener).advertise.as_bytes());
    out.extend_from_slice(b";branch=");
    branch.write(out);
}

/// Whether a Route value is of a router that knows only RFC 2543.
fn is_strict(uri: &[u8]) -> bool {
    Uri::parse(uri).is_ok_and(|uri| !uri.param(b"lr").is_present())
}
