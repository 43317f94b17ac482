//! The messages that a caller sends, and the marks by which it recognizes its calls.

use std::net::SocketAddr;

use sip::Message;

use transaction::Transport;

use crate::template::{Fill, Template, User, from_hex, session_description, uri_param};

/// The CSeq of a call's first request.
pub(super) const INVITE_CSEQ: u32 = 1;

/// The CSeq of the INVITE that answers a challenge.
pub(super) const PROVEN_CSEQ: u32 = 2;

/// The requests that are sent from one socket.
#[derive(Debug)]
pub(super) struct Requests {
    /// Without credentials, and with them.
    openings: [Opening; 2],
    pub ack: Template,
    pub reinvite: Template,
    /// The same as `ack_of_refusal`, for a re-INVITE.
    pub ack_of_reinvite: Template,
    pub bye: Template,
}

/// An INVITE that begins a call, and what belongs to its transaction.
#[derive(Debug)]
pub(super) struct Opening {
    pub invite: Template,
    /// The ACK for a final response other than 2xx (RFC 3261 §17.1.1.3).
    pub ack_of_refusal: Template,
    pub cancel: Template,
}

/// What names a call: it is the Call-ID, and branches and tags are made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallName {
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
    pub(super) fn new(socket: SocketAddr, transport: Transport, domain: &str) -> Self {
        let (via, param) = (transport.in_via(), uri_param(transport));
        let description = session_description(socket);
        let offer = format!(
            "Contact: <sip:caller@{socket}{param}>\r\nAllow: INVITE, ACK, CANCEL, BYE, OPTIONS\r\n\
             Supported: timer\r\nUser-Agent: sipyard-load\r\nContent-Type: application/sdp\r\n\
             Content-Length: {}\r\n\r\n{description}",
            description.len()
        );
        let nothing = "Content-Length: 0\r\n\r\n";
        let callee = format!("sip:{{user}}@{domain}");
        let no_dialog = format!("To: <{callee}>\r\n");
        let request = |method, target: &str, branch, lines: &str, end: &str| {
            Template::new(&format!(
                "{method} {target} SIP/2.0\r\n\
                 Via: SIP/2.0/{via} {socket};rport;branch=z9hG4bK{{nonce}}{branch}\r\n\
                 Max-Forwards: 70\r\n\
                 From: <sip:caller@{domain}>;tag={{nonce}}\r\n\
                 {lines}\
                 Call-ID: {{slot}}{{nonce}}\r\n\
                 CSeq: {{cseq}} {method}\r\n{end}"
            ))
        };
        let in_dialog =
            |method, branch, end: &str| request(method, "{target}", branch, "{lines}", end);
        let opening = |branch, lines: &str| Opening {
            invite: request("INVITE", &callee, branch, lines, &offer),
            ack_of_refusal: request("ACK", &callee, branch, "{lines}", nothing),
            cancel: request("CANCEL", &callee, branch, &no_dialog, nothing),
        };
        Self {
            openings: [
                opening("i", &no_dialog),
                opening("p", &format!("{no_dialog}{{lines}}")),
            ],
            ack: in_dialog("ACK", "a{cseq}", nothing),
            reinvite: in_dialog("INVITE", "r", &offer),
            ack_of_reinvite: in_dialog("ACK", "r", nothing),
            bye: in_dialog("BYE", "b", nothing),
        }
    }
}

impl Requests {
    /// The opening with this CSeq.
    pub(super) fn opening(&self, cseq: u32) -> &Opening {
        &self.openings[usize::from(cseq == PROVEN_CSEQ)]
    }
}

impl CallName {
    pub(crate) fn of(message: &Message<'_>) -> Option<Self> {
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

    /// What goes into a request outside a dialog of a call to one of so many users.
    pub(super) fn fill(self, users: u32, cseq: u32) -> Fill<'static> {
        Fill {
            slot: self.slot,
            nonce: self.nonce,
            user: self.called(users),
            cseq,
            ..Fill::default()
        }
    }
}

impl CallName {
    /// The user of so many who is called.
    pub(super) fn called(self, users: u32) -> User<'static> {
        User::Numbered((self.nonce % u64::from(users)) as u32)
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

    /// What goes into a request inside the dialog.
    pub(super) fn fill(&self, name: CallName, cseq: u32) -> Fill<'_> {
        Fill {
            slot: name.slot,
            nonce: name.nonce,
            cseq,
            target: &self.text[..self.target_end],
            lines: &self.text[self.target_end..],
            ..Fill::default()
        }
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
