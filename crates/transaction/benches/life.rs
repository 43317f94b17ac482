//! What transactions cost: whole lives of them, a stateful proxy's share, on virtual time.

use std::{net::SocketAddr, time::Duration};

use divan::{Bencher, counter::ItemsCount};
use sip::{Message, Method};
use transaction::{Flow, Key, Sender, Timing, Transactions};

/// Counts allocations: in the steady state there are none.
#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

/// As many a second as make ten million a minute.
const RATE: u64 = 166_667;

const TIMING: Timing = Timing::new(Duration::from_millis(500), Duration::from_secs(181));

fn main() {
    divan::main();
}

#[derive(Default)]
struct Wire {
    bytes: usize,
}

impl Sender for Wire {
    fn send(&mut self, _: Flow, bytes: &[u8]) {
        self.bytes += bytes.len();
    }
}

const HEAD: &str = "Via: SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bKsyaA0123456789abcdef\r\n\
    Via: SIP/2.0/UDP 192.0.2.1:6000;branch=z9hG4bK-1-1;received=192.0.2.1;rport=6000\r\n\
    From: \"Alice\" <sip:alice@192.0.2.1:6000>;tag=a1\r\nTo: <sip:bob@example.com>\r\n\
    Call-ID: 0000000000000001-8a71-4b@192.0.2.1\r\n";

fn request(method: &str) -> Vec<u8> {
    format!(
        "{method} sip:bob@192.0.2.10 SIP/2.0\r\n{HEAD}Max-Forwards: 69\r\nCSeq: 1 {method}\r\n\
         Contact: <sip:alice@192.0.2.1:6000>\r\nContent-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

fn response(status: u16, method: &str) -> Vec<u8> {
    format!("SIP/2.0 {status} Reason\r\n{HEAD}CSeq: 1 {method}\r\nContent-Length: 0\r\n\r\n")
        .into_bytes()
}

struct Proxy {
    store: Transactions<()>,
    wire: Wire,
    now: Duration,
    flow: Flow,
    opened: u64,
    texts: [Vec<u8>; 2],
}

impl Proxy {
    /// As full as it gets at [`RATE`]: what is over stays for 5 or 32 s.
    fn new(method: &str) -> Self {
        Self {
            store: Transactions::new(8_000_000, 4096, TIMING, Duration::ZERO),
            wire: Wire::default(),
            now: Duration::ZERO,
            flow: Flow::udp(0, SocketAddr::from(([10, 0, 0, 1], 5060))),
            opened: 0,
            texts: [request(method), response(200, method)],
        }
    }

    /// A server transaction and its client transaction, from the request to the final response.
    /// What is over ends as time goes by.
    fn serve(&mut self, method: Method<'_>) {
        self.opened += 2;
        self.now = Duration::from_nanos(self.opened * 1_000_000_000 / RATE);
        let now = self.now;
        let server = Key::server(mixed(self.opened), method);
        let client = Key::client(mixed(self.opened), method);
        let server = self.store.receive(now, server, self.flow, ());
        let server = server.expect("there is room");
        let [request, response] = &self.texts;
        let client = self
            .store
            .request(now, client, self.flow, (), &mut self.wire, |out| {
                out.extend_from_slice(request)
            });
        let client = client.expect("there is room");
        let message = Message::parse(response, 64).expect("it is well formed");
        self.store
            .on_response(now, client, &message, &mut self.wire);
        self.store.respond(now, server, 200, &mut self.wire, |out| {
            out.extend_from_slice(response)
        });
        while self.store.poll(now, &mut self.wire).is_some() {}
    }
}

/// Keys are hashes.
fn mixed(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

/// Transactions at ten million a minute, of which each pair of which is held for up to 32 s.
#[divan::bench(args = ["INVITE", "BYE"], sample_count = 10, sample_size = 1)]
fn lives(bencher: Bencher<'_, '_>, method: &str) {
    const PAIRS: u64 = 50_000;
    let verb = Method::from_bytes(method.as_bytes());
    let mut proxy = Proxy::new(method);
    // Past 33 s as many end as begin.
    while proxy.now < Duration::from_secs(33) {
        proxy.serve(verb);
    }
    let proxy = std::cell::RefCell::new(proxy);
    bencher.counter(ItemsCount::new(2 * PAIRS)).bench_local(|| {
        for _ in 0..PAIRS {
            proxy.borrow_mut().serve(verb);
        }
    });
}
