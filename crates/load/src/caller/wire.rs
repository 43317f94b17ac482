//! What a caller writes on the wire, and how it knows its own calls again.

use std::net::SocketAddr;

use sip::Message;

use crate::template::{Fill, Template, from_hex, hex, session_description};

/// The requests that are sent from one socket.
#[derive(Debug)]
pub(super) struct Requests {
    pub invite: Template,
    /// The ACK that belongs to the INVITE's transaction, for a final response other than 2xx
    /// (RFC 3261 §17.1.1.3).
    pub ack_of_refusal: Template,
    pub ack: Template,
    pub bye: Template,
}

/// What names a call: it is the Call-ID, and branches and tags are made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallName {
    pub slot: u32,
    pub nonce: u64,
}

/// The caller's side of a confirmed dialog: what its requests carry.
#[derive(Debug)]
pub(super) struct Dialog {
    /// The remote target, then the route set and the To field as header lines.
    text: Vec<u8>,
    target_end: usize,
    /// The topmost route's address, or else the outbound proxy.
    pub next_hop: SocketAddr,
}

impl Requests {
    pub(super) fn new(socket: SocketAddr) -> Self {
        let body = session_description(socket);
        let contact = format!("Contact: <sip:caller@{socket}>\r\n");
        let offer = format!(
            "{contact}Allow: INVITE, ACK, CANCEL, BYE, OPTIONS\r\nSupported: timer\r\n\
             User-Agent: sipyard-load\r\nContent-Type: application/sdp\r\n"
        );
        let callee = "sip:callee-{user}@example.com";
        let no_dialog = format!("To: <{callee}>\r\n");
        let request = |method, target, branch, dialog, cseq, more: &str, body| {
            Template::new(&request(
                socket, method, target, branch, dialog, cseq, more, body,
            ))
        };
        Self {
            invite: request("INVITE", callee, 'i', &no_dialog, 1, &offer, &body),
            ack_of_refusal: request("ACK", callee, 'i', "{dialog}", 1, "", ""),
            ack: request("ACK", "{target}", 'a', "{dialog}", 1, "", ""),
            bye: request("BYE", "{target}", 'b', "{dialog}", 2, "", ""),
        }
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "they are the parts of a request, in order"
)]
fn request(
    socket: SocketAddr,
    method: &str,
    target: &str,
    branch: char,
    dialog: &str,
    cseq: u32,
    more: &str,
    body: &str,
) -> String {
    let length = body.len();
    format!(
        "{method} {target} SIP/2.0\r\n\
         Via: SIP/2.0/UDP {socket};rport;branch=z9hG4bK{{nonce}}{branch}\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:caller-{{user}}@example.com>;tag={{nonce}}\r\n\
         {dialog}\
         Call-ID: {{slot}}{{nonce}}\r\n\
         CSeq: {cseq} {method}\r\n\
         {more}Content-Length: {length}\r\n\r\n{body}"
    )
}

impl CallName {
    pub(super) fn of(message: &Message<'_>) -> Option<Self> {
        let call_id = message.call_id().ok()?;
        if call_id.len() != 24 {
            return None;
        }
        let slot = u32::try_from(from_hex(&call_id[..8])?).ok()?;
        Some(Self {
            slot,
            nonce: from_hex(&call_id[8..])?,
        })
    }

    /// What goes into a request outside a dialog, or into one that carries `dialog`.
    pub(super) fn fill<'a>(&self, target: &'a [u8], dialog: &'a [u8]) -> Fill<'a> {
        Fill {
            slot: hex(u64::from(self.slot)),
            nonce: hex(self.nonce),
            target,
            dialog,
        }
    }
}

impl Dialog {
    pub(super) fn new(proxy: SocketAddr) -> Self {
        Self {
            text: Vec::new(),
            target_end: 0,
            next_hop: proxy,
        }
    }

    /// Takes over what a 2xx says: remote target, route set, remote tag (RFC 3261 §12.1.2).
    pub(super) fn confirm(&mut self, answer: &Message<'_>, proxy: SocketAddr) {
        self.text.clear();
        self.next_hop = proxy;
        if let Some(Ok(contact)) = answer.contacts().next() {
            self.text.extend_from_slice(contact.uri);
        }
        self.target_end = self.text.len();
        for route in answer.record_routes().flatten() {
            let start = self.text.len();
            let value = &answer.bytes()[route.span.start..route.span.end];
            put_line(&mut self.text, b"Route: ", value);
            // The last Record-Route is the first hop of the caller's route set.
            let line = self.text.len() - start;
            self.text[self.target_end..].rotate_right(line);
            let address = sip::Uri::parse(route.uri)
                .ok()
                .and_then(|uri| uri.address());
            self.next_hop = address.unwrap_or(proxy);
        }
        put_to(&mut self.text, answer);
    }

    pub(super) fn fill(&self, name: CallName) -> Fill<'_> {
        name.fill(&self.text[..self.target_end], &self.text[self.target_end..])
    }
}

/// Appends the To field of a message as a header line.
pub(super) fn put_to(out: &mut Vec<u8>, message: &Message<'_>) {
    put_line(
        out,
        b"To: ",
        message.header(sip::HeaderName::To).unwrap_or_default(),
    );
}

fn put_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
