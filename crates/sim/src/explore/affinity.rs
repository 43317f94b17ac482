use std::{collections::BTreeMap, time::Duration};

use sip::{Message, Method, ParseError, StartLine};

use super::outcome::{Kind, Violation};
use crate::{Event, PartyId, Watch, What};

/// More header fields than any message of a simulated call has.
const HEADERS_MAX: usize = 128;

/// Sees to it that a request reaches the server that its dialog or transaction is with, and that
/// edges send well-formed messages only.
#[derive(Debug)]
pub(super) struct Affinity {
    servers: Vec<PartyId>,
    edges: Vec<PartyId>,
    /// Who gave a To tag.
    by_tag: BTreeMap<Vec<u8>, PartyId>,
    /// Where INVITEs with this branch were sent: to a second server only if the edge died between.
    by_branch: BTreeMap<Vec<u8>, SentTo>,
    /// Edges that have died, or whose tables are small: such an edge no longer knows which of two
    /// servers a CANCEL, or an ACK of a failure, is for. The other one ignores it.
    forgetful: Vec<PartyId>,
    /// For how long an edge knows where it sent an INVITE, at least. What waits on a connection may come later.
    known_for: Duration,
    pub(super) violation: Option<Violation>,
}

/// Where INVITEs with one branch were sent, and when the last of them was.
#[derive(Debug, Default)]
struct SentTo {
    servers: Vec<PartyId>,
    at: Duration,
}

impl Affinity {
    pub(super) fn new(
        servers: Vec<PartyId>,
        edges: Vec<PartyId>,
        forgetful: Vec<PartyId>,
        known_for: Duration,
    ) -> Self {
        Self {
            servers,
            edges,
            by_tag: BTreeMap::new(),
            by_branch: BTreeMap::new(),
            forgetful,
            known_for,
            violation: None,
        }
    }

    fn complain(&mut self, at: Duration, what: String) {
        self.violation.get_or_insert(Violation {
            at,
            kind: Kind::Safety,
            what,
        });
    }

    fn on_sent_by_server(&mut self, server: PartyId, message: &Message<'_>) {
        if let StartLine::Response { .. } = message.start_line()
            && let Some(tag) = message.to_tag().ok().flatten()
        {
            self.by_tag.entry(tag.to_vec()).or_insert(server);
        }
    }

    /// Whether the edge that sends this need not know where it sent the INVITE.
    fn may_have_forgotten(&self, event: &Event<'_>, branch: &[u8]) -> bool {
        self.by_branch.get(branch).is_some_and(|sent_to| {
            self.forgetful.contains(&event.sender) || event.at >= sent_to.at + self.known_for
        })
    }

    fn on_sent_to_server(&mut self, event: &Event<'_>, server: PartyId, message: &Message<'_>) {
        let StartLine::Request { method, .. } = message.start_line() else {
            return;
        };
        let tag = message.to_tag().ok().flatten();
        let branch = message.top_via().ok().and_then(|via| via.branch);
        let meant: &[PartyId] = match (method, tag, branch) {
            (Method::Invite, None, Some(branch)) => {
                let sent_to = self.by_branch.entry(branch.to_vec()).or_default();
                sent_to.servers.push(server);
                sent_to.at = event.at;
                return;
            }
            (Method::Cancel | Method::Ack, _, Some(branch))
                if self.may_have_forgotten(event, branch) =>
            {
                return;
            }
            (_, Some(tag), _) if self.by_tag.contains_key(tag) => {
                std::slice::from_ref(&self.by_tag[tag])
            }
            (Method::Cancel | Method::Ack, _, Some(branch)) => {
                let sent_to = self.by_branch.get(branch);
                sent_to.map_or(&[], |sent_to| &sent_to.servers)
            }
            _ => &[],
        };
        if !meant.is_empty() && !meant.contains(&server) {
            let text = String::from_utf8_lossy(event.bytes);
            let what = format!("a request of {meant:?} went to {server:?}:\n{text}");
            self.complain(event.at, what);
        }
    }
}

impl Watch for Affinity {
    fn see(&mut self, event: &Event<'_>) {
        if event.what == What::Crashed {
            self.forgetful.push(event.sender);
        }
        let leaves = !matches!(
            event.what,
            What::Arrived | What::Refused | What::Crashed | What::Restarted
        );
        let of_edge = self.edges.contains(&event.sender);
        if !leaves || !(of_edge || self.servers.contains(&event.sender)) {
            return;
        }
        let to_edge = event.receiver.is_some_and(|to| self.edges.contains(&to));
        let message = match Message::parse(event.bytes, HEADERS_MAX) {
            Ok(message) => message,
            Err(_) if of_edge && to_edge => return,
            Err(ParseError::KeepAlive) => return,
            Err(error) => {
                let text = String::from_utf8_lossy(event.bytes);
                return self.complain(event.at, format!("{error:?} in what was sent:\n{text}"));
            }
        };
        match event.receiver.filter(|to| self.servers.contains(to)) {
            Some(server) if of_edge => self.on_sent_to_server(event, server, &message),
            _ if !of_edge => self.on_sent_by_server(event.sender, &message),
            _ => {}
        }
    }
}
