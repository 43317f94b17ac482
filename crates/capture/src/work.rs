//! The works of a flow: the turns that make up each entry of the model, and the calls between
//! entries.
//!
//! A turn of the server with an answer is a synchronous exchange: its last output is the reply to
//! its input, regardless of the messages' kinds. All other messages are asynchronous. A balancer
//! passes both kinds up and down. To avoid a cycle, one infinite task sends the requests that go
//! up, another those that go down, and a third does the work.

use crate::turns::Turns;

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
    Server,
}

/// An entry of the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Work {
    pub(crate) name: String,
    /// The position in the chain: 0 is the driver.
    pub(crate) place: usize,
    pub(crate) part: Part,
    /// Its turns, at its place.
    pub(crate) turns: Vec<usize>,
    /// The works that it waits for.
    pub(crate) synchronous: Vec<usize>,
    /// The works that it sends to.
    pub(crate) asynchronous: Vec<usize>,
    /// Packets that it waits for, on the link between each place and the next.
    pub(crate) packets: Vec<u32>,
}

/// The works of a call's shape.
#[derive(Clone, Debug)]
pub(crate) struct Works {
    pub(crate) works: Vec<Work>,
    /// For each place and turn: the work to which it belongs.
    owner: Vec<Vec<Option<usize>>>,
    /// The messages whose receivers are already assigned.
    settled: Vec<bool>,
    pub(crate) round_trips: Vec<RoundTrip>,
    links: usize,
    exchanges: usize,
    others: usize,
}

/// A request and its reply on a link. The outer end sees them further apart than the inner end, by
/// two travel times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoundTrip {
    pub(crate) link: usize,
    /// The turn that the request starts, at the end near the server.
    pub(crate) inner: usize,
    /// The turn that the reply starts, at the other end.
    pub(crate) outer: usize,
}

impl Works {
    /// Assigns a call's turns to works: `turns` of each place, and each message's source and
    /// destination as places.
    pub(crate) fn new(turns: &[Turns], ends: &[(usize, usize)]) -> Self {
        let links = turns.len() - 1;
        let mut works = Self {
            works: Vec::new(),
            owner: turns
                .iter()
                .map(|turns| vec![None; turns.turns.len()])
                .collect(),
            settled: vec![false; ends.len()],
            round_trips: Vec::new(),
            links,
            exchanges: 0,
            others: 0,
        };
        works.add("User".to_owned(), 0, Part::User);
        for (number, turn) in turns[0].turns.iter().enumerate() {
            if !turn.outputs.is_empty() {
                works.own(0, 0, number);
            }
        }
        for (number, turn) in turns[links].turns.iter().enumerate() {
            if let Some(&reply) = turn.outputs.last() {
                works.add_exchange(turns, ends, number, turn.input, reply);
            }
        }
        for (message, &ends) in ends.iter().enumerate() {
            if !works.settled[message] {
                works.add_message(turns, message, ends);
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
            packets: vec![0; self.links],
        });
        self.works.len() - 1
    }

    fn own(&mut self, work: usize, place: usize, turn: usize) {
        self.works[work].turns.push(turn);
        self.owner[place][turn] = Some(work);
    }

    fn add_exchange(
        &mut self,
        turns: &[Turns],
        ends: &[(usize, usize)],
        turn: usize,
        request: usize,
        reply: usize,
    ) {
        self.exchanges += 1;
        let number = self.exchanges;
        let server = self.add(format!("server{number}"), self.links, Part::Server);
        self.own(server, self.links, turn);
        let (mut request, mut reply) = (request, Some(reply));
        let mut asked = server;
        for place in (0..self.links).rev() {
            self.settled[request] = true;
            let sender = turns[place].sender_of(request);
            let free = sender.filter(|&turn| place > 0 && self.owner[place][turn].is_none());
            let Some(free) = free else {
                let sender = self.sender(turns, place, request);
                self.ask(turns, sender, asked, place, request, reply);
                break;
            };
            let (up, relay) = self.add_relay(place, Part::Up, &number.to_string());
            self.own(relay, place, free);
            self.ask(turns, up, asked, place, request, reply);
            request = turns[place].turns[free].input;
            // The reply goes on if this balancer passes it on.
            let back = reply.and_then(|reply| turns[place].begun_by(reply));
            reply = back
                .filter(|&turn| self.owner[place][turn].is_none())
                .and_then(|turn| {
                    self.own(relay, place, turn);
                    let outputs = turns[place].turns[turn].outputs.iter().rev();
                    outputs.copied().find(|&output| ends[output].1 < place)
                });
            asked = up;
        }
    }

    /// Makes a work wait for another beyond the link at `place`, and for the packets there and
    /// back.
    fn ask(
        &mut self,
        turns: &[Turns],
        by: usize,
        asked: usize,
        place: usize,
        request: usize,
        reply: Option<usize>,
    ) {
        self.works[by].synchronous.push(asked);
        self.works[by].packets[place] += 1;
        if let Some(reply) = reply {
            self.settled[reply] = true;
            self.works[by].packets[place] += 1;
            let inner = turns[place + 1].begun_by(request);
            let outer = turns[place].begun_by(reply);
            if let (Some(inner), Some(outer)) = (inner, outer) {
                self.round_trips.push(RoundTrip {
                    link: place,
                    inner,
                    outer,
                });
            }
        }
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
    fn sender(&self, turns: &[Turns], place: usize, message: usize) -> usize {
        let turn = turns[place].sender_of(message);
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
    fn add_message(&mut self, turns: &[Turns], message: usize, (from, to): (usize, usize)) {
        self.settled[message] = true;
        let sender = self.sender(turns, from, message);
        self.works[sender].packets[from.min(to)] += 1;
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
        } else if to == self.links {
            let server = self.add(format!("server_a{number}"), to, Part::Server);
            self.own(server, to, turn);
            server
        } else {
            let part = if from < to { Part::Up } else { Part::Down };
            let (asking, relay) = self.add_relay(to, part, &format!("_a{number}"));
            self.own(relay, to, turn);
            asking
        };
        self.works[sender].asynchronous.push(receiver);
    }
}
