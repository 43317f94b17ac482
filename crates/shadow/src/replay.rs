//! The replay: a node, callers and servers on virtual time.

mod decide;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap},
    mem,
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use fastrand::Rng;
use node::{
    Config, Datagram, Flow, Input, Node, Outbox, ReloadError, Shared, Transport, config::PoolServer,
};
use sim::Store;
use sip::{Message, Method};

use crate::{
    HEADERS_MAX, History,
    history::{Call, Side},
    report::Outcome,
    server::Queue,
    speech,
};

/// How often a node looks at its timers while it has work.
const TICK: Duration = Duration::from_millis(10);
/// A call without an end in the capture goes on for so long.
const ENDLESS: Duration = Duration::from_secs(3);

/// What happens at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A server is done with a request.
    Done(SocketAddr),
    /// A server gives the last answer.
    Final(usize),
    /// A call ends.
    End(usize),
}

/// A call while it is replayed.
#[derive(Debug, Default)]
struct Play {
    placed: Option<SocketAddr>,
    first: Option<Duration>,
    is_answered: bool,
    /// The request as its server got it, until the call is over.
    request: Option<Box<[u8]>>,
    /// The answer as the caller got it.
    answer: Option<Box<[u8]>>,
}

/// A server's ledger: open calls, open transactions, work in thousandths.
type Ledger = (u64, u64, u64);

struct Replay<'h> {
    history: &'h History,
    shared: Arc<Shared>,
    node: Node,
    out: Outbox,
    store: Store,
    rng: Rng,
    now: Duration,
    timers_due: Duration,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    number: u64,
    plays: Vec<Play>,
    /// The latest call of each Call-ID.
    current: HashMap<&'h [u8], usize>,
    servers: BTreeMap<SocketAddr, Queue>,
    listeners: Vec<SocketAddr>,
    outcome: Outcome,
    /// The ledgers before the request in hand.
    before: BTreeMap<SocketAddr, (Ledger, f64)>,
}

/// Lets a node of this configuration do what the edge of the capture did. Pools without an address of a
/// server get those of the capture. Nobody is asked for a password, and no server is probed. A seed
/// draws the servers' times. `progress` gets the number of calls that have begun, now and then.
///
/// # Errors
/// If the node refuses the configuration.
pub fn replay(
    history: &History,
    config: Config,
    seed: u64,
    progress: impl FnMut(usize),
) -> Result<Outcome, ReloadError> {
    let config = adapted(config, &history.servers());
    let listeners = config
        .listeners
        .iter()
        .map(|listener| listener.address)
        .collect();
    let pools = config.pools.iter().flat_map(|pool| &pool.servers);
    let mut servers: BTreeMap<SocketAddr, Queue> = BTreeMap::new();
    for address in pools.map(|server| server.address).chain(history.servers()) {
        servers.entry(address).or_default();
    }
    let shared = Arc::new(Shared::new(config, 1)?);
    let node = Node::new(Arc::clone(&shared), 0, seed, Duration::ZERO);
    let mut replay = Replay {
        history,
        shared,
        node,
        out: Outbox::default(),
        store: Store::default(),
        rng: Rng::with_seed(seed),
        now: Duration::ZERO,
        timers_due: Duration::ZERO,
        events: BinaryHeap::new(),
        number: 0,
        plays: history.calls.iter().map(|_| Play::default()).collect(),
        current: HashMap::new(),
        servers,
        listeners,
        outcome: Outcome::default(),
        before: BTreeMap::new(),
    };
    replay.run(progress);
    Ok(replay.finish())
}

/// The configuration for a world with one node and emulated servers.
fn adapted(mut config: Config, servers: &[SocketAddr]) -> Config {
    config.exchange.peers.clear();
    if let Some(registrar) = &mut config.registrar {
        registrar.algorithms.clear();
    }
    for route in &mut config.routes {
        route.auth = false;
    }
    for pool in &mut config.pools {
        pool.probe = None;
        pool.slow_start = Duration::ZERO;
        if pool.servers.is_empty() {
            pool.servers = servers.iter().map(|address| server_at(*address)).collect();
        }
    }
    config
}

fn server_at(address: SocketAddr) -> PoolServer {
    PoolServer {
        address,
        transport: Transport::Udp,
        host: None,
        capacity: 1.0,
        cluster: None,
        priority: 0,
    }
}

impl Replay<'_> {
    fn run(&mut self, mut progress: impl FnMut(usize)) {
        let begin = self
            .history
            .calls
            .first()
            .map_or(Duration::ZERO, |call| call.at);
        let mut next = 0;
        loop {
            let call = self.history.calls.get(next);
            // A capture's packets may be swapped by a little.
            let arrives = call.map_or(Duration::MAX, |call| {
                call.at.saturating_sub(begin).max(self.now)
            });
            let event = self.events.peek().map_or(Duration::MAX, |Reverse(it)| it.0);
            let timers = if self.is_over(next) {
                Duration::MAX
            } else {
                self.timers_due
            };
            let soonest = arrives.min(event).min(timers);
            if soonest == Duration::MAX {
                break;
            }
            self.now = soonest;
            if timers == soonest {
                self.tick();
            } else if event == soonest {
                self.happen();
            } else {
                self.begin(next);
                next += 1;
                if next.is_multiple_of(1_024) {
                    progress(next);
                }
            }
        }
    }

    fn is_over(&self, next: usize) -> bool {
        next >= self.history.calls.len() && self.events.is_empty()
    }

    /// A caller sends what it sent.
    fn begin(&mut self, index: usize) {
        let history = self.history;
        let call = &history.calls[index];
        self.note_ledgers();
        let request = Message::parse(&call.request, HEADERS_MAX);
        if let Some(id) = request.ok().and_then(|it| it.call_id().ok()) {
            self.current.insert(id, index);
        }
        let listener = self
            .listeners
            .iter()
            .position(|address| *address == call.edge);
        let flow = Flow::udp(listener.unwrap_or(0) as u8, call.caller);
        let replies = self.outcome.refused.values().sum::<usize>();
        self.hear(flow, &call.request);
        let is_refused = self.outcome.refused.values().sum::<usize>() > replies;
        if self.plays[index].placed.is_none() && is_refused && call.server.is_some() {
            self.outcome.refused_but_taken += 1;
        }
    }

    fn hear(&mut self, flow: Flow, bytes: &[u8]) {
        let datagram = Datagram {
            flow,
            bytes,
            truncated: false,
        };
        let now = self.now;
        self.node
            .handle_input(now, Input::Datagram(datagram), &mut self.out);
        self.timers_due = self.timers_due.min(now + TICK);
        self.drain();
    }

    fn tick(&mut self) {
        self.node.handle_timeout(self.now, &mut self.out);
        let deadline = self.node.deadline(self.now).unwrap_or(Duration::MAX);
        self.timers_due = deadline.max(self.now + TICK);
        self.drain();
    }

    /// Delivers what the node sends, and answers what it asks, until it is content.
    fn drain(&mut self) {
        loop {
            for question in mem::take(&mut self.out.questions) {
                let answer = self.store.answer(self.now, question.ask);
                let input = Input::Answer {
                    question: question.id,
                    answer,
                };
                self.node.handle_input(self.now, input, &mut self.out);
            }
            if self.out.transmits.is_empty() {
                break;
            }
            let transmits = mem::take(&mut self.out.transmits);
            let bytes = mem::take(&mut self.out.bytes);
            for transmit in transmits {
                self.deliver(transmit.flow, &bytes[transmit.range]);
            }
        }
        self.out.clear();
    }

    fn deliver(&mut self, flow: Flow, bytes: &[u8]) {
        let Ok(message) = Message::parse(bytes, HEADERS_MAX) else {
            return;
        };
        let call = message.call_id().ok().and_then(|id| self.current.get(id));
        let Some(index) = call.copied() else {
            return;
        };
        match message.status() {
            Some(status) => self.caller_hears(index, flow, &message, status),
            None if self.servers.contains_key(&flow.remote) => {
                self.server_hears(index, flow, &message)
            }
            None => self.say(flow, |out| {
                speech::put_answer(&message, 200, sender(&message), flow.remote, out)
            }),
        }
    }

    fn server_hears(&mut self, index: usize, flow: Flow, request: &Message<'_>) {
        let history = self.history;
        let call = &history.calls[index];
        let server = flow.remote;
        let method = request.method();
        match method {
            Some(Method::Ack) => return,
            Some(Method::Cancel) => {
                return self.say(flow, |out| {
                    speech::put_answer(request, 200, sender(request), server, out)
                });
            }
            _ => {}
        }
        let begins = request.to_tag() == Ok(None);
        if begins && self.plays[index].placed.replace(server).is_none() {
            self.decide(index, server);
        }
        if begins && method == Some(Method::Invite) {
            self.say(flow, |out| {
                speech::put_answer(request, 100, sender(request), server, out)
            });
        }
        let name = method.map_or("", |method| {
            std::str::from_utf8(method.as_bytes()).unwrap_or("")
        });
        let name = if begins { &call.method } else { name };
        let service = history.times.draw(name, server, &mut self.rng);
        let queue = self.servers.entry(server).or_default();
        let done = queue.take(self.now, service, index, request.bytes().into());
        self.at(done, Event::Done(server));
    }

    fn caller_hears(&mut self, index: usize, flow: Flow, answer: &Message<'_>, status: u16) {
        let history = self.history;
        let call = &history.calls[index];
        let play = &mut self.plays[index];
        let is_of_begin = answer.cseq().is_ok_and(|cseq| {
            cseq.number == call.cseq && cseq.method.as_bytes() == call.method.as_bytes()
        });
        if !is_of_begin {
            return;
        }
        if status > 100 && play.first.is_none() {
            play.first = Some(self.now);
            if let (Some(taken), Some(_)) = (call.first, play.placed) {
                let begin = call.at.saturating_sub(history.calls[0].at);
                self.outcome.taken_times.push(taken);
                self.outcome
                    .would_times
                    .push(self.now.saturating_sub(begin));
            }
        }
        if status < 200 || mem::replace(&mut play.is_answered, true) {
            return;
        }
        if play.placed.is_none() {
            *self.outcome.refused.entry(status).or_default() += 1;
        }
        if &*call.method != "INVITE" {
            return;
        }
        if status >= 300 {
            let Ok(invite) = Message::parse(&call.request, HEADERS_MAX) else {
                return;
            };
            return self.say(flow, |out| speech::put_ack_of_failure(&invite, answer, out));
        }
        play.answer = Some(answer.bytes().into());
        let after = call.end.map_or(ENDLESS, |(_, after)| after);
        self.at(self.now + after, Event::End(index));
        self.say(flow, |out| {
            speech::put_within("ACK", call.cseq, answer, call.caller, out)
        });
    }

    fn happen(&mut self) {
        let Some(Reverse((_, _, event))) = self.events.pop() else {
            return;
        };
        match event {
            Event::Done(server) => {
                let job = self
                    .servers
                    .get_mut(&server)
                    .and_then(|queue| queue.pop(self.now));
                if let Some(job) = job {
                    self.serve(job.call, server, job.request);
                }
            }
            Event::Final(index) => self.conclude(index),
            Event::End(index) => self.end(index),
        }
        self.drain();
    }

    /// A server has done its work on a request.
    fn serve(&mut self, index: usize, server: SocketAddr, request: Box<[u8]>) {
        let history = self.history;
        let call = &history.calls[index];
        let Ok(message) = Message::parse(&request, HEADERS_MAX) else {
            return;
        };
        let flow = Flow::udp(0, server);
        let begins = message.to_tag() == Ok(None);
        let rings = begins && message.method() == Some(Method::Invite) && !call.ring.is_zero();
        let status = if begins { final_status(call) } else { 200 };
        let status = if rings { 180 } else { status };
        self.say(flow, |out| {
            speech::put_answer(&message, status, sender(&message), server, out)
        });
        if rings {
            self.at(self.now + call.ring, Event::Final(index));
        }
        if begins && message.method() == Some(Method::Invite) {
            self.plays[index].request = Some(request);
        }
    }

    /// A callee answers after it has rung.
    fn conclude(&mut self, index: usize) {
        let history = self.history;
        let play = &self.plays[index];
        let (Some(request), Some(server)) = (play.request.clone(), play.placed) else {
            return;
        };
        if let Ok(message) = Message::parse(&request, HEADERS_MAX) {
            let status = final_status(&history.calls[index]);
            let flow = Flow::udp(0, server);
            self.say(flow, |out| {
                speech::put_answer(&message, status, sender(&message), server, out)
            });
        }
    }

    /// Somebody hangs up.
    fn end(&mut self, index: usize) {
        let history = self.history;
        let call = &history.calls[index];
        let play = mem::take(&mut self.plays[index]);
        let side = call.end.map_or(Side::Caller, |(side, _)| side);
        let by_server = (side == Side::Server).then_some((play.request.as_ref(), play.placed));
        if let Some((Some(request), Some(server))) = by_server {
            if let Ok(message) = Message::parse(request, HEADERS_MAX) {
                self.say(Flow::udp(0, server), |out| {
                    speech::put_bye_of_server(&message, server, out);
                });
            }
        } else if let Some(answer) = &play.answer
            && let Ok(message) = Message::parse(answer, HEADERS_MAX)
        {
            let flow = Flow::udp(0, call.caller);
            self.say(flow, |out| {
                speech::put_within("BYE", call.cseq + 1, &message, call.caller, out);
            });
        }
        self.plays[index] = Play {
            placed: play.placed,
            first: play.first,
            is_answered: true,
            ..Play::default()
        };
    }

    /// Lets the node hear what somebody at the other end of a flow says.
    fn say(&mut self, flow: Flow, write: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        write(&mut bytes);
        let datagram = Datagram {
            flow,
            bytes: &bytes,
            truncated: false,
        };
        self.node
            .handle_input(self.now, Input::Datagram(datagram), &mut self.out);
    }

    fn at(&mut self, time: Duration, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time, self.number, event)));
    }
}

/// What a callee answered; without an answer in the capture, it is busy.
fn final_status(call: &Call) -> u16 {
    call.status.unwrap_or(486)
}

/// Where a request came from, which its topmost Via says of a node.
fn sender(request: &Message<'_>) -> SocketAddr {
    let via = request.top_via().ok();
    let address = via.and_then(|via| via.response_address());
    address.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 5060)))
}
