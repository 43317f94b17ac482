//! What callers and servers say: answers, ACKs and BYEs.

use std::{io::Write, net::SocketAddr};

use sip::{HeaderName, Message};

/// Appends an answer, with what a dialog needs.
pub(crate) fn put_answer(
    request: &Message<'_>,
    status: u16,
    peer: SocketAddr,
    own: SocketAddr,
    out: &mut Vec<u8>,
) {
    let contact = format!("<sip:{own}>");
    let routes: Vec<String> = request
        .header_values(HeaderName::RecordRoute)
        .map(|value| String::from_utf8_lossy(value).into_owned())
        .collect();
    let mut headers: Vec<(&str, &str)> = Vec::new();
    if status > 100 {
        headers.extend(routes.iter().map(|value| ("Record-Route", value.as_str())));
    }
    if status > 100 && status < 300 {
        headers.push(("Contact", &contact));
    }
    let reason = sip::reason_phrase(status);
    sip::write_reply(request, status, reason, Some("shadow"), peer, &headers, out);
}

/// Appends the ACK of a failure, which ends at the next hop. RFC 3261 §17.1.1.3
pub(crate) fn put_ack_of_failure(invite: &Message<'_>, answer: &Message<'_>, out: &mut Vec<u8>) {
    let uri = request_uri(invite);
    out.extend_from_slice(&[b"ACK ", uri, b" SIP/2.0\r\n"].concat());
    put(out, "Via", invite.header_values(HeaderName::Via).next());
    put(out, "Max-Forwards", Some(b"70"));
    put(out, "From", invite.header(HeaderName::From));
    put(out, "To", answer.header(HeaderName::To));
    put(out, "Call-ID", invite.header(HeaderName::CallId));
    let number = invite.cseq().map_or(1, |cseq| cseq.number);
    put(out, "CSeq", Some(format!("{number} ACK").as_bytes()));
    put(out, "Content-Length", Some(b"0\r\n"));
}

/// Appends a caller's ACK or BYE within the dialog that an answer made. RFC 3261 §12.2.1.1
pub(crate) fn put_within(
    method: &str,
    cseq: u32,
    answer: &Message<'_>,
    caller: SocketAddr,
    out: &mut Vec<u8>,
) {
    let contact = answer.contacts().next().and_then(Result::ok);
    let uri = contact.map_or(&b"sip:nobody.invalid"[..], |contact| contact.uri);
    let mut routes: Vec<&[u8]> = answer.header_values(HeaderName::RecordRoute).collect();
    routes.reverse();
    let parties = (
        answer.header(HeaderName::From),
        answer.header(HeaderName::To),
    );
    put_request(method, cseq, uri, &routes, parties, answer, caller, out);
}

/// Appends a server's BYE within the dialog of a request that it got.
pub(crate) fn put_bye_of_server(invite: &Message<'_>, server: SocketAddr, out: &mut Vec<u8>) {
    let contact = invite.contacts().next().and_then(Result::ok);
    let uri = contact.map_or(&b"sip:nobody.invalid"[..], |contact| contact.uri);
    let routes: Vec<&[u8]> = invite.header_values(HeaderName::RecordRoute).collect();
    let to = invite.header(HeaderName::To).unwrap_or_default();
    let own = [to, b";tag=shadow"].concat();
    let parties = (Some(&own[..]), invite.header(HeaderName::From));
    put_request("BYE", 1, uri, &routes, parties, invite, server, out);
}

#[expect(clippy::too_many_arguments, reason = "a request has these parts")]
fn put_request(
    method: &str,
    cseq: u32,
    uri: &[u8],
    routes: &[&[u8]],
    (from, to): (Option<&[u8]>, Option<&[u8]>),
    of: &Message<'_>,
    own: SocketAddr,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&[method.as_bytes(), b" ", uri, b" SIP/2.0\r\n"].concat());
    let call_id = of.header(HeaderName::CallId);
    let branch = branch(call_id.unwrap_or_default(), method);
    let via = format!("SIP/2.0/UDP {own};rport;branch=z9hG4bKshadow{branch:x}");
    put(out, "Via", Some(via.as_bytes()));
    put(out, "Max-Forwards", Some(b"70"));
    for route in routes {
        put(out, "Route", Some(route));
    }
    put(out, "From", from);
    put(out, "To", to);
    put(out, "Call-ID", call_id);
    put(out, "CSeq", Some(format!("{cseq} {method}").as_bytes()));
    put(out, "Content-Length", Some(b"0\r\n"));
}

/// A number for each request of a dialog.
fn branch(call_id: &[u8], method: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (call_id, method).hash(&mut hasher);
    hasher.finish()
}

fn request_uri<'a>(request: &Message<'a>) -> &'a [u8] {
    let line = request
        .bytes()
        .split(|byte| *byte == b'\r')
        .next()
        .unwrap_or_default();
    line.split(|byte| *byte == b' ').nth(1).unwrap_or_default()
}

fn put(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    if let Some(value) = value {
        write!(out, "{name}: ").expect("a Vec takes all");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
}
