//! Messages as they leave: what RFC 3261 has a proxy add and take away, and nothing else.

use std::net::SocketAddr;

use custody::Room;
use sip::{Edits, Essentials, HeaderName, Message, Method, NameAddr, OVERLOAD_OFFER, Uri, Via};
use transaction::{Flow, Transport};

use super::{
    branch::{Branch, Purpose, write_hex},
    identity,
    mark::{self, Check, Mark},
    nat, outbound, reply,
    request::{Request, Sender},
    response::Response,
    token::{self, End, Ends, Starter},
};
use crate::{context::Context, control, io::Outbox, snapshot::Snapshot};

/// Where a request goes and what it carries there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop<'a> {
    pub(crate) flow: Flow,
    pub(crate) purpose: Purpose,
    /// Its Request-URI there, if that is another.
    pub(crate) uri: Option<&'a [u8]>,
    /// What its Route begins with there; may be empty.
    pub(crate) path: &'a [u8],
    /// For a dialog that may begin: its server, and who starts it.
    pub(crate) affinity: Option<(End, Starter)>,
    /// Whether the next hop is asked to tell how much to send it.
    pub(crate) offers_control: bool,
    /// Who holds the request, if nodes settle that among themselves.
    pub(crate) mark: Option<Mark>,
}

/// Queues a request for its next hop. RFC 3261 §16.6
pub(crate) fn request(
    snapshot: &Snapshot,
    edits: &mut Edits,
    request: &Request<'_>,
    hop: &Hop<'_>,
    out: &mut Outbox,
) {
    let is_left = hop.mark == Some(Mark::Open) && snapshot.is_trusted(hop.flow);
    if request.is_unchecked() && !is_left {
        debug_assert!(false, "an unchecked request goes to nobody who checks it");
        return;
    }
    prepare(snapshot, edits, request, hop);
    let bytes = request.message.bytes();
    out.send(hop.flow, |out| edits.apply(bytes, out));
}

/// Queues a request for another edge of the cluster, which treats it as if it had come there. RFC 3261 §16.6
pub(crate) fn pass_on(
    snapshot: &Snapshot,
    edits: &mut Edits,
    request: &Request<'_>,
    flow: Flow,
    out: &mut Outbox,
) {
    let (message, from) = (request.message, request.datagram.flow);
    let purpose = Purpose::Relay(0);
    let branch = Branch {
        purpose,
        listener: from.listener,
        id: purpose.seal(snapshot.keys(), request.id),
    };
    edits.clear();
    edits.set_max_forwards(message, request.hops_left());
    edits.set_received(message, &request.via, from.remote);
    identity::guard(snapshot, edits, message, from, || Some(flow));
    edits.push_via(message, |out| {
        write_via(snapshot, flow.listener, branch, out);
        write_way_back(snapshot, branch, &request.via, from, out);
    });
    out.send(flow, |out| edits.apply(message.bytes(), out));
}

/// Gathers the edits for a request's next hop.
pub(crate) fn prepare(
    snapshot: &Snapshot,
    edits: &mut Edits,
    request: &Request<'_>,
    hop: &Hop<'_>,
) {
    let hit = request.datagram.flow.listener;
    let listener = hop.flow.listener;
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
    if request.via.has_overload {
        edits.set_overload(message, &request.via, None);
    }
    edit_headers(snapshot, edits, request, hop);
    identity::guard(snapshot, edits, message, request.datagram.flow, || {
        Some(hop.flow)
    });
    if request.is_proven() {
        identity::assert_proven(snapshot, edits, request, hop.flow);
    }
    if let Some(ends) = ends(snapshot, request, hop) {
        push_record_routes(snapshot, edits, request, ends, [hit, listener]);
    }
    if request.method == Method::Register {
        push_path(snapshot, edits, request, listener);
    }
    frame(edits, message, hop.flow.transport);
    let branch = Branch {
        purpose: hop.purpose,
        listener: hit,
        id: hop.purpose.seal(snapshot.keys(), request.id),
    };
    edits.push_via(message, |out| {
        write_via(snapshot, listener, branch, out);
        write_way_back(snapshot, branch, &request.via, request.datagram.flow, out);
        if hop.offers_control {
            out.extend_from_slice(OVERLOAD_OFFER);
        }
        if (hop.mark.is_some() || request.sender != Sender::Unasked)
            && snapshot.is_trusted(hop.flow)
        {
            write_marks(snapshot, request, hop, branch, out);
        }
    });
}

/// Appends to our Via what nodes tell each other of a request.
fn write_marks(
    snapshot: &Snapshot,
    request: &Request<'_>,
    hop: &Hop<'_>,
    branch: Branch,
    out: &mut Vec<u8>,
) {
    let keys = snapshot.keys();
    if let Some(mark) = hop.mark {
        mark.write(keys, request.key, branch, out);
    }
    let check = match request.sender {
        Sender::Unasked => return,
        Sender::Known | Sender::Proven => Check::Done,
        Sender::Unchecked => Check::Open,
    };
    check.write(keys, request, branch, out);
}

/// The ends of the dialog that a request may start. A request without a From tag, as of RFC 2543, starts none
/// that a token could be bound to.
fn ends(snapshot: &Snapshot, request: &Request<'_>, hop: &Hop<'_>) -> Option<Ends> {
    let (server, starter) = hop.affinity.filter(|_| !request.from_tag.is_empty())?;
    let client = match starter {
        Starter::Client => request.client(snapshot),
        Starter::Server => request.called_client(hop.flow),
    };
    Some(Ends {
        server,
        client,
        starter,
    })
}

/// The listener nearest to the next hop comes on top: two on a change of listener, RFC 5658.
fn push_record_routes(
    snapshot: &Snapshot,
    edits: &mut Edits,
    request: &Request<'_>,
    ends: Ends,
    [hit, sent]: [u8; 2],
) {
    let two = [Some(hit).filter(|_| hit != sent), Some(sent)];
    for index in two.into_iter().flatten() {
        edits.push_record_route(request.message, |out| {
            out.extend_from_slice(scheme(request));
            let (call_id, tag) = (request.call_id, request.from_tag);
            token::write(snapshot.keys(), ends, call_id, tag, out);
            out.push(b'@');
            snapshot.listener(index).write_at(out);
            out.push(b'>');
        });
    }
}

/// Whether a REGISTER comes from the phone itself that it registers.
fn is_of_phone(snapshot: &Snapshot, request: &Request<'_>) -> bool {
    let sender = request.datagram.flow;
    let mut contacts = request.message.contacts().map_while(Result::ok);
    let is_sender = |contact: NameAddr<'_>| {
        let uri = Uri::parse(contact.uri);
        uri.is_ok_and(|uri| nat::is_sender(&uri, &request.via, sender))
    };
    !snapshot.is_trusted(sender) && contacts.any(is_sender)
}

/// Has calls of whoever registers come back over this node and this flow: RFC 3327, RFC 5626 §5.1. They come
/// by the transport of the next hop, which may have no other.
fn push_path(snapshot: &Snapshot, edits: &mut Edits, request: &Request<'_>, sent: u8) {
    let is_outbound = outbound::is_first_hop(request) && outbound::names_flow(request.message);
    if !is_outbound && !is_of_phone(snapshot, request) {
        return;
    }
    let flow = reply::return_flow(Some(&request.via), request.datagram.flow);
    let transport = |index| snapshot.listener(index).transport;
    let is_same = transport(flow.listener) == transport(sent);
    let at = if is_same { flow.listener } else { sent };
    let start = scheme(request);
    edits.push_path(request.message, |out| {
        write_path(snapshot, at, flow, (start, is_outbound), out);
    });
}

/// How a URI of ours begins in a request: RFC 3261 §16.6 item 4.
pub(crate) fn scheme(request: &Request<'_>) -> &'static [u8] {
    if request.is_sips() {
        b"<sips:"
    } else {
        b"<sip:"
    }
}

/// Appends the Path value that leads back to a flow of this node, by the listener `at`. `is_outbound`: its phone has several.
pub(crate) fn write_path(
    snapshot: &Snapshot,
    at: u8,
    flow: Flow,
    (start, is_outbound): (&[u8], bool),
    out: &mut Vec<u8>,
) {
    let listener = snapshot.listener(at);
    out.extend_from_slice(start);
    token::write_flow(snapshot.keys(), flow, listener.advertise.as_bytes(), out);
    out.push(b'@');
    listener.write_at(out);
    out.extend_from_slice(if is_outbound { b";ob>" } else { b">" });
}

/// Gathers the edits of the route that a request takes, if it begins something. A request that a server
/// sends where its own Route or Request-URI says takes none.
fn edit_headers(snapshot: &Snapshot, edits: &mut Edits, request: &Request<'_>, hop: &Hop<'_>) {
    let is_of_another = matches!(request.method, Method::Ack | Method::Cancel);
    let takes_no_route = is_of_another || request.path.phone.is_some();
    if !snapshot.edits_headers() || !request.is_initial() || takes_no_route {
        return;
    }
    let leads_itself = request.next_hop() == Some(hop.flow.next_hop());
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
/// do identities that it may not have. The next Via tells its owner how much to send here, and nothing of
/// what others say about that: RFC 7339 §5.4. `room` is what it is told of this node's.
pub(crate) fn back(
    cx: Context<'_>,
    edits: &mut Edits,
    response: &Response<'_>,
    room: Option<Room>,
) {
    let (snapshot, message) = (cx.snapshot, response.message);
    edits.clear();
    edits.pop_via(message, &response.via);
    if let Some(below) = &response.below {
        let terms = control::terms(cx, below, || response.return_flow());
        if terms.is_some() || below.has_overload {
            edits.set_overload(message, below, terms.as_ref());
        }
        mark::tell_room(snapshot.keys(), edits, response, below, room);
    }
    outbound::tell_timer(snapshot, edits, response);
    frame(edits, message, response.transport);
    let back = || response.return_flow();
    identity::guard(snapshot, edits, message, response.flow, back);
}

/// Has a message say its length, as a stream needs it: a datagram or a frame of a WebSocket need not. Who says
/// two gets no further. RFC 3261 §18.3
fn frame(edits: &mut Edits, message: &Message<'_>, over: Transport) {
    if !over.is_stream() || message.header(HeaderName::ContentLength).is_some() {
        return;
    }
    edits.append_header(message, "Content-Length", |out| {
        out.extend_from_slice(message.body().len().to_string().as_bytes());
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
    let hop = snapshot.next_hop_at(server);
    let Some(flow) = snapshot.flow_to(hop, branch.listener) else {
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
    let listener = snapshot.listener(listener);
    out.extend_from_slice(b"SIP/2.0/");
    out.extend_from_slice(listener.transport.in_via().as_bytes());
    out.push(b' ');
    out.extend_from_slice(listener.advertise.as_bytes());
    // Whoever knows us by our certificate may send requests on the connection that this one comes by. RFC 5923 §8.1
    if listener.transport == Transport::Tls {
        out.extend_from_slice(b";alias");
    }
    out.extend_from_slice(b";branch=");
    branch.write(out);
}

/// Appends to our Via the connection that a request came by, so that its responses find it, and what binds them to the
/// way that they take then.
fn write_way_back(
    snapshot: &Snapshot,
    branch: Branch,
    via: &Via<'_>,
    from: Flow,
    out: &mut Vec<u8>,
) {
    if let Some(connection) = from.connection {
        out.extend_from_slice(b";i=");
        write_hex(connection.0.get().into(), 8, out);
    }
    let mut back = from;
    back.remote.set_port(via.port_back(from.remote));
    out.extend_from_slice(b";w=");
    write_hex(snapshot.keys().way_back(branch.id, back).into(), 8, out);
}

/// Whether a Route value is of a router that knows only RFC 2543.
fn is_strict(uri: &[u8]) -> bool {
    Uri::parse(uri).is_ok_and(|uri| !uri.param(b"lr").is_present())
}
