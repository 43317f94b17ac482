//! A node of several workers on virtual time, and the parties around it.

use std::{collections::BTreeMap, net::SocketAddr, ops::Deref, sync::Arc, time::Duration};

use balance::{Judge, Policy};
use node::{
    Answer, Config, ConnectionId, Datagram, Flow, Input, Member, Node, Outbox, Question, Quotation,
    Shared, Transport, Work,
    config::{
        Destination, Limits, Listener, Mode, Pool, PoolServer, Probe, Registrar, Route, Timers,
        WhenFull,
    },
    stats::{Dropped, Event, REPLIES},
};
use sip::digest::Algorithm;

use crate::{
    message::{Dialog, Msg, request},
    play::{PARTIES, START},
};

pub(crate) const EDGE: &str = "192.0.2.10:5060";
pub(crate) const ALICE: &str = "203.0.113.7:5070";
pub(crate) const BOB: &str = "203.0.113.8:5070";
pub(crate) const ONE: &str = "10.0.0.1:5060";
pub(crate) const TWO: &str = "10.0.0.2:5060";
pub(crate) const THREE: &str = "10.0.0.3:5060";

/// 64*T1.
pub(crate) const TRANSACTION_MAX: Duration = Duration::from_secs(32);

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A worker was busy for so long, and ran all the time.
pub(crate) fn worked(time: u64) -> Work {
    Work {
        busy: ms(time),
        ran: ms(time),
        ..Work::default()
    }
}

pub(crate) fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// One pool of these servers for everything.
pub(crate) fn config(servers: &[&str]) -> Config {
    Config {
        name: "edge".to_owned(),
        secret: b"the secret that all nodes of this test share"
            .to_vec()
            .into(),
        accepted_secret: None,
        listeners: vec![listener(EDGE)],
        pools: vec![pool("app", servers)],
        routes: vec![route(&[], &[], "app")],
        limits: Limits {
            sessions: 1000,
            transactions: 1000,
            held_transactions: 1000,
            registrations: 1_000,
            retained_requests: 100,
            message_bytes: 16_384,
            headers: 64,
            handover_queue: 100,
            strangers: 1_024,
        },
        timers: Timers {
            t1: ms(500),
            timer_c: s(181),
            call_max: s(12 * 3600),
            drain: s(10),
        },
        exchange: Default::default(),
        trust: Default::default(),
        connections: Default::default(),
        abuse: Default::default(),
        registrar: None,
    }
}

pub(crate) fn listener(address: &str) -> Listener {
    Listener {
        transport: Transport::Udp,
        address: address.parse().unwrap(),
        advertise: address.to_owned(),
    }
}

pub(crate) fn pool(name: &str, servers: &[&str]) -> Pool {
    let server = |address: &&str| PoolServer {
        transport: Transport::Udp,
        address: address.parse().unwrap(),
        host: None,
        capacity: 1.0,
        cluster: None,
        priority: 0,
    };
    Pool {
        name: name.to_owned(),
        policy: Policy::Cjsq,
        costs: vec![("INVITE".to_owned(), 1.75)],
        learn_costs: false,
        servers: servers.iter().map(server).collect(),
        probe: None,
        slow_start: Duration::ZERO,
        answer_timeout: s(1),
        overload_control: false,
        learn_room: true,
    }
}

pub(crate) fn probe() -> Probe {
    Probe {
        interval: s(2),
        timeout: s(1),
        fall: 2,
        rise: 2,
    }
}

pub(crate) fn route(methods: &[&str], hosts: &[&str], to: &str) -> Route {
    let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
    Route {
        methods: owned(methods),
        hosts: owned(hosts),
        ..Route::of_all(Destination::Pool(to.to_owned()), Mode::Stateless)
    }
}

/// One pool of these servers, and its transactions held.
pub(crate) fn stateful(servers: &[&str]) -> Config {
    let mut config = config(servers);
    config.routes[0].state = Mode::Stateful;
    config
}

/// All that is for users goes where they are.
pub(crate) fn location() -> Config {
    let mut config = config(&[ONE]);
    config.registrar = Some(registrar());
    config.routes[0].to = Destination::Registrar;
    config.routes[0].state = Mode::Stateful;
    config
}

pub(crate) fn registrar() -> Registrar {
    Registrar {
        domains: vec!["example.com".to_owned()],
        expires_min: s(60),
        expires_default: s(3600),
        expires_max: s(7200),
        contacts_max: 3,
        when_full: WhenFull::Refuse,
        algorithms: vec![Algorithm::Sha256, Algorithm::Md5],
        service_route: Vec::new(),
        removes_dead: true,
        keep_alive: None,
    }
}

/// A message that the node sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) listener: u8,
    pub(crate) flow: Flow,
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
    pub(crate) message: Msg,
}

impl Deref for Sent {
    type Target = Msg;

    fn deref(&self) -> &Msg {
        &self.message
    }
}

impl Sent {
    /// The answer of whoever got it.
    pub(crate) fn respond(&self, status: u16) -> Msg {
        self.respond_as(status, &format!("tag{}", self.to.port()))
    }

    /// The same with this To tag, as a fork's.
    pub(crate) fn respond_as(&self, status: u16, tag: &str) -> Msg {
        self.message.response(self.to, status, tag)
    }
}

/// A node: its workers share one [`Shared`] and hand over to each other at once.
pub(crate) struct Cluster {
    pub(crate) now: Duration,
    pub(crate) shared: Arc<Shared>,
    pub(crate) nodes: Vec<Node>,
    /// What happened so far, as the fuzz target's scripts say it.
    pub(crate) tape: Vec<u8>,
    /// How many datagrams were sent.
    pub(crate) sent: usize,
    /// The worker that gets the next datagram: each in turn.
    turn: usize,
    /// What the store was asked.
    pub(crate) questions: Vec<Question>,
    pub(crate) out: Outbox,
    /// Who is connected, and how.
    connected: BTreeMap<SocketAddr, Flow>,
    /// What went to each party last.
    latest: BTreeMap<SocketAddr, Vec<u8>>,
}

impl Cluster {
    pub(crate) fn new(config: Config) -> Self {
        Self::with_workers(config, 1)
    }

    pub(crate) fn with_workers(config: Config, workers: usize) -> Self {
        let now = START;
        let shared = Arc::new(Shared::new(config, workers).unwrap());
        let node = |worker| Node::new(Arc::clone(&shared), worker, 7 + worker as u64, now);
        Self {
            now,
            nodes: (0..workers).map(node).collect(),
            shared,
            tape: Vec::new(),
            sent: 0,
            turn: 0,
            questions: Vec::new(),
            out: Outbox::default(),
            connected: BTreeMap::new(),
            latest: BTreeMap::new(),
        }
    }

    /// The process dies and starts again with this configuration.
    pub(crate) fn restart(&mut self, config: Config) {
        let now = self.now;
        *self = Self::with_workers(config, self.nodes.len());
        self.now = now + s(1);
    }

    /// Lets the node receive a message; returns what it sends.
    pub(crate) fn send(&mut self, message: &Msg) -> Vec<Sent> {
        self.send_bytes(0, message.from, message.to_string().as_bytes())
    }

    /// The same when exactly one message is to be sent.
    pub(crate) fn pass(&mut self, message: &Msg) -> Sent {
        self.pass_by(0, message)
    }

    pub(crate) fn pass_by(&mut self, listener: u8, message: &Msg) -> Sent {
        let mut sent = self.send_bytes(listener, message.from, message.to_string().as_bytes());
        assert_eq!(sent.len(), 1, "{message}\n{sent:#?}");
        sent.remove(0)
    }

    pub(crate) fn send_bytes(&mut self, listener: u8, from: SocketAddr, bytes: &[u8]) -> Vec<Sent> {
        self.send_datagram(Datagram {
            flow: self.flow_of(listener, from),
            bytes,
            truncated: false,
        })
    }

    /// From now on a peer's messages come over a connection to this listener.
    pub(crate) fn connect(&mut self, peer: &str, listener: u8, number: u32) -> Flow {
        let remote = peer.parse().unwrap();
        let flow = Flow {
            transport: self.shared.snapshot().config().listeners[usize::from(listener)].transport,
            listener,
            remote,
            connection: ConnectionId::new(0, number),
        };
        self.connected.insert(remote, flow);
        flow
    }

    fn flow_of(&self, listener: u8, from: SocketAddr) -> Flow {
        let udp = || Flow::udp(listener, from);
        self.connected.get(&from).copied().unwrap_or_else(udp)
    }

    /// The store answers what it was asked last, by a node of one worker.
    pub(crate) fn answer(&mut self, answer: Answer) -> Vec<Sent> {
        self.answer_to(0, answer)
    }

    /// The store answers what it was asked last, by this worker.
    pub(crate) fn answer_to(&mut self, worker: usize, answer: Answer) -> Vec<Sent> {
        let question = self.questions.pop().unwrap().id;
        self.input(worker, Input::Answer { question, answer });
        self.settle()
    }

    pub(crate) fn send_datagram(&mut self, datagram: Datagram<'_>) -> Vec<Sent> {
        let worker = self.turn % self.nodes.len();
        self.turn += 1;
        let is_sender = |(_, party): &&(u8, &str)| party.parse() == Ok(datagram.flow.remote);
        if let Some((party, _)) = PARTIES.iter().find(is_sender) {
            self.tape.push(*party);
            self.tape.extend_from_slice(datagram.bytes);
            self.tape.push(0);
        }
        self.input(worker, Input::Datagram(datagram));
        self.settle()
    }

    /// A server is down, as far as this node knows.
    pub(crate) fn take_down(&self, address: &str) {
        let server = &self.member(address).server;
        assert!(server.unreachable(self.now, Judge::Calls));
    }

    /// The network says that what went to an address last found nobody there.
    pub(crate) fn unreachable(&mut self, address: &str) -> Vec<Sent> {
        let address = address.parse().unwrap();
        let quoted = self.latest.get(&address).cloned().unwrap_or_default();
        self.quote(address, &quoted)
    }

    /// The network says that nobody listens at an address, and quotes this.
    pub(crate) fn quote(&mut self, address: SocketAddr, bytes: &[u8]) -> Vec<Sent> {
        let flow = Flow::udp(0, address);
        let is_it = |(_, party): &&(u8, &str)| party.parse() == Ok(address);
        if let Some((party, _)) = PARTIES.iter().find(is_it) {
            self.tape.extend_from_slice(&[b'u', *party]);
            self.tape.extend_from_slice(bytes);
            self.tape.push(0);
        }
        self.input(0, Input::Unreachable(Quotation { flow, bytes }));
        self.settle()
    }

    /// The connection of a message is gone before it was written.
    pub(crate) fn unsent(&mut self, sent: &Sent) -> Vec<Sent> {
        let bytes = &sent.bytes[..];
        let connection = sent.flow.connection.or_else(|| ConnectionId::new(0, 99));
        let flow = Flow {
            connection,
            ..sent.flow
        };
        self.input(0, Input::Unreachable(Quotation { flow, bytes }));
        self.settle()
    }

    /// Lets time pass, with the timers at their deadlines.
    pub(crate) fn wait(&mut self, time: Duration) -> Vec<Sent> {
        let end = self.now + time;
        self.tape
            .extend(format!("t{}\0", time.as_millis()).into_bytes());
        let mut sent = self.timeout();
        while self.now < end {
            let deadlines = self.nodes.iter().filter_map(|node| node.deadline(self.now));
            let next = deadlines.min().unwrap_or(end).min(end);
            assert!(next > self.now, "what was due is done");
            self.now = next;
            sent.extend(self.timeout());
        }
        sent
    }

    fn timeout(&mut self) -> Vec<Sent> {
        for node in &mut self.nodes {
            node.handle_timeout(self.now, &mut self.out);
        }
        self.settle()
    }

    fn input(&mut self, worker: usize, input: Input<'_>) {
        self.nodes[worker].handle_input(self.now, input, &mut self.out);
    }

    /// Delivers handovers, then takes what was sent.
    pub(crate) fn settle(&mut self) -> Vec<Sent> {
        while !self.out.handovers.is_empty() {
            let handover = self.out.handovers.remove(0);
            self.input(handover.worker, Input::Handover(handover));
        }
        let sent = self.out.transmits.iter().map(|transmit| {
            let snapshot = self.shared.snapshot();
            let from = snapshot.config().listeners[usize::from(transmit.flow.listener)].address;
            let bytes = self.out.payload(transmit).to_vec();
            Sent {
                listener: transmit.flow.listener,
                flow: transmit.flow,
                to: transmit.flow.remote,
                message: Msg::parse(from, &String::from_utf8_lossy(&bytes)),
                bytes,
            }
        });
        let sent: Vec<_> = sent.collect();
        for sent in &sent {
            self.latest.insert(sent.to, sent.bytes.clone());
        }
        self.sent += sent.len();
        self.questions.append(&mut self.out.questions);
        self.out.clear();
        self.check();
        sent
    }

    /// The ledger is the sum of what the workers have open, and nothing was closed twice.
    pub(crate) fn check(&self) {
        let mut open = BTreeMap::new();
        for node in &self.nodes {
            for (server, counted) in node.recount() {
                let sum: &mut (u64, u64, f64) = open.entry(server).or_default();
                *sum = (
                    sum.0 + counted.calls,
                    sum.1 + counted.transactions,
                    sum.2 + counted.work,
                );
            }
        }
        for member in self.shared.snapshot().members().iter().flatten() {
            let (calls, transactions, work) = open.remove(&member.server.id()).unwrap_or_default();
            let server = &member.server;
            assert_eq!(server.calls(), calls, "calls of {}", member.address);
            assert_eq!(
                server.transactions(),
                transactions,
                "transactions of {}",
                member.address
            );
            assert!(
                (server.work() - work).abs() < 1e-6,
                "work of {}",
                member.address
            );
            assert_eq!(server.underflows(), 0);
        }
        assert!(
            open.is_empty(),
            "counted on servers that are not there: {open:?}"
        );
    }

    pub(crate) fn member(&self, address: &str) -> Arc<Member> {
        let snapshot = self.shared.snapshot();
        let mut members = snapshot.members().iter().flatten();
        let member = members.find(|member| member.address == address.parse().unwrap());
        Arc::clone(member.unwrap())
    }

    /// A server's open calls, open transactions and work.
    pub(crate) fn ledger(&self, address: &str) -> (u64, u64, f64) {
        let server = &self.member(address).server;
        (server.calls(), server.transactions(), server.work())
    }

    /// The ledgers of all servers together.
    pub(crate) fn total(&self) -> (u64, u64, f64) {
        let snapshot = self.shared.snapshot();
        let members = snapshot.members().iter().flatten();
        members.fold((0, 0, 0.0), |sum, member| {
            let server = &member.server;
            (
                sum.0 + server.calls(),
                sum.1 + server.transactions(),
                sum.2 + server.work(),
            )
        })
    }

    pub(crate) fn event(&self, event: Event) -> u64 {
        let workers = self.shared.workers().iter();
        workers.map(|worker| worker.event(event)).sum()
    }

    pub(crate) fn dropped(&self, reason: Dropped) -> u64 {
        let workers = self.shared.workers().iter();
        workers.map(|worker| worker.dropped(reason)).sum()
    }

    /// How often the node itself answered with a status.
    pub(crate) fn replies(&self, status: u16) -> u64 {
        let place = REPLIES.iter().position(|&known| known == status).unwrap();
        let workers = self.shared.workers().iter();
        workers.map(|worker| worker.replies(place)).sum()
    }

    /// Transactions of stateful routes.
    pub(crate) fn held(&self) -> u64 {
        let workers = self.shared.workers().iter();
        workers.map(|worker| worker.held_transactions()).sum()
    }

    /// Active sessions, expired sessions and open transactions.
    pub(crate) fn sizes(&mut self) -> (u64, u64, u64) {
        let sent = self.timeout();
        assert!(sent.is_empty(), "{sent:#?}");
        let sizes = self.shared.workers().iter().map(|worker| {
            [
                worker.sessions_active(),
                worker.sessions_expired(),
                worker.transactions(),
            ]
        });
        let sum = sizes.fold([0; 3], |sum, sizes| {
            std::array::from_fn(|i| sum[i] + sizes[i])
        });
        sum.into()
    }

    /// Places a call as Alice does, has it answered and acknowledged.
    pub(crate) fn establish(&mut self, call: &str) -> Established {
        self.establish_with(&request("INVITE", ALICE, call))
    }

    pub(crate) fn establish_with(&mut self, invite: &Msg) -> Established {
        let received = self.pass(invite);
        self.pass(&received.respond(180));
        let answer = received.respond(200);
        let answered = self.pass(&answer);
        let caller = Dialog::of_caller(invite, &answered);
        let ack = self.pass(&caller.ack());
        assert_eq!(ack.to, received.to);
        Established {
            server: received.to,
            callee: Dialog::of_callee(&received, &answer),
            caller,
            invite: received,
            answer,
        }
    }

    /// Sends a request and has it answered by whoever gets it; returns what came there.
    pub(crate) fn exchange(&mut self, request: &Msg, status: u16) -> Sent {
        let received = self.pass(request);
        let back = self.pass(&received.respond(status));
        assert_eq!((back.to, back.status()), (request.from, status));
        received
    }
}

/// A call that is up.
pub(crate) struct Established {
    pub(crate) caller: Dialog,
    pub(crate) callee: Dialog,
    pub(crate) server: SocketAddr,
    /// The INVITE as the server got it.
    pub(crate) invite: Sent,
    /// The server's 2xx.
    pub(crate) answer: Msg,
}
