//! The responses of a user agent server.

use std::{io::Write as _, net::SocketAddr};

use sip::{HeaderName, Message, Uri};

use crate::HEADERS_MAX;

/// How a message without a body ends.
pub(super) const NO_BODY: &[u8] = b"Content-Length: 0\r\n\r\n";
/// The header line of a BYE that ends a call as planned. RFC 3326
pub(super) const NORMAL_CLEARING: &[u8] =
    b"Reason: Q.850;cause=16;text=\"Normal call clearing\"\r\n";
const OK: &[u8] = b"SIP/2.0 200 OK\r\n";

/// Appends a response without a body, with the default reason phrase.
pub(crate) fn put_reply(
    request: &Message<'_>,
    from: SocketAddr,
    status: u16,
    tag: &str,
    out: &mut Vec<u8>,
) {
    sip::write_reply(
        request,
        status,
        sip::reason_phrase(status),
        Some(tag),
        from,
        &[],
        out,
    );
}

/// Appends the 200 to a REGISTER: its contacts with the time that each asked for
/// (RFC 3261 §10.3).
pub(super) fn put_registered(
    register: &Message<'_>,
    from: SocketAddr,
    tag: &str,
    out: &mut Vec<u8>,
) {
    const EXPIRES_S: u32 = 3600;
    let granted = |contact: sip::NameAddr<'_>| {
        let asked = contact.param(b"expires").value();
        let asked = asked.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        let expires_s = asked.or_else(|| register.expires()).unwrap_or(EXPIRES_S);
        let uri = String::from_utf8_lossy(contact.uri);
        (expires_s > 0).then(|| format!("<{uri}>;expires={expires_s}"))
    };
    let contacts: Vec<_> = register.contacts().flatten().filter_map(granted).collect();
    let contacts: Vec<_> = contacts
        .iter()
        .map(|contact| ("Contact", &**contact))
        .collect();
    sip::write_reply(
        register,
        200,
        sip::reason_phrase(200),
        Some(tag),
        from,
        &contacts,
        out,
    );
}

/// Appends a status line with the default reason phrase.
pub(super) fn put_status_line(out: &mut Vec<u8>, status: u16) {
    write!(out, "SIP/2.0 {status} {}\r\n", sip::reason_phrase(status)).expect("a Vec takes all");
}

/// Fills `out` with the header fields that all responses to an INVITE share: those of any
/// response, Record-Route and Contact (RFC 3261 §12.1.1).
pub(super) fn fill_headers(
    out: &mut Vec<u8>,
    invite: &Message<'_>,
    from: SocketAddr,
    tag: &str,
    contact: &[u8],
) {
    put_reply(invite, from, 200, tag, out);
    out.truncate(out.len() - NO_BODY.len());
    out.drain(..OK.len());
    for route in invite.header_values(HeaderName::RecordRoute) {
        put_line(out, b"Record-Route: ", route);
    }
    put_line(out, b"Contact: ", contact);
}

/// Appends the BYE of a server, built from the `headers` of its responses to the INVITE and the caller's
/// `contact`, with the header line `reason`; says where to send it, if that can be known.
pub(super) fn write_bye(
    headers: &[u8],
    contact: &[u8],
    server: SocketAddr,
    branch: &str,
    reason: &[u8],
    out: &mut Vec<u8>,
) -> Option<SocketAddr> {
    let answer = [OK, headers, NO_BODY].concat();
    let answer = Message::parse(&answer, HEADERS_MAX).ok()?;
    let first_route = answer
        .record_routes()
        .next()
        .and_then(Result::ok)
        .map(|route| route.uri);
    let next_hop = Uri::parse(first_route.unwrap_or(contact)).ok()?.address()?;
    out.extend_from_slice(&[b"BYE ", contact, b" SIP/2.0\r\n"].concat());
    write!(
        out,
        "Via: SIP/2.0/UDP {server};rport;branch=z9hG4bK{branch}\r\n"
    )
    .expect("a Vec takes all");
    out.extend_from_slice(b"Max-Forwards: 70\r\n");
    for route in answer.header_values(HeaderName::RecordRoute) {
        put_line(out, b"Route: ", route);
    }
    put_line(out, b"From: ", answer.header(HeaderName::To)?);
    put_line(out, b"To: ", answer.header(HeaderName::From)?);
    put_line(out, b"Call-ID: ", answer.header(HeaderName::CallId)?);
    out.extend_from_slice(b"CSeq: 1 BYE\r\n");
    out.extend_from_slice(reason);
    out.extend_from_slice(NO_BODY);
    Some(next_hop)
}

fn put_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
