//! The requests that follow from an INVITE that we sent.

use sip::{HeaderName, Message, Method};

/// An INVITE is ours: it has no more header fields than the transaction user lets pass.
const HEADERS_MAX: usize = usize::MAX - 1;

/// Appends the ACK of a failure: RFC 3261 §17.1.1.3.
pub(crate) fn write_ack(invite: &[u8], failure: &Message<'_>, out: &mut Vec<u8>) {
    let to = failure.header(HeaderName::To);
    write(invite, Method::Ack, to, out);
}

/// Appends the CANCEL: RFC 3261 §9.1.
pub(crate) fn write_cancel(invite: &[u8], out: &mut Vec<u8>) {
    write(invite, Method::Cancel, None, out);
}

/// Appends a request with the INVITE's Request-URI, topmost Via, Route, From, Call-ID and CSeq
/// number; with its To as well unless another is given. Nothing, when the INVITE is no message.
fn write(invite: &[u8], method: Method<'_>, to: Option<&[u8]>, out: &mut Vec<u8>) {
    let Ok(invite) = Message::parse(invite, HEADERS_MAX) else {
        return;
    };
    let (Some(uri), Ok(via), Ok(cseq)) = (invite.request_uri(), invite.top_via(), invite.cseq())
    else {
        return;
    };
    let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| out.extend_from_slice(part));
    put(&[method.as_bytes(), b" ", uri, b" SIP/2.0\r\nVia: "]);
    put(&[&invite.bytes()[via.span.start..via.span.end]]);
    for route in invite.header_values(HeaderName::Route) {
        put(&[b"\r\nRoute: ", route]);
    }
    let header = |name| invite.header(name).unwrap_or_default();
    put(&[b"\r\nMax-Forwards: 70\r\nFrom: ", header(HeaderName::From)]);
    put(&[b"\r\nTo: ", to.unwrap_or_else(|| header(HeaderName::To))]);
    put(&[b"\r\nCall-ID: ", header(HeaderName::CallId)]);
    put(&[b"\r\nCSeq: ", cseq.number.to_string().as_bytes(), b" "]);
    put(&[method.as_bytes(), b"\r\nContent-Length: 0\r\n\r\n"]);
}
