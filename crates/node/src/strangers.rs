//! What strangers may cost. Whoever is neither a server nor another edge is a stranger: anybody can
//! write their address on a datagram.

use std::net::IpAddr;

use abuse::Hearing;
use sip::{HeaderName, Host, Message, Uri};
use transaction::Flow;

use crate::{context::Context, snapshot::Snapshot, stats::Dropped, wire::token};

impl Context<'_> {
    /// Whether a datagram is to be looked at; it is counted if not.
    pub(crate) fn hears(&self, flow: Flow) -> bool {
        let rules = &self.snapshot.config().abuse.rules;
        let from = flow.remote.ip();
        let reason = match self.shared.guard().hear(self.now, rules, from) {
            Hearing::Heard => return true,
            Hearing::Limited => Dropped::Limited,
            Hearing::Banned => Dropped::Banned,
        };
        let is_heard = self.snapshot.is_known(from);
        if !is_heard {
            self.stats.drop_one(reason);
        }
        is_heard
    }

    /// Drops a message that a stranger should not have sent, and charges them for it.
    pub(crate) fn drop_of(&self, flow: Flow, reason: Dropped) {
        self.stats.drop_one(reason);
        self.charge(flow);
    }

    /// Counts an answer of the node's own to a request, and charges a stranger for one that others need not
    /// ask for.
    pub(crate) fn count_reply(&self, flow: Flow, request: &Message<'_>, status: u16) {
        self.stats.reply(status);
        if costs(status) && phone_behind_edge(self.snapshot, flow, request).is_none() {
            self.charge(flow);
        }
    }

    /// Charges a stranger for a message.
    pub(crate) fn charge(&self, flow: Flow) {
        let from = flow.remote.ip();
        if !self.snapshot.is_known(from) {
            let rules = &self.snapshot.config().abuse.rules;
            self.shared.guard().charge(self.now, rules, from);
        }
    }

    /// A stranger has shown that they receive what we send to them.
    pub(crate) fn hears_us(&self, flow: Flow) {
        self.shared.guard().hears_us(self.now, flow.remote.ip());
    }

    /// Whether what goes to this flow goes to whoever sent us something there, and not to somebody whose address
    /// they wrote.
    pub(crate) fn has_heard_us(&self, flow: Flow) -> bool {
        let from = flow.remote.ip();
        flow.is_reliable()
            || self.snapshot.is_known(from)
            || self.shared.guard().has_heard_us(self.now, from)
    }

    /// Whether a request is of a program that is known to look for victims.
    pub(crate) fn is_scanners(&self, flow: Flow, message: &Message<'_>) -> bool {
        let scanners = &self.snapshot.config().abuse.scanners;
        if scanners.is_empty() {
            return false;
        }
        let agent = message.header(HeaderName::UserAgent).unwrap_or_default();
        let from = message.header(HeaderName::From).unwrap_or_default();
        let names = [agent, first_word(from)];
        let is_listed = |name: &&[u8]| {
            scanners
                .iter()
                .any(|listed| begins(name, listed.as_bytes()))
        };
        names.iter().any(is_listed) && !self.snapshot.is_known(flow.remote.ip())
    }
}

/// The phone whose REGISTER came through an edge of the cluster: the Path is sealed for the address that it comes from,
/// so a phone that learns its Path can't use it. What is wrong with the request is not the edge's fault. None: it came
/// through none.
pub(crate) fn phone_behind_edge(
    snapshot: &Snapshot,
    flow: Flow,
    request: &Message<'_>,
) -> Option<IpAddr> {
    let first = request.paths().next()?.ok()?;
    let host = Uri::parse(first.uri).map(|uri| uri.host);
    let is_its = host == Ok(Host::Ip(flow.remote.ip()));
    let phone = token::phone_of_path(snapshot.keys(), first.uri);
    phone.filter(|_| is_its).map(|phone| phone.remote.ip())
}

/// Answers that tell of a fault of the request, or that its sender has proven nothing. Of the 4xx, those
/// that tell of a callee cost nothing.
fn costs(status: u16) -> bool {
    match status {
        408 | 423 | 480 | 482 | 486 | 487 => false,
        400..=499 | 505 | 513 => true,
        _ => false,
    }
}

/// The display name that a From begins with, or else the user of its URI.
fn first_word(from: &[u8]) -> &[u8] {
    match from {
        [b'"', name @ ..] => name,
        [b'<', uri @ ..] => uri.strip_prefix(b"sip:").unwrap_or(uri),
        name => name.strip_prefix(b"sip:").unwrap_or(name),
    }
}

fn begins(name: &[u8], listed: &[u8]) -> bool {
    let beginning = name.get(..listed.len());
    beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(listed))
}
