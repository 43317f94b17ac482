//! One call, rung by rung.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use balance::Ineligible;
use node::{
    DecisionView, Flow, LedgerView,
    tap::{What, Why},
};
use serde::{Deserialize, Serialize};
use sip::Message;

use crate::{
    call::{Call, Entry},
    mask::Mask,
    reading::HEADERS_MAX,
    segments::Segments,
    state::{State, Summary},
};

/// One call: who took part, and what happened in which order.
#[derive(Clone, Debug)]
pub struct Ladder {
    /// The call at a glance.
    pub summary: Summary,
    /// What became of it.
    pub state: State,
    /// Who took part: first the node itself, then the caller, then others as they came.
    pub parties: Vec<Party>,
    /// What happened.
    pub rungs: Vec<Rung>,
    /// Messages and reasons before the first rung that were left out, as there were too many.
    pub left_out: usize,
}

/// Somebody at the other end of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// IP and port; of the node itself: nothing.
    pub address: Option<SocketAddr>,
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Rung {
    /// When, from the node's zero.
    pub at: Duration,
    /// What.
    pub step: Step,
}

/// What happened in a call.
#[derive(Clone, Debug)]
pub enum Step {
    /// A message.
    Message {
        /// The peer's place among the parties.
        party: usize,
        /// The way that it took.
        flow: Flow,
        /// It came in; or else it went out.
        came_in: bool,
        /// The method, or the status and its phrase.
        label: String,
        /// The same message passed on the same way before.
        is_repeated: bool,
        /// What it says.
        bytes: Vec<u8>,
    },
    /// Why the node did what it did.
    Why {
        /// The counter that moved.
        why: Why,
        /// It may be about another call.
        is_shared: bool,
    },
    /// A policy chose a server.
    Placed {
        /// The policy's name.
        policy: String,
        /// The server.
        chosen: Option<SocketAddr>,
        /// What it saw of each server.
        seen: Vec<Seen>,
        /// Servers of the pool that are not among these.
        more: u16,
    },
}

/// A server's ledger before a placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// The server.
    pub server: SocketAddr,
    /// Its open calls.
    pub calls: u32,
    /// Its open transactions.
    pub transactions: u32,
    /// Their work.
    pub work: f32,
    /// Its capacity, which is less during a slow start.
    pub capacity: f32,
    /// Why it could not be chosen.
    pub passed_over: Option<String>,
}

impl Seen {
    /// What a policy saw of a server.
    #[must_use]
    pub fn of(view: &LedgerView) -> Self {
        Self {
            server: view.server,
            calls: view.calls,
            transactions: view.transactions,
            work: view.work,
            capacity: view.capacity,
            passed_over: view.passed_over.map(|why| why_not(why).to_owned()),
        }
    }

    /// In a few words.
    #[must_use]
    pub fn words(&self) -> String {
        let Self {
            server,
            calls,
            transactions,
            work,
            capacity,
            passed_over,
        } = self;
        let counts = format!("{calls} calls, {transactions} transactions, work {work:.2}");
        match passed_over {
            Some(why) => format!("{server} {why}"),
            None if *capacity == 1.0 => format!("{server} had {counts}"),
            None => format!("{server} had {counts} at capacity {capacity:.2}"),
        }
    }
}

/// Why a server could not be chosen.
fn why_not(why: Ineligible) -> &'static str {
    match why {
        Ineligible::Removed => "was removed",
        Ineligible::Draining => "drains",
        Ineligible::Down => "is down",
        Ineligible::BackingOff => "refused several calls in a row",
        Ineligible::AboveBound => "holds more calls than its bound",
        Ineligible::OtherCluster => "is in another cluster than the user",
        Ineligible::InReserve => "is in reserve",
    }
}

impl Call {
    /// The call with what the segments still have of it.
    pub(crate) fn ladder(&self, segments: &Segments, mask: &Mask, now: Duration) -> Ladder {
        let mut parties = vec![
            Party { address: None },
            Party {
                address: Some(self.summary.source),
            },
        ];
        let found = |entry: &Entry| {
            let (segment, seen) = segments.get(entry.place)?;
            Some((segment, seen, entry.is_shared))
        };
        let mut entries: Vec<_> = self.entries.iter().filter_map(found).collect();
        let gone = self.entries.iter().filter(|entry| found(entry).is_none());
        let gone: usize = gone.map(|entry| usize::from(entry.rungs)).sum();
        let left_out = self.left_out + gone;
        // Workers tell what they saw in turn.
        entries.sort_by_key(|(_, seen, _)| seen.at);
        let mut rungs: Vec<Rung> = Vec::with_capacity(entries.len());
        for (segment, seen, is_shared) in entries {
            let at = seen.at;
            let mut add = |step| rungs.push(Rung { at, step });
            match seen.what {
                What::Because(moves) => {
                    let reasons = moves.reasons();
                    reasons.for_each(|why| add(Step::Why { why, is_shared }));
                }
                What::Placed(place) => {
                    let (_, placed) = segment.tap.placement(place, &segment.snapshot);
                    add(Step::placed(&placed));
                }
                What::Received(flow) | What::Sent(flow) => {
                    let came_in = matches!(seen.what, What::Received(_));
                    let bytes = segment.tap.message(seen);
                    let bytes = match segment.is_copied {
                        true => bytes.into(),
                        false => mask.shown_bytes(bytes),
                    };
                    add(Step::Message {
                        party: party(&mut parties, flow.remote),
                        flow,
                        came_in,
                        label: label(&bytes),
                        is_repeated: false,
                        bytes: bytes.into_owned(),
                    });
                }
            }
        }
        mark_repeated(&mut rungs);
        Ladder {
            state: self.summary.state(now),
            summary: self.summary.clone(),
            parties,
            rungs,
            left_out,
        }
    }
}

impl Step {
    fn placed(placed: &DecisionView) -> Self {
        Self::Placed {
            policy: placed.policy.to_string(),
            chosen: placed.chosen,
            seen: placed.ledgers.iter().map(Seen::of).collect(),
            more: placed.more,
        }
    }
}

/// Marks the messages that passed on the same way before.
fn mark_repeated(rungs: &mut [Rung]) {
    for place in 0..rungs.len() {
        let (before, rest) = rungs.split_at_mut(place);
        if let Some(Rung {
            step:
                Step::Message {
                    flow,
                    came_in,
                    bytes,
                    is_repeated,
                    ..
                },
            ..
        }) = rest.first_mut()
        {
            *is_repeated = before
                .iter()
                .any(|rung| rung.is_same(*came_in, *flow, bytes));
        }
    }
}

impl Rung {
    fn is_same(&self, inwards: bool, way: Flow, message: &[u8]) -> bool {
        match &self.step {
            Step::Message {
                came_in,
                flow,
                bytes,
                ..
            } => *came_in == inwards && *flow == way && *bytes == message,
            Step::Why { .. } | Step::Placed { .. } => false,
        }
    }
}

fn party(parties: &mut Vec<Party>, address: SocketAddr) -> usize {
    let known = parties
        .iter()
        .position(|party| party.address == Some(address));
    known.unwrap_or_else(|| {
        parties.push(Party {
            address: Some(address),
        });
        parties.len() - 1
    })
}

/// The method, or the status and its phrase.
pub(crate) fn label(bytes: &[u8]) -> String {
    let Ok(message) = Message::parse(bytes, HEADERS_MAX) else {
        return "?".to_owned();
    };
    if let Some(method) = message.method() {
        return String::from_utf8_lossy(method.as_bytes()).into_owned();
    }
    let status = message.status().unwrap_or_default();
    let line = bytes.split(|&byte| byte == b'\r' || byte == b'\n').next();
    let phrase = line.and_then(|line| line.splitn(3, |&byte| byte == b' ').nth(2));
    format!(
        "{status} {}",
        String::from_utf8_lossy(phrase.unwrap_or_default())
    )
}

impl Ladder {
    /// The name of a party: what it is, and its address.
    #[must_use]
    pub fn name(&self, party: usize) -> String {
        match self.parties.get(party).and_then(|party| party.address) {
            None => "this node".to_owned(),
            Some(address) => address.to_string(),
        }
    }

    /// The addresses of the node's listeners in order, as a capture shows them: an address of the
    /// peer's family stands for a wildcard.
    pub(crate) fn own_address(listeners: &[SocketAddr], flow: Flow) -> SocketAddr {
        let own = listeners.get(usize::from(flow.listener)).copied();
        let own = own.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 5060)));
        let ip = match (own.ip(), flow.remote.ip()) {
            (IpAddr::V4(ip), IpAddr::V4(_)) => IpAddr::V4(ip),
            (IpAddr::V6(ip), IpAddr::V6(_)) => IpAddr::V6(ip),
            (_, IpAddr::V4(_)) => IpAddr::from([0, 0, 0, 0]),
            (_, IpAddr::V6(_)) => IpAddr::from([0; 16]),
        };
        SocketAddr::new(ip, own.port())
    }
}
