//! Calls as JSON: made here, read by `ctl` and by the dashboard.

use std::{net::SocketAddr, time::Duration};

use node::Snapshot;
use recorder::{Counts, End, Ladder, Seen, State, Step, Summary};
use serde::{Deserialize, Serialize};

/// Calls that match a search.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Calls {
    /// The first of them.
    pub(crate) calls: Vec<Row>,
    /// How many match in all.
    pub(crate) matching: usize,
    /// Whether the node records calls.
    pub(crate) is_recording: bool,
    /// Of so many calls one is recorded.
    pub(crate) one_in: u32,
    /// Calls that are kept, and the bytes that they take.
    pub(crate) kept: usize,
    pub(crate) kept_bytes: usize,
    /// Calls that were forgotten to make room.
    pub(crate) forgotten: u64,
    /// Messages and reasons that the workers had no room for.
    pub(crate) missed: u64,
}

/// A call at a glance. Times are seconds since the UNIX epoch.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) call_id: String,
    pub(crate) method: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) source: SocketAddr,
    pub(crate) server: Option<SocketAddr>,
    pub(crate) state: State,
    /// The last response that the caller was sent.
    pub(crate) status: Option<u16>,
    pub(crate) began: f64,
    pub(crate) latest: f64,
    /// From its first request to the first response other than 100.
    pub(crate) ring_delay_seconds: Option<f64>,
    /// From its answer to its end, or until now.
    pub(crate) talked_seconds: Option<f64>,
    pub(crate) ended_by: Option<End>,
    pub(crate) messages: u32,
}

/// A call with all that happened.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    #[serde(flatten)]
    pub(crate) row: Row,
    /// Who took part: first the node itself, then the caller.
    pub(crate) parties: Vec<Party>,
    pub(crate) rungs: Vec<Rung>,
    /// What came before the first rung and was left out, as there was too much.
    pub(crate) left_out: usize,
}

/// Somebody who took part.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Party {
    /// None: the node itself.
    pub(crate) address: Option<SocketAddr>,
    /// A pool's name, "caller", or nothing that is known.
    pub(crate) role: String,
}

/// One thing that happened, so many seconds after the call began.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Rung {
    pub(crate) at: f64,
    #[serde(flatten)]
    pub(crate) what: What,
}

/// What happened.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum What {
    /// A message between the node and a party.
    Message {
        party: usize,
        transport: String,
        came_in: bool,
        label: String,
        is_repeated: bool,
        text: String,
    },
    /// Why the node did what it did.
    Why { text: String },
    /// A policy chose a server.
    Placed {
        policy: String,
        seen: Vec<Seen>,
        text: String,
    },
}

impl Calls {
    pub(super) fn new(
        found: &[Summary],
        matching: usize,
        counts: Option<Counts>,
        zero: Duration,
        now: Duration,
    ) -> Self {
        let is_recording = counts.is_some();
        let counts = counts.unwrap_or_default();
        Self {
            calls: found.iter().map(|call| Row::new(call, zero, now)).collect(),
            matching,
            is_recording,
            one_in: counts.one_in,
            kept: counts.calls,
            kept_bytes: counts.bytes,
            forgotten: counts.forgotten,
            missed: counts.missed,
        }
    }
}

impl Row {
    fn new(call: &Summary, zero: Duration, now: Duration) -> Self {
        let after = |moment: Option<Duration>| {
            moment.map(|moment| moment.saturating_sub(call.began).as_secs_f64())
        };
        Self {
            call_id: call.call_id.to_string(),
            method: call.method.to_string(),
            from: call.from.to_string(),
            to: call.to.to_string(),
            source: call.source,
            server: call.server,
            state: call.state(now),
            status: Some(call.status).filter(|status| *status > 0),
            began: (zero + call.began).as_secs_f64(),
            latest: (zero + call.latest).as_secs_f64(),
            ring_delay_seconds: after(call.rang.or(call.answered)),
            talked_seconds: call.talked(now).map(|talked| talked.as_secs_f64()),
            ended_by: call.end,
            messages: call.messages,
        }
    }
}

impl Call {
    pub(crate) fn new(ladder: &Ladder, snapshot: &Snapshot, zero: Duration, now: Duration) -> Self {
        let began = ladder.summary.began;
        let role = |place: usize, address: Option<SocketAddr>| {
            let mut members = snapshot.members().iter().flatten();
            match address {
                None => snapshot.config().name.clone(),
                Some(address) => match members.find(|member| member.address == address) {
                    Some(member) => member.pool.clone(),
                    None if place == 1 => "caller".to_owned(),
                    None => String::new(),
                },
            }
        };
        let parties = ladder
            .parties
            .iter()
            .enumerate()
            .map(|(place, party)| Party {
                address: party.address,
                role: role(place, party.address),
            });
        let rungs = ladder.rungs.iter().map(|rung| Rung {
            at: rung.at.saturating_sub(began).as_secs_f64(),
            what: What::of(&rung.step),
        });
        Self {
            row: Row::new(&ladder.summary, zero, now),
            parties: parties.collect(),
            rungs: rungs.collect(),
            left_out: ladder.left_out,
        }
    }
}

impl What {
    fn of(step: &Step) -> Self {
        match step {
            Step::Message {
                party,
                flow,
                came_in,
                label,
                is_repeated,
                bytes,
            } => Self::Message {
                party: *party,
                transport: flow.transport.label().to_owned(),
                came_in: *came_in,
                label: label.clone(),
                is_repeated: *is_repeated,
                text: String::from_utf8_lossy(bytes).into_owned(),
            },
            Step::Why { .. } => Self::Why { text: step.words() },
            Step::Placed { policy, seen, .. } => Self::Placed {
                policy: policy.clone(),
                seen: seen.clone(),
                text: step.words(),
            },
        }
    }
}
