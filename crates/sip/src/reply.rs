//! Answers that are made from the request alone.

use std::net::SocketAddr;

use crate::{
    HeaderName, Message, OverloadTerms, Via,
    edits::received,
    overload,
    text::{offset, write_number},
    values::Fields,
};

/// What a response says in the topmost Via.
#[derive(Clone, Copy, Debug)]
pub struct Back {
    /// Where the request came from.
    pub from: SocketAddr,
    /// What its sender is to withhold; none: its own overload-control parameters stay, which says that
    /// there is no such control. RFC 7339 §5.1
    pub terms: Option<OverloadTerms>,
}

/// Appends the response to a request (RFC 3261 §8.2.6) that came from `from`. It contains the
/// request's Vias with received and rport, From, To with `to_tag` if it has no tag, Call-ID, CSeq,
/// Timestamp in a 100, the extra headers, and no body. For a malformed request it copies the lines
/// that are there, unchanged.
pub fn write_reply(
    request: &Message<'_>,
    status: u16,
    reason: &str,
    to_tag: Option<&str>,
    from: SocketAddr,
    headers: &[(&str, &str)],
    out: &mut Vec<u8>,
) {
    let back = Back { from, terms: None };
    write_reply_with(request, status, reason, to_tag, back, headers, out);
}

/// The same, with all that the topmost Via may say.
pub fn write_reply_with(
    request: &Message<'_>,
    status: u16,
    reason: &str,
    to_tag: Option<&str>,
    back: Back,
    headers: &[(&str, &str)],
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"SIP/2.0 ");
    write_number(out, u32::from(status));
    out.push(b' ');
    out.extend_from_slice(reason.as_bytes());
    out.extend_from_slice(b"\r\n");
    write_vias(request, back, out);
    write_copy(request, HeaderName::From, None, out);
    let to_tag = to_tag.filter(|_| status > 100 && request.to_tag() == Ok(None));
    write_copy(request, HeaderName::To, to_tag, out);
    write_copy(request, HeaderName::CallId, None, out);
    write_copy(request, HeaderName::CSeq, None, out);
    if status == 100 {
        write_copy(request, HeaderName::Timestamp, None, out);
    }
    for (name, value) in headers {
        write_header(name, value.as_bytes(), out);
    }
    out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
}

/// The reason phrase of a status code in the RFCs.
pub const fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Trying",
        180 => "Ringing",
        181 => "Call Is Being Forwarded",
        182 => "Queued",
        183 => "Session Progress",
        199 => "Early Dialog Terminated",
        200 => "OK",
        202 => "Accepted",
        204 => "No Notification",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Moved Temporarily",
        305 => "Use Proxy",
        380 => "Alternative Service",
        400..500 => request_failure(status),
        500 => "Server Internal Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Server Time-out",
        505 => "Version Not Supported",
        513 => "Message Too Large",
        580 => "Precondition Failure",
        600 => "Busy Everywhere",
        603 => "Decline",
        604 => "Does Not Exist Anywhere",
        606 => "Not Acceptable",
        _ => match status / 100 {
            1 => "Session Progress",
            2 => "OK",
            3 => "Redirection",
            5 => "Server Failure",
            6 => "Global Failure",
            _ => "Request Failure",
        },
    }
}

const fn request_failure(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        410 => "Gone",
        412 => "Conditional Request Failed",
        413 => "Request Entity Too Large",
        414 => "Request-URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Unsupported URI Scheme",
        417 => "Unknown Resource-Priority",
        420 => "Bad Extension",
        421 => "Extension Required",
        422 => "Session Interval Too Small",
        423 => "Interval Too Brief",
        430 => "Flow Failed",
        439 => "First Hop Lacks Outbound Support",
        440 => "Max-Breadth Exceeded",
        469 => "Bad Info Package",
        480 => "Temporarily Unavailable",
        481 => "Call/Transaction Does Not Exist",
        482 => "Loop Detected",
        483 => "Too Many Hops",
        484 => "Address Incomplete",
        485 => "Ambiguous",
        486 => "Busy Here",
        487 => "Request Terminated",
        488 => "Not Acceptable Here",
        489 => "Bad Event",
        491 => "Request Pending",
        493 => "Undecipherable",
        494 => "Security Agreement Required",
        _ => "Request Failure",
    }
}

fn write_vias(request: &Message<'_>, back: Back, out: &mut Vec<u8>) {
    let bytes = request.bytes();
    for (index, field) in Fields::new(request, HeaderName::Via).enumerate() {
        let value = request.value(field);
        out.extend_from_slice(b"Via: ");
        let mut done = offset(bytes, value);
        if let (0, Ok(via)) = (index, request.top_via()) {
            done = write_top_via(bytes, done, &via, back, out);
        }
        out.extend_from_slice(&bytes[done..usize::from(field.end)]);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the topmost Via from `start` to its end, which it returns.
fn write_top_via(
    bytes: &[u8],
    start: usize,
    via: &Via<'_>,
    back: Back,
    out: &mut Vec<u8>,
) -> usize {
    let mut done = start;
    let mut gone = overload::spans(via, bytes)
        .filter(|_| back.terms.is_some())
        .peekable();
    for edit in received(via, bytes, back.from).into_iter().flatten() {
        while let Some(span) = gone.next_if(|span| span.start < edit.span.start) {
            out.extend_from_slice(&bytes[done..span.start]);
            done = span.end;
        }
        out.extend_from_slice(&bytes[done..edit.span.start]);
        edit.write(out);
        done = edit.span.end;
    }
    for span in gone {
        out.extend_from_slice(&bytes[done..span.start]);
        done = span.end;
    }
    out.extend_from_slice(&bytes[done..via.span.end]);
    if let Some(terms) = back.terms {
        terms.write(out);
    }
    via.span.end
}

fn write_copy(request: &Message<'_>, name: HeaderName, tag: Option<&str>, out: &mut Vec<u8>) {
    let Some(value) = request.header(name) else {
        return;
    };
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    if let Some(tag) = tag {
        out.extend_from_slice(value.strip_suffix(b";").unwrap_or(value));
        out.extend_from_slice(b";tag=");
        out.extend_from_slice(tag.as_bytes());
    } else {
        out.extend_from_slice(value);
    }
    out.extend_from_slice(b"\r\n");
}

fn write_header(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
