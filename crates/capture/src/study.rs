//! What a trace shows: its flows, and the times of one of them.

use std::{fmt, net::SocketAddr, time::Duration};

use crate::{
    Role, Sample, Told, Trace, Warning, WarningKind,
    calls::calls,
    merge::{Merged, merge},
    roles::Nodes,
    times,
    view::{View, Whole},
    warning::Counts,
    work::Work,
};

/// Fewer calls than this are warned of.
const CALLS_FEW: usize = 10;

/// How a trace is looked at.
#[derive(Clone, Debug)]
pub struct Options {
    /// The roles of nodes, where they are not to be found out.
    pub roles: Vec<Told>,
    /// Longer gaps in what a node does are no work.
    pub pause: Duration,
    /// The flow to measure, from 1, the most frequent first.
    pub flow: usize,
    /// What a role works on a message that it answers nothing to, in milliseconds. Where nothing is said, as much as
    /// on the quickest other.
    pub unseen_ms: Vec<(Role, f64)>,
    /// Roles whose processor time is known otherwise.
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

/// A shape of calls, and how many have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// How many calls have it.
    pub calls: usize,
    /// How many messages each has.
    pub messages: usize,
    /// Its first request.
    pub begins: String,
    /// How many nodes it passes, driver and server included.
    pub nodes: usize,
}

/// A role in the flow, and who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What it does.
    pub role: Role,
    /// The nodes, each with its addresses.
    pub nodes: Vec<Vec<SocketAddr>>,
    /// The capture points that its times come from.
    pub points: Vec<String>,
}

/// A turn of a node: from a message that comes in to the last that goes out for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Whose.
    pub role: Role,
    /// The message that comes in, numbered from 1 as in the [ladder](Study::ladder).
    pub from: usize,
    /// The last message that goes out; none if none does.
    pub to: Option<usize>,
    /// How long it takes, in milliseconds. Up to the next message that comes in, if none goes out.
    pub time_ms: Sample,
    /// The entry of the model that it is part of.
    pub entry: String,
    /// What the node waits on its own account, in milliseconds.
    pub pause_ms: Sample,
}

/// The network between two neighbours.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The end towards the driver.
    pub outer: Role,
    /// The end towards the server.
    pub inner: Role,
    /// The time of a packet from one to the other, in milliseconds; none if no two points saw it.
    pub packet_ms: Option<Sample>,
    /// How many packets of a call cross it.
    pub packets: u32,
}

/// A message of the flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Rung {
    /// What it is.
    pub message: String,
    /// The places of its source and destination.
    pub ends: (usize, usize),
    /// Since the call's first message, in milliseconds.
    pub offset_ms: f64,
}

/// What a trace shows of one flow.
#[derive(Clone, Debug)]
pub struct Study {
    /// All flows: those that begin with an INVITE, then the others; the most frequent first.
    pub flows: Vec<Flow>,
    /// The way of the measured flow, from the driver to the server.
    pub places: Vec<Place>,
    /// The Call-ID of one of its calls.
    pub call_id: String,
    /// That call's messages.
    pub ladder: Vec<Rung>,
    /// The times between its messages.
    pub rows: Vec<Row>,
    /// The links of its way.
    pub links: Vec<Link>,
    /// What stands in the way of believing the times.
    pub warnings: Vec<Warning>,
    pub(crate) works: Vec<Work>,
    /// Of each work, in milliseconds.
    pub(crate) times: Vec<Sample>,
}

/// Why a trace shows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StudyError {
    /// It has no SIP message.
    NoMessage,
    /// No call in it is whole.
    NoCall,
    /// It has not so many flows.
    NoFlow {
        /// So many are there.
        flows: usize,
    },
}

impl Study {
    /// Looks at a trace.
    ///
    /// # Errors
    /// It has no message, no whole call, or not the flow that is asked for.
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
        let all = calls(trace, &sent);
        let calls = view.measurable(&all, &mut general);
        let points = view.points(&calls);
        let calls = view.whole(calls, &points, &mut general);
        view.count_overlaps(&calls, &points, &mut general);
        let flows = view.flows(&calls);
        let Some((_, chosen)) = flows.get(options.flow.wrapping_sub(1)) else {
            return Err(match flows.len() {
                0 => StudyError::NoCall,
                flows => StudyError::NoFlow { flows },
            });
        };
        general.add(WarningKind::OtherFlow, calls.len() - chosen.len());
        let chosen: Vec<&Whole<'_>> = chosen.iter().map(|&at| &calls[at]).collect();
        let mut study = times::measure(&view, &points, &chosen, options, &mut general);
        study.flows = flows.into_iter().map(|(flow, _)| flow).collect();
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

impl fmt::Display for StudyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMessage => write!(f, "no SIP message over UDP or TCP is in the capture"),
            Self::NoCall => write!(
                f,
                "no call in the capture is whole: each request needs its final response, and no message may be a retransmission"
            ),
            Self::NoFlow { flows } => write!(
                f,
                "the capture has {flows} flows: ask for one from 1 to {flows}"
            ),
        }
    }
}

impl std::error::Error for StudyError {}
