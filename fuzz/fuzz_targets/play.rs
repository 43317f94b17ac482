//! What a node must withstand from those around it. Run by the fuzz target, and by the tests on
//! its corpus.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use node::{
    Answer, Ask, Config, Datagram, Flow, Input, Node, Outbox, Quotation, Record, Shared, Transport,
    config::{
        Destination, Limits, Listener, Mode, Pool, PoolServer, Probe, Registrar, Route, Timers,
        WhenFull,
    },
};
use sip::digest::Algorithm;

/// Who sends: the first byte of a datagram in a script.
pub const PARTIES: [(u8, &str); 5] = [
    (b'a', "203.0.113.7:5070"),
    (b'b', "203.0.113.8:5070"),
    (b'1', "10.0.0.1:5060"),
    (b'2', "10.0.0.2:5060"),
    (b'3', "10.0.0.3:5060"),
];

/// The domain whose users register, and the one whose transactions are held.
pub const USERS: &str = "users.example";
pub const HELD: &str = "held.example";

/// When a script begins.
pub const START: Duration = Duration::from_secs(1_000);

const PROBE: Probe = Probe {
    interval: Duration::from_secs(20),
    timeout: Duration::from_secs(1),
    fall: 2,
    rise: 2,
};

/// The node that scripts are played to. Its tables are small, so that they fill up.
pub fn config() -> Config {
    let listener = |address: &str| Listener {
        transport: Transport::Udp,
        address: address.parse().expect("it is an address"),
        advertise: address.to_owned(),
    };
    let servers = PARTIES[2..].iter().map(|(_, server)| PoolServer {
        transport: Transport::Udp,
        address: server.parse().expect("it is an address"),
        host: None,
        capacity: 1.0,
        cluster: None,
        priority: 0,
    });
    Config {
        name: "fuzzed".to_owned(),
        secret: b"the secret of a node that is fuzzed".to_vec().into(),
        accepted_secret: None,
        listeners: vec![listener("192.0.2.10:5060"), listener("[2001:db8::10]:5060")],
        pools: vec![Pool {
            name: "app".to_owned(),
            policy: balance::Policy::RoundRobin,
            costs: vec![("INVITE".to_owned(), 1.75)],
            learn_costs: false,
            servers: servers.collect(),
            probe: Some(PROBE),
            slow_start: Duration::ZERO,
            answer_timeout: Duration::from_secs(1),
            overload_control: false,
            learn_room: true,
        }],
        routes: vec![
            route(&[USERS], Destination::Registrar, Mode::Stateful),
            route(&[HELD], pool(), Mode::Stateful),
            route(&[], pool(), Mode::Stateless),
        ],
        limits: Limits {
            sessions: 16,
            transactions: 16,
            held_transactions: 32,
            registrations: 1_000,
            retained_requests: 4,
            message_bytes: 4_096,
            headers: 32,
            handover_queue: 16,
            strangers: 1_024,
        },
        timers: Timers {
            t1: Duration::from_millis(500),
            timer_c: Duration::from_secs(181),
            call_max: Duration::from_secs(3_600),
            drain: Duration::from_secs(10),
        },
        exchange: Default::default(),
        trust: Default::default(),
        connections: Default::default(),
        abuse: Default::default(),
        registrar: Some(registrar()),
    }
}

fn pool() -> Destination {
    Destination::Pool("app".to_owned())
}

fn route(hosts: &[&str], to: Destination, state: Mode) -> Route {
    Route {
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        ..Route::of_all(to, state)
    }
}

/// Users of one domain, who have passwords.
fn registrar() -> Registrar {
    Registrar {
        domains: vec![USERS.to_owned()],
        expires_min: Duration::from_secs(60),
        expires_default: Duration::from_secs(3_600),
        expires_max: Duration::from_secs(7_200),
        contacts_max: 3,
        when_full: WhenFull::Refuse,
        algorithms: vec![Algorithm::Sha256, Algorithm::Md5],
        service_route: Vec::new(),
        removes_dead: true,
        keep_alive: None,
    }
}

/// Plays a script: steps with a zero byte between them, of which the first byte says what they
/// are. A party's name: the rest is a datagram from it. `t`: so many milliseconds pass. `u`: a
/// party can't be reached, and the rest is what the ICMP error quotes. Returns how many datagrams the node sent to the parties.
pub fn play(script: &[u8]) -> usize {
    let mut world = World::new();
    for step in script.split(|&byte| byte == 0) {
        match step {
            [b't', ms @ ..] => world.wait(ms),
            [b'u', party, bytes @ ..] => {
                if let Some(address) = address(*party) {
                    let flow = Flow::udp(0, address);
                    world.input(0, Input::Unreachable(Quotation { flow, bytes }));
                }
            }
            [party, bytes @ ..] => world.receive(*party, bytes),
            [] => {}
        }
        world.settle();
    }
    world.sent
}

struct World {
    now: Duration,
    /// What the store holds.
    records: BTreeMap<Box<[u8]>, Record>,
    shared: Arc<Shared>,
    nodes: [Node; 2],
    turn: usize,
    out: Outbox,
    sent: usize,
}

fn address(party: u8) -> Option<SocketAddr> {
    let (_, text) = PARTIES.iter().find(|(name, _)| *name == party)?;
    Some(text.parse().expect("it is an address"))
}

impl World {
    fn new() -> Self {
        let shared = Arc::new(Shared::new(config(), 2).expect("it has few servers"));
        let node = |worker| Node::new(Arc::clone(&shared), worker, 7 + worker as u64, START);
        Self {
            now: START,
            records: BTreeMap::new(),
            nodes: [node(0), node(1)],
            shared,
            turn: 0,
            out: Outbox::default(),
            sent: 0,
        }
    }

    fn receive(&mut self, party: u8, bytes: &[u8]) {
        let Some(from) = address(party) else { return };
        let limit = self.shared.snapshot().config().limits.message_bytes;
        let datagram = Datagram {
            flow: Flow::udp(0, from),
            bytes: &bytes[..bytes.len().min(limit)],
            truncated: bytes.len() > limit,
        };
        let worker = self.turn % 2;
        self.turn += 1;
        self.input(worker, Input::Datagram(datagram));
    }

    fn input(&mut self, worker: usize, input: Input<'_>) {
        self.nodes[worker].handle_input(self.now, input, &mut self.out);
        while !self.out.questions.is_empty() {
            let question = self.out.questions.remove(0);
            let answer = self.answer(question.ask);
            let question = question.id;
            let answer = Input::Answer { question, answer };
            self.nodes[worker].handle_input(self.now, answer, &mut self.out);
        }
    }

    /// A store that never fails, and a DNS that knows nobody.
    fn answer(&mut self, ask: Ask) -> Answer {
        match ask {
            Ask::Read { key } => Answer::Record(self.records.get(&key).cloned()),
            Ask::Change { key, seen, next } => {
                let current = self.records.get(&key);
                if current != seen.as_ref() {
                    return Answer::Record(current.cloned());
                }
                match next {
                    Some(next) => self.records.insert(key, next),
                    None => self.records.remove(&key),
                };
                Answer::Changed
            }
            Ask::Locate { .. } => Answer::Located(Vec::new()),
        }
    }

    /// At most ten minutes: longer ones make a run slow and show nothing new.
    fn wait(&mut self, ms: &[u8]) {
        let ms = std::str::from_utf8(ms).ok().and_then(|ms| ms.parse().ok());
        let end = self.now + Duration::from_millis(ms.unwrap_or(1)).min(Duration::from_secs(600));
        self.timeout();
        while self.now < end {
            let deadlines = self.nodes.iter().filter_map(|node| node.deadline(self.now));
            let next = deadlines.min().unwrap_or(end).min(end);
            assert!(next > self.now, "what was due is done");
            self.now = next;
            self.timeout();
        }
    }

    fn timeout(&mut self) {
        for node in &mut self.nodes {
            node.handle_timeout(self.now, &mut self.out);
        }
        self.settle();
    }

    fn settle(&mut self) {
        while !self.out.handovers.is_empty() {
            let handover = self.out.handovers.remove(0);
            self.input(handover.worker, Input::Handover(handover));
        }
        for transmit in &self.out.transmits {
            assert!(!self.out.payload(transmit).is_empty());
        }
        self.sent += self.out.transmits.len();
        self.out.clear();
        self.check();
    }

    /// The ledger is the sum of what is open.
    fn check(&self) {
        let mut open: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for (server, counted) in self.nodes.iter().flat_map(Node::recount) {
            let sum = open.entry(server).or_default();
            *sum = (sum.0 + counted.calls, sum.1 + counted.transactions);
        }
        for member in self.shared.snapshot().members().iter().flatten() {
            let server = &member.server;
            let counted = open.remove(&server.id()).unwrap_or_default();
            assert_eq!((server.calls(), server.transactions()), counted);
            assert_eq!(server.underflows(), 0);
        }
        assert!(open.is_empty());
    }
}
