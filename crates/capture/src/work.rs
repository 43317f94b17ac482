//! The works of a flow: the turns that make up each entry of the model, and the calls between
//! entries.
//!
//! A turn of the server with an answer is a synchronous exchange: its last output is the reply to
//! its input, regardless of the messages' kinds. All other messages are asynchronous. A balancer
//! passes both kinds up and down. To avoid a cycle, one infinite task sends the requests that go
//! up, another those that go down, and a third does the work.
//!
//! A balancer that sends a request to several nodes at the same time forks. It waits for the branches whose final
//! responses it had when it answered, and for no others.

use crate::{
    trace::Label,
    turns::{Turn, Turns},
    way::Way,
};

/// The part of a place to which a work belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The driver's own work.
    User,
    /// The driver's work on messages that it does not answer.
    Port,
    /// A balancer's messages towards the server, and the replies.
    Up,
    /// A balancer's other messages from the server.
    Down,
    /// A balancer's work.
    Relay,
    /// A balancer's request to several nodes at the same time. It takes no work of its own.
    Fork,
    Server,
}

/// An entry of the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Work {
    pub(crate) name: String,
    /// The position in the way: 0 is the driver.
    pub(crate) place: usize,
    pub(crate) part: Part,
    /// Its turns, at its place.
    pub(crate) turns: Vec<usize>,
    /// The works that it waits for.
    pub(crate) synchronous: Vec<usize>,
    /// The works that it sends to.
    pub(crate) asynchronous: Vec<usize>,
    /// Packets that it waits for, on the link between each place and its parent.
    pub(crate) packets: Vec<u32>,
}

/// The works of a call's shape.
#[derive(Clone, Debug)]
pub(crate) struct Works<'c> {
    call: Course<'c>,
    pub(crate) works: Vec<Work>,
    /// For each place and turn: the work to which it belongs.
    owner: Vec<Vec<Option<usize>>>,
    /// The messages whose receivers are already assigned.
    settled: Vec<bool>,
    pub(crate) round_trips: Vec<RoundTrip>,
    /// The places and turns that fork, and their works.
    forks: Vec<((usize, usize), usize)>,
    exchanges: usize,
    others: usize,
}

/// The messages of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course<'c> {
    pub(crate) way: &'c Way,
    /// The turns of each place.
    pub(crate) turns: &'c [Turns],
    /// Each message's source and destination as places.
    pub(crate) ends: &'c [(usize, usize)],
    /// Each message's kind, and its CSeq.
    pub(crate) kinds: &'c [(&'c Label, u32)],
}

/// A request and its reply on a link. The outer end sees them further apart than the inner end, by
/// two travel times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoundTrip {
    /// The end near the server.
    pub(crate) far: usize,
    /// The turn that the request starts, at that end.
    pub(crate) inner: usize,
    /// The turn that the reply starts, at the other end.
    pub(crate) outer: usize,
}

/// A server's turn with an answer.
#[derive(Clone, Copy)]
struct Exchange {
    leaf: usize,
    turn: usize,
    request: usize,
    reply: usize,
}

impl<'c> Works<'c> {
    /// Assigns a call's turns to works.
    pub(crate) fn new(call: Course<'c>) -> Self {
        let owner = call.turns.iter().map(|it| vec![None; it.turns.len()]);
        let mut works = Self {
            call,
            works: Vec::new(),
            owner: owner.collect(),
            settled: vec![false; call.ends.len()],
            round_trips: Vec::new(),
            forks: Vec::new(),
            exchanges: 0,
            others: 0,
        };
        works.add("User".to_owned(), 0, Part::User);
        for (number, turn) in call.turns[0].turns.iter().enumerate() {
            if !turn.outputs.is_empty() {
                works.own(0, 0, number);
            }
        }
        for exchange in call.exchanges() {
            works.add_exchange(exchange);
        }
        for message in 0..call.ends.len() {
            if !works.settled[message] || works.is_unowned(message) {
                works.add_message(message);
            }
        }
        works
    }

    fn add(&mut self, name: String, place: usize, part: Part) -> usize {
        self.works.push(Work {
            name,
            place,
            part,
            turns: Vec::new(),
            synchronous: Vec::new(),
            asynchronous: Vec::new(),
            packets: vec![0; self.call.way.len()],
        });
        self.works.len() - 1
    }

    fn own(&mut self, work: usize, place: usize, turn: usize) {
        self.works[work].turns.push(turn);
        self.owner[place][turn] = Some(work);
    }

    fn add_exchange(&mut self, exchange: Exchange) {
        let Course {
            way, turns, ends, ..
        } = self.call;
        if !self.is_awaited(exchange) {
            return self.note_trip(exchange.leaf, exchange.request, exchange.reply);
        }
        self.exchanges += 1;
        let number = self.exchanges;
        let server = self.add(format!("server{number}"), exchange.leaf, Part::Server);
        self.own(server, exchange.leaf, exchange.turn);
        let (mut request, mut reply) = (exchange.request, Some(exchange.reply));
        let (mut asked, mut far) = (server, exchange.leaf);
        loop {
            let place = way.parent(far);
            self.settled[request] = true;
            let free = turns[place].sender_of(request).filter(|&turn| {
                let is_asked = ends[turns[place].turns[turn].input].0 == way.parent(place);
                let is_free = self.owner[place][turn].is_none();
                place > 0 && is_free && (is_asked || !way.is_fork(place))
            });
            let Some(free) = free else {
                self.take_later_turn(place, request);
                let sender = self.sender(place, request);
                self.ask(sender, asked, far, request, reply);
                if way.is_fork(place) {
                    self.pass_back(sender, place, reply);
                }
                break;
            };
            let (up, relay) = self.add_relay(place, Part::Up, &number.to_string());
            self.own(relay, place, free);
            self.ask(up, asked, far, request, reply);
            request = turns[place].turns[free].input;
            reply = self.take_reply(relay, place, reply);
            (asked, far) = (up, place);
        }
    }

    /// Gives the turn that a reply begins to a balancer's work; returns the message that passes the reply on.
    fn take_reply(&mut self, relay: usize, place: usize, reply: Option<usize>) -> Option<usize> {
        let Course { turns, ends, .. } = self.call;
        let turn = turns[place].begun_by(reply?)?;
        if self.owner[place][turn].is_some() {
            return None;
        }
        self.own(relay, place, turn);
        let outputs = turns[place].turns[turn].outputs.iter().rev();
        outputs.copied().find(|&output| ends[output].1 < place)
    }

    /// A later branch's reply may be the one that a balancer passes on to those who asked it.
    fn pass_back(&mut self, asking: usize, place: usize, reply: Option<usize>) {
        let Course { way, turns, .. } = self.call;
        let mut relays = self.works[asking].synchronous.iter().copied();
        let relay = relays.find(|&it| self.works[it].part == Part::Relay);
        let Some(relay) = relay else { return };
        let Some(back) = self.take_reply(relay, place, reply) else {
            return;
        };
        let mut works = self.works.iter();
        let Some(asker) = works.position(|it| it.synchronous.contains(&asking)) else {
            return;
        };
        self.settled[back] = true;
        self.works[asker].packets[place] += 1;
        let request = turns[place].turns[self.works[relay].turns[0]].input;
        self.note_trip(place, request, back);
        if way.parent(place) > 0 {
            self.pass_back(asker, way.parent(place), Some(back));
        }
    }

    /// A node may ask the next branch when it hears from another or has waited for long: for the same request.
    fn take_later_turn(&mut self, place: usize, request: usize) {
        let turn = self.call.turns[place].sender_of(request);
        let turn = turn.filter(|&turn| place > 0 && self.owner[place][turn].is_none());
        if let Some(turn) = turn
            && let Some(relay) = self.origin(place, turn)
        {
            self.own(relay, place, turn);
        }
    }

    /// The work of the balancer to which a turn belongs: its owner, or the latest that a message from its parent began
    /// before it.
    fn origin(&self, place: usize, turn: usize) -> Option<usize> {
        let Course {
            way, turns, ends, ..
        } = self.call;
        let of_place = &turns[place].turns;
        let is_asked = |turn: usize| ends[of_place[turn].input].0 == way.parent(place);
        if self.owner[place][turn].is_some() || is_asked(turn) {
            return self.owner[place][turn];
        }
        let earlier = (0..turn).rev().filter(|&other| is_asked(other));
        let mut owners = earlier.filter_map(|other| self.owner[place][other]);
        owners.find(|&owner| self.works[owner].part == Part::Relay)
    }

    /// Whether a message begins a turn of a balancer or a server that belongs to no work.
    fn is_unowned(&self, message: usize) -> bool {
        let to = self.call.ends[message].1;
        let turn = self.call.turns[to].begun_by(message);
        to > 0 && turn.is_some_and(|turn| self.owner[to][turn].is_none())
    }

    /// Whether the node that sent the request waits for its reply. One that forks waits for the final responses that
    /// it has when it answers.
    fn is_awaited(&self, exchange: Exchange) -> bool {
        let Course {
            way, turns, kinds, ..
        } = self.call;
        let place = way.parent(exchange.leaf);
        if !way.is_fork(place) {
            return true;
        }
        let Some(turn) = turns[place].sender_of(exchange.request) else {
            return true;
        };
        let Some(relay) = self.origin(place, turn) else {
            return true;
        };
        let asked = turns[place].turns[self.works[relay].turns[0]].input;
        let has_reply = turns[place].begun_by(exchange.reply);
        let is_final = kinds[exchange.reply].0.status >= Some(200);
        let answered = self.call.answers(place, asked);
        is_final
            && has_reply
                .zip(answered)
                .is_some_and(|(had, answers)| had <= answers)
    }

    /// Makes a work wait for another beyond a link, and for the packets there and back.
    fn ask(&mut self, by: usize, asked: usize, far: usize, request: usize, reply: Option<usize>) {
        let asking = self.fork_of(by, far, request).unwrap_or(by);
        self.works[asking].synchronous.push(asked);
        self.works[by].packets[far] += 1;
        if let Some(reply) = reply {
            self.settled[reply] = true;
            self.works[by].packets[far] += 1;
            self.note_trip(far, request, reply);
        }
    }

    fn note_trip(&mut self, far: usize, request: usize, reply: usize) {
        let Course { way, turns, .. } = self.call;
        let inner = turns[far].begun_by(request);
        let outer = turns[way.parent(far)].begun_by(reply);
        if let (Some(inner), Some(outer)) = (inner, outer) {
            self.round_trips.push(RoundTrip { far, inner, outer });
        }
    }

    /// The work that sends a request to several nodes at the same time, if this is such a request of that asking work.
    fn fork_of(&mut self, by: usize, far: usize, request: usize) -> Option<usize> {
        let place = self.call.way.parent(far);
        let turn = self.call.turns[place].sender_of(request)?;
        if place == 0 || !self.call.is_parallel(place, turn, request) {
            return None;
        }
        let known = self.forks.iter().find(|(of, _)| *of == (place, turn));
        if let Some((_, fork)) = known {
            return Some(*fork);
        }
        let fork = self.add(format!("fork{}", self.forks.len() + 1), place, Part::Fork);
        self.works[by].synchronous.push(fork);
        self.forks.push(((place, turn), fork));
        Some(fork)
    }

    /// A balancer's work, and the work that calls it.
    fn add_relay(&mut self, place: usize, part: Part, number: &str) -> (usize, usize) {
        let (asking, working) = match part {
            Part::Down => ("dn", "r"),
            _ => ("up", "c"),
        };
        let at = if place == 1 {
            String::new()
        } else {
            format!("_b{place}")
        };
        let asking = self.add(format!("{asking}{number}{at}"), place, part);
        let relay = self.add(format!("{working}{number}{at}"), place, Part::Relay);
        self.works[asking].synchronous.push(relay);
        (asking, relay)
    }

    /// The work that sends a message; for a balancer, the one that calls the work.
    fn sender(&self, place: usize, message: usize) -> usize {
        let turn = self.call.turns[place].sender_of(message);
        let Some(owner) = turn.and_then(|turn| self.owner[place][turn]) else {
            return 0;
        };
        let asks = |work: &Work| work.synchronous.contains(&owner);
        match self.works[owner].part {
            Part::Relay => self.works.iter().position(asks).unwrap_or(owner),
            _ => owner,
        }
    }

    /// Adds a message that nobody waits for.
    fn add_message(&mut self, message: usize) {
        let Course {
            way, turns, ends, ..
        } = self.call;
        let (from, to) = ends[message];
        let is_counted = std::mem::replace(&mut self.settled[message], true);
        let sender = self.sender(from, message);
        self.works[sender].packets[from.max(to)] += u32::from(!is_counted);
        let Some(turn) = turns[to].begun_by(message) else {
            return;
        };
        if self.owner[to][turn].is_some() {
            return;
        }
        self.others += 1;
        let number = self.others;
        let receiver = if to == 0 {
            let port = self.add(format!("port{number}"), 0, Part::Port);
            self.own(port, 0, turn);
            port
        } else if way.is_leaf(to) {
            let server = self.add(format!("server_a{number}"), to, Part::Server);
            self.own(server, to, turn);
            server
        } else {
            let part = if from < to { Part::Up } else { Part::Down };
            let (asking, relay) = self.add_relay(to, part, &format!("_a{number}"));
            self.own(relay, to, turn);
            asking
        };
        let sends = turns[from].sender_of(message);
        let of_fork = self
            .forks
            .iter()
            .find(|(of, _)| Some(*of) == sends.map(|turn| (from, turn)));
        let by = match of_fork {
            Some((_, fork)) if from < to => *fork,
            _ => sender,
        };
        self.works[by].asynchronous.push(receiver);
    }
}

impl Course<'_> {
    /// The servers' turns with an answer. Those of a fork come in the order in which it asked, and those that it asked
    /// at the same time in the order of its branches.
    fn exchanges(&self) -> Vec<Exchange> {
        let mut exchanges = Vec::new();
        for leaf in self.way.leaves() {
            for (turn, Turn { input, outputs, .. }) in self.turns[leaf].turns.iter().enumerate() {
                exchanges.extend(outputs.last().map(|&reply| Exchange {
                    leaf,
                    turn,
                    request: *input,
                    reply,
                }));
            }
        }
        let is_tree = (1..self.way.len()).any(|place| self.way.is_fork(place));
        if is_tree {
            exchanges.sort_by_key(|exchange| {
                let asking = &self.turns[self.way.parent(exchange.leaf)];
                let turn = asking.sender_of(exchange.request);
                (turn.map(|turn| asking.turns[turn].input), exchange.leaf)
            });
        }
        exchanges
    }

    /// Whether a turn sends the same request to other nodes, too.
    fn is_parallel(&self, place: usize, turn: usize, request: usize) -> bool {
        let outputs = self.turns[place].turns[turn].outputs.iter();
        let mut others = outputs.filter(|&&other| other != request);
        self.kinds[request].0.status.is_none()
            && others.any(|&other| {
                self.kinds[other] == self.kinds[request] && self.ends[other].1 > place
            })
    }

    /// The turn in which a node sends the final response to a request that came from its parent.
    fn answers(&self, place: usize, request: usize) -> Option<usize> {
        let (asked, cseq) = self.kinds[request];
        let is_answer = |&&output: &&usize| {
            let (label, number) = self.kinds[output];
            label.status >= Some(200)
                && label.method == asked.method
                && number == cseq
                && self.ends[output].1 < place
        };
        let turns = &self.turns[place].turns;
        turns
            .iter()
            .rposition(|turn| turn.outputs.iter().any(|it| is_answer(&it)))
    }
}
