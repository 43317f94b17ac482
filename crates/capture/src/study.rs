//! The results of a trace: its flows, and the times of one of them.

use std::{collections::BTreeMap, fmt, net::SocketAddr, time::Duration};

use crate::{
    Reason, Role, Sample, Told, Trace, Unused, Warning, WarningKind,
    calls::calls,
    merge::{Merged, merge},
    roles::Nodes,
    times,
    view::{View, Whole},
    warning::Counts,
    work::Work,
};

/// A study of fewer calls than this gives a warning.
const CALLS_FEW: usize = 10;

/// The parameters of a study.
#[derive(Clone, Debug)]
pub struct Options {
    /// The assigned roles of nodes. The study finds the roles of the others.
    pub roles: Vec<Told>,
    /// A longer gap in a node's activity does not count as work.
    pub pause: Duration,
    /// The number of the flow to measure, from 1; the most frequent is first.
    pub flow: usize,
    /// The work of a role on a message without an answer, in milliseconds. If not given, the work
    /// on the role's quickest other message.
    pub unseen_ms: Vec<(Role, f64)>,
    /// Roles whose processor time is known from another measurement.
    pub processor_known: Vec<Role>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            roles: Vec::new(),
            pause: Duration::from_millis(100),
            flow: 1,
            unseen_ms: Vec::new(),
            processor_known: Vec::new(),
        }
    }
}

/// A shape of calls, and its frequency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// How many calls have it.
    pub calls: usize,
    /// How many messages each call has.
    pub messages: usize,
    /// The first request.
    pub begins: String,
    /// How many nodes it passes, including the driver and the servers.
    pub nodes: usize,
    /// How many ends its way has: more than one if a node asks several others for it.
    pub branches: usize,
    /// The final response to the first request, as the driver got it at last.
    pub outcome: Option<u16>,
    /// Whether the driver was asked for credentials.
    pub is_challenged: bool,
    /// Requests that the driver sent or got besides the first one, ACKs and BYEs: `re-INVITE`, or a method.
    pub also: Vec<String>,
    /// Who ended it.
    pub ended: Option<Ended>,
    /// The nodes at the ends of the calls' ways, each with its number of calls.
    pub servers: Vec<(String, usize)>,
    /// How it differs from an earlier flow that looks the same otherwise.
    pub differs: Option<String>,
}

/// Who ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The driver sent BYE.
    ByDriver,
    /// The server sent BYE.
    ByServer,
    /// The driver sent CANCEL.
    Cancelled,
}

/// A role in the flow, and its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What it does.
    pub role: Role,
    /// The role, with a number from its second place on.
    pub name: String,
    /// The first place with the same nodes: the model has one station for all of them.
    pub station: usize,
    /// The nodes, each with its addresses.
    pub nodes: Vec<Vec<SocketAddr>>,
    /// The capture points of its times.
    pub points: Vec<String>,
}

/// A turn of a node: from an incoming message to the last outgoing one that it causes.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The role.
    pub role: Role,
    /// The position of its place.
    pub place: usize,
    /// The incoming message, numbered from 1 as in the [ladder](Study::ladder).
    pub from: usize,
    /// The last outgoing message; none if there is none.
    pub to: Option<usize>,
    /// The duration in milliseconds. Without an outgoing message, it lasts until the next incoming
    /// one.
    pub time_ms: Sample,
    /// The entry of the model to which it belongs.
    pub entry: String,
    /// The pauses of the node, in milliseconds.
    pub pause_ms: Sample,
}

/// The network between two neighbours.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The end near the driver.
    pub outer: Role,
    /// The end near the server.
    pub inner: Role,
    /// The positions of both.
    pub ends: (usize, usize),
    /// The travel time of a packet, in milliseconds; none if no two points saw it.
    pub packet_ms: Option<Sample>,
    /// How many packets of a call use it.
    pub packets: u32,
}

/// A message of the flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Rung {
    /// Its text.
    pub message: String,
    /// The positions of its source and destination.
    pub ends: (usize, usize),
    /// Since the call's first message, in milliseconds.
    pub offset_ms: f64,
}

/// The results of a trace for one flow.
#[derive(Clone, Debug)]
pub struct Study {
    /// All flows: those that start with an INVITE, then the others, the most frequent first.
    pub flows: Vec<Flow>,
    /// The calls that the model does not use.
    pub unused: Vec<Unused>,
    /// The way of the measured flow, from the driver to the servers.
    pub places: Vec<Place>,
    /// The Call-ID of one of its calls.
    pub call_id: String,
    /// That call's messages.
    pub ladder: Vec<Rung>,
    /// The times between its messages.
    pub rows: Vec<Row>,
    /// The links of its way.
    pub links: Vec<Link>,
    /// The reasons to doubt the times.
    pub warnings: Vec<Warning>,
    pub(crate) works: Vec<Work>,
    /// The means of each work, in milliseconds.
    pub(crate) times: Vec<Sample>,
}

/// Why a trace has no results.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StudyError {
    /// It has no SIP message.
    NoMessage,
    /// It has no complete call.
    NoCall {
        /// Its calls.
        unused: Vec<Unused>,
    },
    /// It does not have the requested flow.
    NoFlow {
        /// The number of flows.
        flows: usize,
    },
}

impl Study {
    /// Studies a trace.
    ///
    /// # Errors
    /// If it has no message, no complete call, or not the requested flow.
    pub fn new(trace: &Trace, options: &Options) -> Result<Self, StudyError> {
        let Merged { sent, counts } = merge(trace);
        if sent.is_empty() {
            return Err(StudyError::NoMessage);
        }
        let view = View {
            trace,
            sent: &sent,
            nodes: Nodes::new(trace, &sent, &options.roles),
            pause: options.pause,
        };
        let mut general = Counts::default();
        let mut unused = Vec::new();
        let all = calls(trace, &sent);
        let calls = view.measurable(&all, &mut unused);
        let points = view.points(&calls);
        let mut calls = view.whole(calls, &points, &mut unused);
        view.count_overlaps(&calls, &points, &mut general);
        let flows = view.flows(&mut calls);
        let Some((_, chosen)) = flows.get(options.flow.wrapping_sub(1)) else {
            return Err(match flows.len() {
                0 => StudyError::NoCall { unused },
                flows => StudyError::NoFlow { flows },
            });
        };
        for (number, (_, others)) in (1..).zip(&flows) {
            let others = others.iter().filter(|_| number != options.flow);
            unused.extend(others.map(|&at| view.unused(calls[at].call, Reason::OtherFlow(number))));
        }
        let chosen: Vec<&Whole<'_>> = chosen.iter().map(|&at| &calls[at]).collect();
        let mut study = times::measure(&view, &points, &chosen, options, &mut general);
        study.flows = flows.into_iter().map(|(flow, _)| flow).collect();
        study.unused = unused;
        if chosen.len() < CALLS_FEW {
            general.add(WarningKind::FewCalls, chosen.len());
        }
        let per_point = trace.points.iter().zip(&counts);
        study.warnings = trace
            .warnings()
            .chain(per_point.flat_map(|(point, counts)| counts.warnings(Some(&point.name))))
            .chain(general.warnings(None))
            .collect();
        Ok(study)
    }
}

impl Study {
    /// The calls of the modelled flow.
    #[must_use]
    pub fn used(&self, options: &Options) -> usize {
        self.flows[options.flow - 1].calls
    }

    /// Each reason for which calls are not used, and their number.
    #[must_use]
    pub fn reasons(&self) -> BTreeMap<Reason, usize> {
        count_reasons(&self.unused)
    }
}

fn count_reasons(unused: &[Unused]) -> BTreeMap<Reason, usize> {
    let mut counts = BTreeMap::new();
    for call in unused {
        *counts.entry(call.reason).or_default() += 1;
    }
    counts
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByDriver => "driver",
            Self::ByServer => "server",
            Self::Cancelled => "cancelled",
        })
    }
}

impl fmt::Display for StudyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMessage => write!(
                f,
                "the capture has no SIP message over UDP or TCP: check the capture filter"
            ),
            Self::NoCall { unused } => {
                write!(f, "the capture has no call that can be measured")?;
                let reasons = count_reasons(unused).into_iter();
                reasons.enumerate().try_for_each(|(at, (reason, calls))| {
                    let before = if at == 0 { ':' } else { ';' };
                    write!(f, "{before} {calls} not used, as {reason}")
                })
            }
            Self::NoFlow { flows } => write!(
                f,
                "the capture has {flows} flows: choose one from 1 to {flows}"
            ),
        }
    }
}

impl std::error::Error for StudyError {}
