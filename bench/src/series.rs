//! Two nodes in series, each held to a part of a core: SERvartuka's Figure 4 on real sockets.
//!
//! Callers send again as RFC 3261 has it, and do not wait for one another.

mod page;

use std::{io, time::Duration};

use serde::{Deserialize, Serialize};

pub(crate) use self::page::page;
use crate::{
    overload::{self, Capacity, Crowd, Held, Span, Subject, Work},
    process::{keep_awake, micros},
    subject::{self, CORE},
};

/// The share of a core that each node has, and the one beside them. With a tenth of a core most of it goes into waking up at
/// the rates that are of interest.
const SHARE: f64 = 0.3;

/// Calls in progress while it is found what the nodes carry in a closed loop, and for how long. With fewer they wait for each
/// other: two workers in series let messages gather for a millisecond each.
const WINDOW: u32 = 256;
const LOOP: Duration = Duration::from_secs(5);

/// What is offered, of what they carry there with the first as holder.
const MULTIPLES: [f64; 8] = [0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.5];

/// By what is offered here, nobody is overloaded: what a call costs is taken from it.
const EASY: f64 = MULTIPLES[1];

const SPAN: Span = Span {
    warm_up: Duration::from_secs(2),
    measured: Duration::from_secs(5),
};

/// Who of the two holds the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Holder {
    Nobody,
    First,
    Second,
    Both,
    Dynamic,
}

/// Two nodes at one rate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    round: u32,
    holder: Holder,
    multiple: f64,
    /// In a closed loop, before.
    alone: Capacity,
    offered_per_s: f64,
    goodput_per_s: f64,
    /// What the node beside them carried meanwhile, per second.
    beside_per_s: f64,
    /// CPU time of each node, for a call that began.
    cpu_us: [f64; 2],
    /// The share of its quota that each node used.
    busy: [f64; 2],
    refused: u64,
    failed: u64,
    repeated_per_s: f64,
    answer_ms_p50: Option<f64>,
    late_ms_p99: f64,
    lost: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    /// In a closed loop with the first node as holder.
    base: Capacity,
    runs: Vec<Run>,
}

impl Results {
    /// What is carried, as a part of the base at the speed that the node beside tells.
    fn of_base(&self, per_s: f64, beside_per_s: f64) -> f64 {
        per_s / self.base.while_beside(beside_per_s)
    }
}

impl Holder {
    const ALL: [Self; 5] = [
        Self::Nobody,
        Self::First,
        Self::Second,
        Self::Both,
        Self::Dynamic,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::First => "the first",
            Self::Second => "the second",
            Self::Both => "both",
            Self::Dynamic => "dynamic",
        }
    }

    /// The modes of the two nodes' routes.
    fn states(self) -> [&'static str; 2] {
        match self {
            Self::Nobody => ["stateless"; 2],
            Self::First => ["stateful", "stateless"],
            Self::Second => ["stateless", "stateful"],
            Self::Both => ["stateful"; 2],
            Self::Dynamic => ["dynamic"; 2],
        }
    }
}

/// Two nodes in their cages, and who calls through them. What a third node carries meanwhile tells how fast the machine is.
struct Pair {
    crowd: Crowd,
    nodes: [Held; 2],
    _beside: Held,
}

impl Pair {
    fn new(holder: Holder, seed: u64) -> io::Result<Self> {
        let mut crowd = Crowd::new(seed, Work::Calls)?;
        let [state, state_behind] = holder.states();
        let second = subject::node_in_series(state_behind, crowd.servers()[0])?;
        subject::wait_for_sockets(&[second.address])?;
        let first = subject::node_in_series(state, second.address)?;
        let mut nodes = [first, second];
        let settled = subject::wait_for_sockets(&[nodes[0].address])
            .and_then(|()| crowd.settle(nodes[0].address));
        if let Err(error) = settled {
            let [first, second] = nodes.each_mut().map(|node| node.process.log());
            return Err(io::Error::other(format!("{error}:\n{first}\n{second}")));
        }
        let [first, second] = nodes;
        let _beside = overload::put_beside(&mut crowd, Subject::Stateful, SHARE, WINDOW)?;
        Ok(Self {
            crowd,
            nodes: [Held::new(first, SHARE)?, Held::new(second, SHARE)?],
            _beside,
        })
    }

    /// What it carries in a closed loop.
    fn kept_busy(&mut self) -> Capacity {
        let [first, _] = &self.nodes;
        let cpu = || first.cpu();
        overload::kept_busy(&mut self.crowd, first.address(), WINDOW, LOOP, cpu)
    }
}

pub(crate) fn measure(rounds: u32) -> io::Result<Results> {
    let _awake = keep_awake(CORE)?;
    let base = Pair::new(Holder::First, 1)?.kept_busy();
    println!("{base:?}");
    let mut runs = Vec::new();
    for round in 1..=rounds {
        for multiple in MULTIPLES {
            for holder in Holder::ALL {
                let run = run(round, holder, multiple, &base)?;
                println!("{run:?}");
                runs.push(run);
            }
        }
    }
    Ok(Results { base, runs })
}

fn run(round: u32, holder: Holder, multiple: f64, base: &Capacity) -> io::Result<Run> {
    let mut pair = Pair::new(holder, u64::from(round))?;
    let alone = pair.kept_busy();
    let rate = multiple * base.while_beside(alone.beside_per_s);
    let [first, second] = &pair.nodes;
    let cpu = || [first.cpu(), second.cpu()];
    let (point, cpu) = overload::offered(&mut pair.crowd, first.address(), rate, SPAN, cpu);
    let offered_per_s = point.offered as f64 / point.seconds;
    Ok(Run {
        round,
        holder,
        multiple,
        alone,
        offered_per_s,
        goodput_per_s: point.goodput_per_s(),
        beside_per_s: point.beside_per_s,
        cpu_us: cpu.map(|cpu| micros(cpu) / point.offered as f64),
        busy: cpu.map(|cpu| cpu.as_secs_f64() / point.seconds / SHARE),
        refused: point.refused,
        failed: point.failed.values().sum(),
        repeated_per_s: point.repeated_per_s,
        answer_ms_p50: point.answer_ms_p50,
        late_ms_p99: point.late_ms_p99,
        lost: point.lost,
    })
}
