//! Two nodes in series, each held to a part of a core: SERvartuka's Figure 4 on real sockets.
//!
//! Callers send again as RFC 3261 has it, and do not wait for one another.

mod page;

use std::{io, time::Duration};

use serde::{Deserialize, Serialize};

pub(crate) use self::page::page;
use crate::{
    overload::{self, Cage, Crowd, Span, Work},
    process::micros,
    subject::{self, Running},
};

/// The share of a core that each node has.
const SHARE: f64 = 0.1;

/// Calls in progress while it is found what the first node carries that holds all.
const WINDOW: u32 = 64;

/// What is offered, of what that was.
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
    offered_per_s: f64,
    goodput_per_s: f64,
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
    /// Calls per second in a closed loop with the first node as holder.
    base_per_s: f64,
    runs: Vec<Run>,
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

/// Two nodes in their cages, and who calls through them.
struct Pair {
    crowd: Crowd,
    nodes: [Running; 2],
    cages: [Cage; 2],
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
        let cages = [Cage::new(SHARE)?, Cage::new(SHARE)?];
        for (cage, node) in cages.iter().zip(&nodes) {
            cage.hold(&node.process.processes())?;
        }
        Ok(Self {
            crowd,
            nodes,
            cages,
        })
    }
}

impl Drop for Pair {
    /// A node with open calls would wait for them, and a caged one ends slowly.
    fn drop(&mut self) {
        for (cage, node) in self.cages.iter().zip(&self.nodes) {
            cage.open();
            node.process.kill();
        }
    }
}

pub(crate) fn measure(rounds: u32) -> io::Result<Results> {
    let base_per_s = base()?;
    println!("base: {base_per_s:.0} calls/s");
    let mut runs = Vec::new();
    for round in 1..=rounds {
        for multiple in MULTIPLES {
            for holder in Holder::ALL {
                let run = run(round, holder, multiple, base_per_s)?;
                println!("{run:?}");
                runs.push(run);
            }
        }
    }
    Ok(Results { base_per_s, runs })
}

fn base() -> io::Result<f64> {
    let mut pair = Pair::new(Holder::First, 1)?;
    let Pair { crowd, nodes, .. } = &mut pair;
    let [first, _] = &nodes;
    let cpu = || first.process.cpu();
    let (per_s, ..) = overload::kept_busy(crowd, first.address, WINDOW, SPAN.measured, cpu);
    Ok(per_s)
}

fn run(round: u32, holder: Holder, multiple: f64, base_per_s: f64) -> io::Result<Run> {
    let mut pair = Pair::new(holder, u64::from(round))?;
    let Pair { crowd, nodes, .. } = &mut pair;
    let rate = multiple * base_per_s;
    let [first, second] = &nodes;
    let cpu = || [first.process.cpu(), second.process.cpu()];
    let (point, cpu) = overload::offered(crowd, first.address, rate, SPAN, cpu);
    let offered_per_s = point.offered as f64 / point.seconds;
    Ok(Run {
        round,
        holder,
        multiple,
        offered_per_s,
        goodput_per_s: point.goodput_per_s(),
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
