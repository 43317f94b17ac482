//! A node with a tap, a caller and servers that answer.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test program uses its own part of this module"
)]

use std::{net::SocketAddr, sync::Arc, time::Duration};

use node::{Config, Datagram, Flow, Input, Node, Outbox, Shared, config, tap::Tap};
use recorder::{Backlog, Counts, Ladder, Recorder, Settings};

pub const CALLER: &str = "203.0.113.7:5070";
pub const SECOND: Duration = Duration::from_secs(1);

/// A node, its tap and its recorder.
pub struct World {
    pub shared: Arc<Shared>,
    pub node: Node,
    pub out: Outbox,
    pub now: Duration,
    pub recorder: Recorder,
}

/// Keeps all, within 64 MiB.
pub fn settings() -> Settings {
    Settings {
        bytes_max: 64 << 20,
        calls_max: 200_000,
        one_in: 1,
        masks_users: false,
        masks_bodies: false,
        collector: None,
    }
}

impl World {
    pub fn new(settings: Settings) -> Self {
        let shared = Arc::new(Shared::new(configuration(), 1).unwrap());
        let out = Outbox {
            tap: Some(Tap::new(16 << 20)),
            ..Outbox::default()
        };
        Self {
            node: Node::new(Arc::clone(&shared), 0, 7, SECOND),
            shared,
            out,
            now: SECOND,
            recorder: Recorder::new(settings, [7; 16]),
        }
    }

    /// What the node sends when this comes in.
    pub fn input(&mut self, from: &str, bytes: &[u8]) -> Vec<(SocketAddr, Vec<u8>)> {
        self.out.clear();
        let datagram = Datagram {
            flow: Flow::udp(0, from.parse().unwrap()),
            bytes,
            truncated: false,
        };
        let input = Input::Datagram(datagram);
        self.node.handle_input(self.now, input, &mut self.out);
        self.sent()
    }

    /// Lets time pass, tick by tick; what the node sends meanwhile.
    pub fn wait(&mut self, time: Duration) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut sent = Vec::new();
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(10);
            self.out.clear();
            self.node.handle_timeout(self.now, &mut self.out);
            sent.extend(self.sent());
        }
        sent
    }

    fn sent(&self) -> Vec<(SocketAddr, Vec<u8>)> {
        let transmits = self.out.transmits.iter();
        transmits
            .map(|sent| (sent.flow.remote, self.out.payload(sent).to_vec()))
            .collect()
    }

    /// Hands what the tap has seen to the recorder.
    pub fn record(&mut self) {
        let tap = self.out.tap.replace(Tap::new(16 << 20)).unwrap();
        self.recorder.take(tap, &self.shared.snapshot());
        self.recorder.make_room(0, drop);
    }

    /// What the recorder has done, without a backlog.
    pub fn counts(&self) -> Counts {
        self.recorder.counts(&Backlog::default())
    }

    /// A call that is answered, talks for a second and is ended by its caller.
    pub fn call(&mut self, call: &str) -> SocketAddr {
        let (server, invite) = self
            .input(CALLER, &request("INVITE", call, "", ""))
            .remove(0);
        let at = server.to_string();
        self.input(&at, &response(&invite, "180 Ringing"));
        self.now += Duration::from_millis(20);
        let answer = self.input(&at, &response(&invite, "200 OK")).remove(0).1;
        let route = route_of(&answer);
        self.input(CALLER, &request("ACK", call, ";tag=b7f3", &route));
        self.now += SECOND;
        let (_, bye) = self
            .input(CALLER, &request("BYE", call, ";tag=b7f3", &route))
            .remove(0);
        self.input(&at, &response(&bye, "200 OK"));
        server
    }

    pub fn ladder(&mut self, call: &str) -> Ladder {
        self.record();
        let key = self.shared.snapshot().session_of(call.as_bytes());
        self.recorder.call(key, self.now).expect("it is recorded")
    }
}

/// A request of Alice's to Bob.
pub fn request(method: &str, call: &str, to_tag: &str, route: &str) -> Vec<u8> {
    let body = if method == "INVITE" {
        "v=0\r\ns=secret\r\n"
    } else {
        ""
    };
    let number = if method == "BYE" { 2 } else { 1 };
    format!(
        "{method} sip:+4420@example.com SIP/2.0\r\n\
         Via: SIP/2.0/UDP {CALLER};branch=z9hG4bK-{call}-{method};rport\r\n{route}\
         From: \"Alice\" <sip:alice@example.com>;tag=a1\r\n\
         To: <sip:+4420@example.com>{to_tag}\r\nCall-ID: {call}\r\n\
         CSeq: {number} {method}\r\nContact: <sip:alice@{CALLER}>\r\nMax-Forwards: 70\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The response of a server to what the node sent it.
pub fn response(request: &[u8], status: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    let mut lines = format!("SIP/2.0 {status}\r\n");
    for line in text.lines().take_while(|line| !line.is_empty()) {
        let copied = ["Via:", "Record-Route:", "From:", "Call-ID:", "CSeq:"];
        if copied.iter().any(|name| line.starts_with(name)) {
            lines += &format!("{line}\r\n");
        } else if line.starts_with("To:") {
            let tag = if line.contains("tag=") {
                ""
            } else {
                ";tag=b7f3"
            };
            lines += &format!("{line}{tag}\r\n");
        }
    }
    lines += "Content-Length: 0\r\n\r\n";
    lines.into_bytes()
}

/// The route set of a 2xx, as its caller sends it.
pub fn route_of(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let recorded = text
        .lines()
        .filter_map(|line| line.strip_prefix("Record-Route:"));
    let routes: Vec<String> = recorded.map(|route| format!("Route:{route}\r\n")).collect();
    routes.concat()
}

fn configuration() -> Config {
    let listener = config::Listener {
        transport: node::Transport::Udp,
        address: "192.0.2.10:5060".parse().unwrap(),
        advertise: "192.0.2.10:5060".to_owned(),
    };
    let server = |last| config::PoolServer {
        transport: node::Transport::Udp,
        address: SocketAddr::from(([10, 0, 0, last], 5060)),
        host: None,
        capacity: 1.0,
        cluster: None,
        priority: 0,
    };
    Config {
        name: "edge".to_owned(),
        secret: b"a secret for nothing but tests and so".to_vec().into(),
        accepted_secret: None,
        listeners: vec![listener],
        pools: vec![config::Pool {
            name: "app".to_owned(),
            policy: balance::Policy::Tlwl,
            costs: vec![("INVITE".to_owned(), 1.75)],
            learn_costs: false,
            servers: (1..3).map(server).collect(),
            probe: None,
            slow_start: Duration::ZERO,
            answer_timeout: SECOND,
            overload_control: false,
            learn_room: false,
        }],
        routes: vec![config::Route::of_all(
            config::Destination::Pool("app".to_owned()),
            config::Mode::Stateless,
        )],
        limits: config::Limits {
            sessions: 200_000,
            transactions: 100_000,
            held_transactions: 1_000,
            registrations: 1_000,
            retained_requests: 4_096,
            message_bytes: 16_384,
            headers: 128,
            handover_queue: 1_024,
            strangers: 1_024,
        },
        timers: config::Timers {
            t1: Duration::from_millis(500),
            timer_c: 181 * SECOND,
            call_max: 43_200 * SECOND,
            drain: 10 * SECOND,
        },
        exchange: Default::default(),
        trust: Default::default(),
        connections: Default::default(),
        abuse: Default::default(),
        registrar: None,
    }
}
