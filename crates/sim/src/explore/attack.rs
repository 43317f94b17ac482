//! What strangers send.

use std::{fmt::Write as _, net::SocketAddr};

use fastrand::Rng;
use sip::{Message, StartLine};

use super::reach::Seen;
use crate::HEADERS_MAX;

/// A kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// An INVITE, which is never acknowledged; its answer says a token.
    Call,
    /// The own token with the tags swapped, so that it leads the other way.
    Swapped,
    /// The own token, Route and Request-URI to a third address.
    ThirdAddress,
    /// A request outside of any dialog with a Route or Request-URI to a third address.
    Elsewhere,
    /// A request from a third address, or from whoever takes part.
    ForgedSource,
    /// A request whose Via names the edge that it goes to.
    EdgesVia,
    /// A response to nothing, or to what came, with a second Via of a third address.
    StrayResponse,
    /// Random or damaged bytes.
    Rubbish,
    /// Many requests to changing users.
    Scan,
    /// Many requests of one Call-ID with rising CSeq.
    Rising,
    /// The same, and the server ignores them: INVITEs before the ACK of the first.
    Ignored,
    /// ICMP says that a server's or a caller's port is closed.
    Unreachable,
    /// Another's datagram, from the own address or from its own.
    Replay,
    /// Another's token with an own Call-ID.
    OthersToken,
}

/// A datagram with a source that need not be its sender's.
#[derive(Debug)]
pub(super) struct Forged {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) bytes: Vec<u8>,
}

/// Who attacks, and whom they know.
#[derive(Debug)]
pub(super) struct Strangers {
    rng: Rng,
    own: Vec<SocketAddr>,
    edges: Vec<SocketAddr>,
    servers: Vec<SocketAddr>,
    callers: Vec<SocketAddr>,
    sent: u32,
}

/// The parts of a request that differ.
struct Parts<'a> {
    method: &'a str,
    target: String,
    call_id: String,
    from_tag: &'a str,
    to_tag: &'a str,
    cseq: u32,
    /// Further header lines.
    lines: String,
}

/// A dialog of a stranger's own.
struct Own {
    call_id: String,
    own_tag: String,
    server_tag: String,
    contact: String,
    /// The Route header lines.
    routes: String,
}

/// Who takes no part and wants nothing.
const VICTIM: ([u8; 4], u16) = ([198, 51, 100, 200], 5060);

impl Attack {
    pub(super) const ALL: [Self; 14] = [
        Self::Call,
        Self::Swapped,
        Self::ThirdAddress,
        Self::Elsewhere,
        Self::ForgedSource,
        Self::EdgesVia,
        Self::StrayResponse,
        Self::Rubbish,
        Self::Scan,
        Self::Rising,
        Self::Ignored,
        Self::Unreachable,
        Self::Replay,
        Self::OthersToken,
    ];

    pub(super) fn needs_tap(self) -> bool {
        matches!(self, Self::Replay | Self::OthersToken)
    }
}

/// The addresses that strangers have.
pub(super) fn own_addresses() -> Vec<SocketAddr> {
    (1..=4)
        .map(|host| SocketAddr::from(([198, 51, 100, host], 5060)))
        .collect()
}

impl Strangers {
    pub(super) fn new(
        rng: Rng,
        edges: Vec<SocketAddr>,
        servers: Vec<SocketAddr>,
        callers: Vec<SocketAddr>,
    ) -> Self {
        Self {
            rng,
            own: own_addresses(),
            edges,
            servers,
            callers,
            sent: 0,
        }
    }

    /// Draws what is sent.
    pub(super) fn attack(&mut self, attack: Attack, seen: &Seen) -> Vec<Forged> {
        let own = self.one_of(&self.own.clone());
        match attack {
            Attack::Call => vec![self.call(own)],
            Attack::Swapped | Attack::ThirdAddress => self.with_own_token(attack, seen),
            Attack::Elsewhere => vec![self.elsewhere(own)],
            Attack::ForgedSource => vec![self.forged_source()],
            Attack::EdgesVia => vec![self.edges_via(own)],
            Attack::StrayResponse => vec![self.stray_response(own, seen)],
            Attack::Rubbish => vec![self.rubbish(own, seen)],
            Attack::Scan => self.scan(own),
            Attack::Rising => self.rising(own, &["INFO", "OPTIONS"], seen),
            Attack::Ignored => self.rising(own, &["INVITE"], seen),
            Attack::Unreachable => Vec::new(),
            Attack::Replay => self.replay(own, seen),
            Attack::OthersToken => self.others_token(own, seen),
        }
    }

    /// Whose port a forged ICMP says is closed.
    pub(super) fn unreachable(&mut self) -> SocketAddr {
        let known = [&*self.servers, &*self.callers].concat();
        self.one_of(&known)
    }

    fn call(&mut self, own: SocketAddr) -> Forged {
        let parts = self.initial("INVITE");
        self.request(own, parts)
    }

    fn with_own_token(&mut self, attack: Attack, seen: &Seen) -> Vec<Forged> {
        let Some(dialog) = self.own_dialog(seen) else {
            return Vec::new();
        };
        let is_swapped = attack == Attack::Swapped;
        let method = match is_swapped {
            true => self.one_of(&["BYE", "INVITE", "INFO", "ACK", "MESSAGE"]),
            false => self.one_of(&["BYE", "INFO", "ACK", "MESSAGE"]),
        };
        let (from_tag, to_tag) = match is_swapped {
            true => (&dialog.server_tag, &dialog.own_tag),
            false => (&dialog.own_tag, &dialog.server_tag),
        };
        let mut lines = dialog.routes.clone();
        if self.rng.bool() {
            lines += &format!("Route: <sip:{};lr>\r\n", victim());
        }
        let parts = Parts {
            method,
            target: self.target(),
            call_id: dialog.call_id.clone(),
            from_tag,
            to_tag,
            cseq: self.rng.u32(2..1_000),
            lines,
        };
        // Whoever takes a server's address sends in its name; such a request goes to the own flow.
        let from = match is_swapped {
            true => self.source(),
            false => self.one_of(&self.own.clone()),
        };
        vec![self.request(from, parts)]
    }

    fn elsewhere(&mut self, own: SocketAddr) -> Forged {
        let method = self.one_of(&["INVITE", "OPTIONS", "MESSAGE", "REGISTER", "BYE", "ACK"]);
        let mut parts = self.initial(method);
        parts.target = self.target();
        if self.rng.bool() {
            parts.lines = format!("Route: <sip:{};lr>\r\n", victim());
        }
        self.request(own, parts)
    }

    /// Not from a server's: a pool server may start what it likes, so its network must not be forged.
    fn forged_source(&mut self) -> Forged {
        let method = self.one_of(&["OPTIONS", "MESSAGE", "REGISTER", "BYE"]);
        let others = [&*self.callers, &*self.edges, &[victim()]].concat();
        let from = self.one_of(&others);
        let parts = self.initial(method);
        self.request(from, parts)
    }

    fn edges_via(&mut self, own: SocketAddr) -> Forged {
        let method = self.one_of(&["OPTIONS", "INVITE", "MESSAGE"]);
        let parts = self.initial(method);
        let edge = self.one_of(&self.edges.clone());
        let forged = self.request(edge, parts);
        Forged {
            from: own,
            to: edge,
            ..forged
        }
    }

    fn stray_response(&mut self, own: SocketAddr, seen: &Seen) -> Forged {
        let edge = self.one_of(&self.edges.clone());
        let heard = self.some(seen.requests.len()).map(|at| &seen.requests[at]);
        let via = heard.and_then(|bytes| first_via(bytes));
        let via = via.unwrap_or_else(|| {
            let branch = self.rng.u64(..);
            format!("SIP/2.0/UDP {edge};rport;branch=z9hG4bK{branch:016x}")
        });
        let status = self.one_of(&["200 OK", "180 Ringing", "503 No"]);
        let mut text = format!("SIP/2.0 {status}\r\nVia: {via}\r\n");
        text += &format!("Via: SIP/2.0/UDP {};branch=z9hG4bKv\r\n", victim());
        let parts = self.initial("INVITE");
        put_fields(&mut text, &parts);
        let from = if self.rng.bool() { own } else { self.source() };
        Forged {
            from,
            to: edge,
            bytes: text.into_bytes(),
        }
    }

    fn rubbish(&mut self, own: SocketAddr, seen: &Seen) -> Forged {
        let mut forged = match self.some(seen.overheard.len()) {
            Some(at) if self.rng.bool() => {
                let (_, to, bytes) = seen.overheard[at].clone();
                Forged {
                    from: own,
                    to,
                    bytes,
                }
            }
            _ => self.call(own),
        };
        let bytes = &mut forged.bytes;
        match self.rng.u8(..3) {
            0 => bytes.truncate(self.rng.usize(..=bytes.len())),
            1 => {
                for _ in 0..self.rng.usize(1..8) {
                    let at = self.rng.usize(..bytes.len());
                    bytes[at] = self.rng.u8(..);
                }
            }
            _ => {
                *bytes = std::iter::repeat_with(|| self.rng.u8(..))
                    .take(200)
                    .collect();
            }
        }
        forged
    }

    fn scan(&mut self, own: SocketAddr) -> Vec<Forged> {
        let method = self.one_of(&["INVITE", "OPTIONS", "REGISTER"]);
        let count = self.rng.u32(2..20);
        let scan = (0..count).map(|number| {
            let mut parts = self.initial(method);
            parts.target = format!("sip:{}@example.com", 100 + number);
            parts.lines = "User-Agent: friendly-scanner\r\n".to_owned();
            self.request(own, parts)
        });
        scan.collect()
    }

    fn rising(&mut self, own: SocketAddr, methods: &[&'static str], seen: &Seen) -> Vec<Forged> {
        let Some(dialog) = self.own_dialog(seen) else {
            return Vec::new();
        };
        let method = self.one_of(methods);
        let rising = (0..20).map(|number| {
            let parts = Parts {
                method,
                target: dialog.contact.clone(),
                call_id: dialog.call_id.clone(),
                from_tag: &dialog.own_tag,
                to_tag: &dialog.server_tag,
                cseq: 1_000 + self.sent + number,
                lines: dialog.routes.clone(),
            };
            self.request(own, parts)
        });
        rising.collect()
    }

    fn replay(&mut self, own: SocketAddr, seen: &Seen) -> Vec<Forged> {
        let overheard = self.some(seen.overheard.len()).map(|at| {
            let (from, to, bytes) = seen.overheard[at].clone();
            let from = if self.rng.bool() { own } else { from };
            Forged { from, to, bytes }
        });
        overheard.into_iter().collect()
    }

    fn others_token(&mut self, own: SocketAddr, seen: &Seen) -> Vec<Forged> {
        let routed = seen.overheard.iter().filter_map(|(_, to, bytes)| {
            let message = Message::parse(bytes, HEADERS_MAX).ok()?;
            let values = message.header_values(sip::HeaderName::Route);
            let routes = lines_of("Route", values);
            (!routes.is_empty()).then_some((*to, routes))
        });
        let routed: Vec<_> = routed.collect();
        let Some(at) = self.some(routed.len()) else {
            return Vec::new();
        };
        let (to, routes) = routed[at].clone();
        let method = self.one_of(&["BYE", "INVITE", "INFO", "OPTIONS"]);
        let mut parts = self.initial(method);
        (parts.target, parts.lines, parts.to_tag) = (self.target(), routes, "theirs");
        let forged = self.request(own, parts);
        vec![Forged { to, ..forged }]
    }
}

/// Parts of messages.
impl Strangers {
    fn initial(&mut self, method: &'static str) -> Parts<'static> {
        self.sent += 1;
        Parts {
            method,
            target: format!("sip:user-{}@example.com", self.rng.u32(..1_000)),
            call_id: format!("stranger-{}", self.sent),
            from_tag: "stranger",
            to_tag: "",
            cseq: 1,
            lines: String::new(),
        }
    }

    fn request(&mut self, from: SocketAddr, parts: Parts<'_>) -> Forged {
        let Parts { method, target, .. } = &parts;
        let branch = self.rng.u64(..);
        let mut text = format!("{method} {target} SIP/2.0\r\n");
        text += &format!("Via: SIP/2.0/UDP {from};rport;branch=z9hG4bK{branch:016x}\r\n");
        text += "Max-Forwards: 70\r\n";
        text += &format!("Contact: <sip:stranger@{from}>\r\n{}", parts.lines);
        put_fields(&mut text, &parts);
        Forged {
            from,
            to: self.one_of(&self.edges.clone()),
            bytes: text.into_bytes(),
        }
    }

    /// A Request-URI that somebody may be led to.
    fn target(&mut self) -> String {
        let known = [&*self.edges, &*self.callers, &[victim(), victim()]].concat();
        format!("sip:bob@{}", self.one_of(&known))
    }

    /// Any address.
    fn source(&mut self) -> SocketAddr {
        let known = [&*self.own, &*self.edges, &*self.servers, &*self.callers];
        let known = [&known.concat(), &[victim()][..]].concat();
        self.one_of(&known)
    }

    fn own_dialog(&mut self, seen: &Seen) -> Option<Own> {
        let answer = &seen.answers[self.some(seen.answers.len())?];
        let answer = Message::parse(answer, HEADERS_MAX).ok()?;
        let text = |bytes: &[u8]| Some(str::from_utf8(bytes).ok()?.to_owned());
        let record_routes = answer.header_values(sip::HeaderName::RecordRoute);
        Some(Own {
            call_id: text(answer.call_id().ok()?)?,
            own_tag: text(answer.from_tag().ok()??)?,
            server_tag: text(answer.to_tag().ok()??)?,
            contact: text(answer.contacts().next()?.ok()?.uri)?,
            routes: lines_of("Route", record_routes),
        })
    }

    fn some(&mut self, count: usize) -> Option<usize> {
        (count > 0).then(|| self.rng.usize(..count))
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.rng.usize(..all.len())]
    }
}

fn victim() -> SocketAddr {
    SocketAddr::from(VICTIM)
}

fn put_fields(text: &mut String, parts: &Parts<'_>) {
    let Parts {
        method,
        call_id,
        from_tag,
        to_tag,
        cseq,
        ..
    } = parts;
    let to_tag = match *to_tag {
        "" => String::new(),
        tag => format!(";tag={tag}"),
    };
    write!(
        text,
        "From: <sip:stranger@example.com>;tag={from_tag}\r\n\
         To: <sip:user@example.com>{to_tag}\r\n\
         Call-ID: {call_id}\r\nCSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n"
    )
    .expect("a String takes all");
}

fn lines_of<'a>(name: &str, values: impl Iterator<Item = &'a [u8]>) -> String {
    let line = |value: &[u8]| format!("{name}: {}\r\n", String::from_utf8_lossy(value));
    values.map(line).collect()
}

/// The topmost Via of a request.
fn first_via(bytes: &[u8]) -> Option<String> {
    let message = Message::parse(bytes, HEADERS_MAX).ok()?;
    let StartLine::Request { .. } = message.start_line() else {
        return None;
    };
    let via = message.header_values(sip::HeaderName::Via).next()?;
    Some(String::from_utf8_lossy(via).into_owned())
}
