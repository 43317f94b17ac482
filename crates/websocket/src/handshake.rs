//! The HTTP exchange before the frames. RFC 6455 §4

use std::fmt;

use stream::Why;
use tungstenite::{
    error::{Error, ProtocolError},
    handshake::{
        client::{self, generate_key, generate_request},
        derive_accept_key,
        machine::TryParse,
        server::{self, create_response, write_response},
    },
    http::{HeaderMap, HeaderValue, StatusCode},
};

/// What RFC 7118 calls SIP.
const SUBPROTOCOL: &str = "sip";

const PROTOCOL_HEADER: &str = "Sec-WebSocket-Protocol";

/// A host or a path that can't stand in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadName;

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the host or the path can't stand in a WebSocket's request")
    }
}

impl std::error::Error for BadName {}

/// Why there is no WebSocket.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) why: Why,
    pub(crate) detail: String,
    /// The answer to a client.
    pub(crate) answer: &'static str,
}

/// Answers a client's request, and appends the answer.
pub(crate) fn answer(head: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
    let request = server::Request::try_parse(head);
    let Some((_, request)) = request.map_err(|error| refusal(&error))? else {
        return Err(refusal(&Error::Protocol(
            ProtocolError::HandshakeIncomplete,
        )));
    };
    let mut response = create_response(&request).map_err(|error| refusal(&error))?;
    if !speaks_sip(request.headers()) {
        return Err(Refusal {
            why: Why::Subprotocol,
            detail: "the client does not offer the subprotocol sip".to_owned(),
            answer: "HTTP/1.1 400 Bad Request\r\nSec-WebSocket-Protocol: sip\r\n",
        });
    }
    let sip = HeaderValue::from_static(SUBPROTOCOL);
    response.headers_mut().insert(PROTOCOL_HEADER, sip);
    write_response(out, &response).map_err(|error| refusal(&error))
}

/// A client's request, and the key in it.
pub(crate) fn request(host: &str, path: &str) -> Result<(Vec<u8>, String), BadName> {
    let request = client::Request::builder()
        .uri(path)
        .header("Host", host)
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", generate_key())
        .header(PROTOCOL_HEADER, SUBPROTOCOL)
        .body(());
    let request = request.map_err(|_| BadName)?;
    generate_request(request).map_err(|_| BadName)
}

/// Checks a server's answer to the request with this key. RFC 6455 §4.1
pub(crate) fn check(head: &[u8], key: &str) -> Result<(), Refusal> {
    let response = client::Response::try_parse(head);
    let Some((_, response)) = response.map_err(|error| refusal(&error))? else {
        return Err(refusal(&Error::Protocol(
            ProtocolError::HandshakeIncomplete,
        )));
    };
    let headers = response.headers();
    let has = |name, value: &str| {
        let mut words = words(headers, name);
        words.any(|word| word.eq_ignore_ascii_case(value))
    };
    let accept = headers.get("Sec-WebSocket-Accept");
    let is_accepted = accept.is_some_and(|accept| accept == &derive_accept_key(key.as_bytes()));
    let is_upgraded = response.status() == StatusCode::SWITCHING_PROTOCOLS
        && has("Upgrade", "websocket")
        && has("Connection", "Upgrade");
    let (why, detail) = if !is_upgraded || !is_accepted {
        (
            Why::WebSocket,
            format!("the server answered {}", response.status()),
        )
    } else if !speaks_sip(headers) {
        let detail = "the server does not speak the subprotocol sip";
        (Why::Subprotocol, detail.to_owned())
    } else {
        return Ok(());
    };
    Err(Refusal {
        why,
        detail,
        answer: "",
    })
}

fn speaks_sip(headers: &HeaderMap) -> bool {
    words(headers, PROTOCOL_HEADER).any(|word| word.eq_ignore_ascii_case(SUBPROTOCOL))
}

fn words<'a>(headers: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(str::trim)
}

fn refusal(error: &Error) -> Refusal {
    let answer = match error {
        Error::Protocol(ProtocolError::WrongHttpMethod) => {
            "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET\r\n"
        }
        Error::Protocol(
            ProtocolError::MissingConnectionUpgradeHeader
            | ProtocolError::MissingUpgradeWebSocketHeader
            | ProtocolError::MissingSecWebSocketVersionHeader,
        ) => "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
        _ => "HTTP/1.1 400 Bad Request\r\n",
    };
    Refusal {
        why: Why::WebSocket,
        detail: error.to_string(),
        answer,
    }
}
