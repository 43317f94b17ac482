//! What the node itself costs: a whole call, and an in-dialog request among many open calls.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use divan::{Bencher, black_box, counter::ItemsCount};
use node::{Config, Datagram, Flow, Input, Node, Outbox, Shared, Transport, config};

/// Counts allocations: in the steady state a call makes none.
#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

const CALLER: &str = "127.0.0.1:6000";
const SECONDS: fn(u64) -> Duration = Duration::from_secs;

fn main() {
    divan::main();
}

fn configuration() -> Config {
    let listener = config::Listener {
        transport: Transport::Udp,
        address: "127.0.0.1:5060".parse().expect("it is an address"),
        advertise: "127.0.0.1:5060".to_owned(),
    };
    let server = |port| config::PoolServer {
        transport: Transport::Udp,
        address: SocketAddr::from(([127, 0, 0, 1], port)),
        host: None,
        capacity: 1.0,
        cluster: None,
        priority: 0,
    };
    Config {
        name: "bench".to_owned(),
        secret: b"a secret for nothing but benchmarks".to_vec().into(),
        accepted_secret: None,
        listeners: vec![listener],
        pools: vec![config::Pool {
            name: "app".to_owned(),
            policy: balance::Policy::Tlwl,
            costs: vec![("INVITE".to_owned(), 1.75)],
            learn_costs: false,
            servers: (7001..7005).map(server).collect(),
            probe: None,
            slow_start: Duration::ZERO,
            answer_timeout: SECONDS(1),
            overload_control: false,
            learn_room: true,
        }],
        routes: vec![config::Route::of_all(
            config::Destination::Pool("app".to_owned()),
            config::Mode::Stateless,
        )],
        limits: config::Limits {
            sessions: 2_000_000,
            transactions: 100_000,
            held_transactions: 400_000,
            registrations: 1_000,
            retained_requests: 4_096,
            message_bytes: 16_384,
            headers: 128,
            handover_queue: 1_024,
            strangers: 1_024,
        },
        timers: config::Timers {
            t1: Duration::from_millis(500),
            timer_c: SECONDS(181),
            call_max: SECONDS(43_200),
            drain: SECONDS(10),
        },
        exchange: Default::default(),
        trust: Default::default(),
        connections: Default::default(),
        abuse: Default::default(),
        registrar: None,
    }
}

const SDP: &str = "v=0\r\no=alice 53655765 2353687637 IN IP4 127.0.0.1\r\ns=-\r\n\
c=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 6000 RTP/AVP 0 8 101\r\na=rtpmap:0 PCMU/8000\r\n\
a=rtpmap:8 PCMA/8000\r\na=rtpmap:101 telephone-event/8000\r\na=sendrecv\r\n";

fn request(method: &str, call: u64, cseq: u32, to_tag: &str, route: &str, body: &str) -> String {
    format!(
        "{method} sip:service@127.0.0.1:5060 SIP/2.0\r\n\
         Via: SIP/2.0/UDP {CALLER};branch=z9hG4bK-{call:x}-{method};rport\r\n{route}\
         From: \"Alice\" <sip:alice@127.0.0.1:6000>;tag=a{call:x}\r\n\
         To: <sip:service@127.0.0.1:5060>{to_tag}\r\nCall-ID: {call:016x}-8a71-4b@127.0.0.1\r\n\
         CSeq: {cseq} {method}\r\nContact: <sip:alice@{CALLER}>\r\nMax-Forwards: 70\r\n\
         User-Agent: benchmark\r\nSubject: Performance\r\nContent-Type: application/sdp\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The response of a server to what the node sent it.
fn response(request: &[u8], status: &str) -> Vec<u8> {
    let text = std::str::from_utf8(request).expect("it is text");
    let mut lines = format!("SIP/2.0 {status}\r\n");
    for line in text.lines().take_while(|line| !line.is_empty()) {
        let copied = ["Via:", "Record-Route:", "From:", "Call-ID:", "CSeq:"];
        if copied.iter().any(|name| line.starts_with(name)) {
            lines.push_str(line);
            lines.push_str("\r\n");
        } else if line.starts_with("To:") {
            let tag = if line.contains("tag=") {
                ""
            } else {
                ";tag=b7f3"
            };
            lines.push_str(&format!("{line}{tag}\r\n"));
        }
    }
    lines.push_str("Contact: <sip:127.0.0.1:7001>\r\nContent-Length: 0\r\n\r\n");
    lines.into_bytes()
}

struct Bench {
    node: Node,
    out: Outbox,
    now: Duration,
}

impl Bench {
    fn new() -> Self {
        let shared = Arc::new(Shared::new(configuration(), 1).expect("it has few servers"));
        Self {
            node: Node::new(shared, 0, 7, SECONDS(1)),
            out: Outbox::default(),
            now: SECONDS(1),
        }
    }

    fn input(&mut self, from: SocketAddr, bytes: &[u8]) -> &Outbox {
        self.out.clear();
        let datagram = Datagram {
            flow: Flow::udp(0, from),
            bytes,
            truncated: false,
        };
        self.node
            .handle_input(self.now, Input::Datagram(datagram), &mut self.out);
        assert_eq!(
            self.out.transmits.len(),
            1,
            "{}",
            String::from_utf8_lossy(bytes)
        );
        &self.out
    }

    /// What the node sends for this.
    fn relayed(&mut self, from: SocketAddr, bytes: &[u8]) -> (SocketAddr, Vec<u8>) {
        let out = self.input(from, bytes);
        (
            out.transmits[0].flow.remote,
            out.payload(&out.transmits[0]).to_vec(),
        )
    }

    /// Sets a call up; the route set for requests within it.
    fn open(&mut self, call: u64) -> String {
        let caller = CALLER.parse().expect("it is an address");
        let (server, invite) =
            self.relayed(caller, request("INVITE", call, 1, "", "", SDP).as_bytes());
        let (_, ok) = self.relayed(server, &response(&invite, "200 OK"));
        let text = String::from_utf8(ok).expect("it is text");
        let route = text
            .lines()
            .find_map(|line| line.strip_prefix("Record-Route: "));
        format!("Route: {}\r\n", route.expect("the node put it there"))
    }
}

type Step = (SocketAddr, Vec<u8>);

/// All messages of a call as they reach the node, for calls whose server is known beforehand: the
/// node is driven once with the same seed to find out.
fn script(calls: u64) -> Vec<[Step; 6]> {
    let caller: SocketAddr = CALLER.parse().expect("it is an address");
    let mut bench = Bench::new();
    let steps = |call| {
        let invite = request("INVITE", call, 1, "", "", SDP).into_bytes();
        let (server, relayed) = bench.relayed(caller, &invite);
        let ringing = response(&relayed, "180 Ringing");
        let ok = response(&relayed, "200 OK");
        bench.input(server, &ringing);
        let (_, answer) = bench.relayed(server, &ok);
        let text = String::from_utf8(answer).expect("it is text");
        let route = text
            .lines()
            .find_map(|line| line.strip_prefix("Record-Route: "));
        let route = format!("Route: {}\r\n", route.expect("the node put it there"));
        let ack = request("ACK", call, 1, ";tag=b7f3", &route, "").into_bytes();
        bench.input(caller, &ack);
        let bye = request("BYE", call, 2, ";tag=b7f3", &route, "").into_bytes();
        let (_, relayed) = bench.relayed(caller, &bye);
        let bye_ok = response(&relayed, "200 OK");
        bench.input(server, &bye_ok);
        [
            (caller, invite),
            (server, ringing),
            (server, ok),
            (caller, ack),
            (caller, bye),
            (server, bye_ok),
        ]
    };
    (0..calls).map(steps).collect()
}

/// INVITE, 180, 200, ACK, BYE, 200: parsed, placed, counted, relayed.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn call(bencher: Bencher<'_, '_>) {
    const CALLS: u64 = 10_000;
    let script = script(CALLS);
    bencher
        .counter(ItemsCount::new(CALLS))
        .with_inputs(Bench::new)
        .bench_local_refs(|bench| {
            for step in &script {
                for (from, bytes) in step {
                    black_box(bench.input(*from, bytes));
                }
            }
        });
}

/// A request within one of so many open calls, chosen at random. Time goes by between them, so
/// that nothing is answered and nothing times out.
#[divan::bench(args = [1_000, 1_000_000], sample_count = 20, sample_size = 1)]
fn in_dialog(bencher: Bencher<'_, '_>, open: u64) {
    const REQUESTS: usize = 1_000;
    let caller: SocketAddr = CALLER.parse().expect("it is an address");
    let mut bench = Bench::new();
    let routes: Vec<String> = (0..open).map(|call| bench.open(call)).collect();
    let mut rng = fastrand::Rng::with_seed(7);
    let bench = std::cell::RefCell::new(bench);
    bencher
        .counter(ItemsCount::new(REQUESTS))
        .with_inputs(|| {
            let mut ack = || {
                let call = rng.u64(..open);
                request("ACK", call, 1, ";tag=b7f3", &routes[call as usize], "").into_bytes()
            };
            (0..REQUESTS).map(|_| ack()).collect::<Vec<_>>()
        })
        .bench_local_refs(|requests| {
            let mut bench = bench.borrow_mut();
            for bytes in requests {
                black_box(bench.input(caller, bytes));
            }
        });
}
