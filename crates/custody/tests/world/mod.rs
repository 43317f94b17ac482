//! Nodes with one processor each, on virtual time.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    time::Duration,
};

use custody::{Custody, Decision, INTERVAL, Request};
use fastrand::Rng;
use topology::{Node, Path, Topology};

/// A request that would wait for longer is lost.
const PATIENCE_S: f64 = 0.2;

const HOP_S: f64 = 0.001;

pub(crate) struct World {
    topology: Topology,
    rng: Rng,
    now: f64,
    nodes: Vec<Machine>,
    events: BinaryHeap<Reverse<(u64, Kind, usize)>>,
    requests: Vec<Passage>,
    free: Vec<usize>,
    offered: u64,
    carried: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A request comes to its next node.
    Comes,
    /// A node has time for the next.
    IsFree,
    /// A node looks what it is to do.
    Looks,
}

struct Machine {
    custody: Custody,
    speed: f64,
    /// Those that wait, and since when; the first is served.
    waiting: VecDeque<(f64, usize)>,
    is_busy: bool,
    /// When the present service began, and what was done before in this interval.
    began: f64,
    busy: f64,
    held: u64,
}

#[derive(Clone, Copy)]
struct Passage {
    path: usize,
    place: usize,
    is_held: bool,
}

impl World {
    pub(crate) fn new(topology: &Topology, seed: u64) -> Self {
        let machine = |_: &Node| Machine {
            custody: Custody::new(Duration::ZERO),
            speed: 1.0,
            waiting: VecDeque::new(),
            is_busy: false,
            began: 0.0,
            busy: 0.0,
            held: 0,
        };
        Self {
            nodes: topology.nodes.iter().map(machine).collect(),
            topology: topology.clone(),
            rng: Rng::with_seed(seed),
            now: 0.0,
            events: (0..topology.nodes.len())
                .map(|node| Reverse((0, Kind::Looks, node)))
                .collect(),
            requests: Vec::new(),
            free: Vec::new(),
            offered: 0,
            carried: 0,
        }
    }

    pub(crate) fn set_speed(&mut self, node: usize, speed: f64) {
        self.nodes[node].speed = speed;
    }

    /// Requests that have come since this was asked last.
    pub(crate) fn take_offered(&mut self) -> u64 {
        std::mem::take(&mut self.offered)
    }

    pub(crate) fn take_carried(&mut self) -> u64 {
        std::mem::take(&mut self.carried)
    }

    pub(crate) fn held(&self) -> Vec<u64> {
        self.nodes.iter().map(|node| node.held).collect()
    }

    pub(crate) fn figures(&self) -> Vec<String> {
        let figures = self.nodes.iter().map(|node| node.custody.figures());
        let text = |it: custody::Figures| {
            format!(
                "busy {:.3}, {:.0}/s, open {:.0}, held {:.0}, room {:.0}, {:.1}+{:.1} us",
                it.busy,
                it.requests_per_s,
                it.open_per_s,
                it.held_per_s,
                it.room_per_s,
                it.pass_s * 1e6,
                it.hold_s * 1e6
            )
        };
        figures.map(text).collect()
    }

    /// Poisson arrivals for so many seconds.
    pub(crate) fn run(&mut self, per_s: f64, seconds: f64) {
        let end = self.now + seconds;
        let mut next = self.now + self.gap(per_s);
        loop {
            let event = self.events.peek().map(|Reverse((at, ..))| *at as f64 / 1e9);
            if event.is_none_or(|at| next < at) {
                if next >= end {
                    break;
                }
                self.now = next;
                self.arrive();
                next += self.gap(per_s);
            } else if event.is_some_and(|at| at >= end) {
                break;
            } else if let Some(Reverse((at, kind, which))) = self.events.pop() {
                self.now = at as f64 / 1e9;
                match kind {
                    Kind::Comes => self.come(which),
                    Kind::IsFree => self.serve(which),
                    Kind::Looks => self.look(which),
                }
            }
        }
        self.now = end;
    }

    fn gap(&mut self, per_s: f64) -> f64 {
        -(1.0 - self.rng.f64()).ln() / per_s
    }

    fn arrive(&mut self) {
        self.offered += 1;
        let mut at = self.rng.f64();
        let shares = self
            .topology
            .paths
            .iter()
            .map(|path| self.topology.share(path));
        let path = shares
            .enumerate()
            .find(|(_, share)| {
                at -= share;
                at < 0.0
            })
            .map_or(0, |(index, _)| index);
        let passage = Passage {
            path,
            place: 0,
            is_held: false,
        };
        let request = match self.free.pop() {
            Some(request) => {
                self.requests[request] = passage;
                request
            }
            None => {
                self.requests.push(passage);
                self.requests.len() - 1
            }
        };
        self.come(request);
    }

    fn later(&mut self, at: f64, kind: Kind, which: usize) {
        self.events.push(Reverse(((at * 1e9) as u64, kind, which)));
    }

    /// A request is at a node, or behind the last.
    fn come(&mut self, index: usize) {
        let request = self.requests[index];
        let path = &self.topology.paths[request.path].nodes;
        let Some(&at) = path.get(request.place) else {
            assert!(request.is_held, "nobody holds it");
            self.carried += 1;
            self.answer(request.path);
            self.free.push(index);
            return;
        };
        self.nodes[at].waiting.push_back((self.now, index));
        if !self.nodes[at].is_busy {
            self.serve(at);
        }
    }

    /// A node serves the next request that has not waited too long.
    fn serve(&mut self, at: usize) {
        let machine = &mut self.nodes[at];
        machine.rest(self.now);
        let index = loop {
            let Some((since, index)) = machine.waiting.pop_front() else {
                return;
            };
            if since + PATIENCE_S > self.now {
                break index;
            }
            machine.custody.note_behind();
            self.free.push(index);
        };
        let request = &mut self.requests[index];
        let path = &self.topology.paths[request.path].nodes;
        let key = |place: usize| path.get(place).map(|&node| 1 + node as u64);
        let asked = Request {
            from: request.place.checked_sub(1).and_then(key),
            to: key(request.place + 1),
            is_held: request.is_held,
            is_unchecked: false,
            draw: self.rng.u64(..),
        };
        let decision = machine
            .custody
            .decide(Duration::from_secs_f64(self.now), &asked);
        let node = &self.topology.nodes[at];
        let mut work = 1.0 / node.stateless;
        if decision == Decision::Hold {
            work = 1.0 / node.stateful;
            request.is_held = true;
            machine.held += 1;
        }
        request.place += 1;
        (machine.is_busy, machine.began) = (true, self.now);
        let done = self.now + work / machine.speed;
        self.later(done + HOP_S, Kind::Comes, index);
        self.later(done, Kind::IsFree, at);
    }

    fn look(&mut self, at: usize) {
        let machine = &mut self.nodes[at];
        if machine.is_busy {
            machine.rest(self.now);
            (machine.is_busy, machine.began) = (true, self.now);
        }
        let busy = Duration::from_secs_f64(std::mem::take(&mut machine.busy));
        machine.custody.note_busy(busy);
        machine.custody.on_timers(Duration::from_secs_f64(self.now));
        self.later(self.now + INTERVAL.as_secs_f64(), Kind::Looks, at);
    }

    /// The answer tells each node of the room behind it.
    fn answer(&mut self, path: usize) {
        let path = &self.topology.paths[path].nodes;
        let now = Duration::from_secs_f64(self.now);
        for pair in path.windows(2).rev() {
            let room = self.nodes[pair[1]].custody.room(1 + pair[0] as u64, false);
            if let Some(room) = room {
                self.nodes[pair[0]]
                    .custody
                    .hear(now, 1 + pair[1] as u64, room);
            }
        }
    }
}

impl Machine {
    fn rest(&mut self, now: f64) {
        if std::mem::take(&mut self.is_busy) {
            self.busy += now - self.began;
        }
    }
}

/// A chain, or a root with branches, of nodes whose costs differ by up to a factor of two.
pub(crate) fn random_tree(rng: &mut Rng) -> Topology {
    let count = 2 + rng.usize(..4);
    let node = |index: usize, rng: &mut Rng| {
        let stateless = 4000.0 * (1.0 + rng.f64());
        Node {
            name: format!("n{index}"),
            stateless,
            stateful: stateless * (0.5 + 0.4 * rng.f64()),
        }
    };
    let nodes: Vec<Node> = (0..count).map(|index| node(index, rng)).collect();
    let parents: Vec<usize> = (1..count).map(|index| rng.usize(..index)).collect();
    let leaves = (0..count).filter(|node| !parents.contains(node));
    let paths = leaves.map(|leaf| {
        let mut path = vec![leaf];
        while let Some(&parent) = path
            .last()
            .and_then(|&last| parents.get(last.wrapping_sub(1)))
        {
            path.push(parent);
        }
        path.reverse();
        path
    });
    let paths: Vec<Path> = paths
        .map(|nodes| Path {
            nodes,
            share: 0.5 + rng.f64(),
        })
        .collect();
    Topology { nodes, paths }
}
