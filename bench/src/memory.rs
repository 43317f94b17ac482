//! What an open call costs: the memory of a program that holds a million of them, and the CPU of a
//! request within one of them, beside the same with a thousand.

use std::{
    io,
    time::{Duration, Instant},
};

use fastrand::Rng;
use load::{Arrivals, Caller, CallerConfig, Law, Outbox, Service};
use serde::{Deserialize, Serialize};
use socket::udp::{BATCH, RecvBatch, SendBatch, Socket, Wait};

use crate::{
    balance::start,
    generator::Generator,
    process::micros,
    subject::{Running, Subject},
};

const DATAGRAM_BYTES_MAX: usize = 4096;
const FEW: u64 = 1_000;
const MANY: u64 = 1_000_000;
/// Calls that wait for their answer while others are open already.
const BEGINNING: u64 = 64;
/// How long a thousand calls may take to be opened.
const THOUSAND_MAX: Duration = Duration::from_secs(1);
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);
/// INFO requests in progress.
const WINDOW: u64 = 64;
/// How long to wait before those without a response count as lost.
const LOST_AFTER: Duration = Duration::from_millis(500);

/// What was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Memory {
    pub open_calls: u64,
    /// Resident memory before the first call.
    pub idle_bytes: u64,
    /// Resident memory with all calls open.
    pub open_bytes: u64,
    pub few_calls: u64,
    /// CPU time of an INFO and its 200 in a call drawn at random, in each round.
    pub info_us_few: Vec<f64>,
    pub info_us_many: Vec<f64>,
    /// INFO requests that no response came for.
    pub lost: u64,
}

impl Memory {
    pub(crate) fn bytes_per_call(&self) -> f64 {
        self.open_bytes.saturating_sub(self.idle_bytes) as f64 / self.open_calls as f64
    }
}

pub(crate) fn measure() -> io::Result<Option<Memory>> {
    if let Some(missing) = Subject::Sipyard.missing() {
        println!("{}: left out, {missing}", Subject::Sipyard.title());
        return Ok(None);
    }
    let mut few = Holding::open(1, FEW)?;
    let mut many = Holding::open(2, MANY)?;
    let mut memory = Memory {
        open_calls: MANY,
        idle_bytes: many.idle_bytes,
        open_bytes: many.running.process.resident_bytes(),
        few_calls: FEW,
        info_us_few: Vec::new(),
        info_us_many: Vec::new(),
        lost: 0,
    };
    println!(
        "{MANY} calls open: {:.0} bytes each",
        memory.bytes_per_call()
    );
    for round in 1..=ROUNDS {
        let (few_us, few_lost) = few.inform(&mut many)?;
        let (many_us, many_lost) = many.inform(&mut few)?;
        println!(
            "round {round}  INFO: {few_us:.2} us with {FEW} calls, {many_us:.2} us with {MANY}"
        );
        memory.info_us_few.push(few_us);
        memory.info_us_many.push(many_us);
        memory.lost += few_lost + many_lost;
    }
    Ok(Some(memory))
}

/// A program that holds calls, who made them, and requests to send within them.
struct Holding {
    generator: Generator,
    running: Running,
    idle_bytes: u64,
    caller: Caller,
    socket: Socket,
    recv: RecvBatch,
    send: SendBatch,
    infos: Infos,
    rng: Rng,
}

impl Holding {
    fn open(seed: u64, calls: u64) -> io::Result<Self> {
        let mut rng = Rng::with_seed(seed);
        let mut generator = Generator::new(seed, Service::NONE)?;
        let running = start(Subject::Sipyard, &mut generator)?;
        let socket = traffic::bind(traffic::LOOPBACK)?;
        let config = CallerConfig {
            holding: Law::NEVER,
            calls_max: calls,
            ..CallerConfig::plain(
                vec![socket.local_addr()],
                running.address,
                Arrivals::Window(0),
            )
        };
        let mut holding = Self {
            idle_bytes: running.process.resident_bytes(),
            caller: Caller::new(config, rng.fork(), generator.clock().now()),
            generator,
            running,
            socket,
            recv: RecvBatch::new(BATCH, DATAGRAM_BYTES_MAX),
            send: SendBatch::new(),
            infos: Infos::default(),
            rng,
        };
        holding.fill(calls)?;
        Ok(holding)
    }

    /// Opens that many calls, as fast as they are answered.
    fn fill(&mut self, calls: u64) -> io::Result<()> {
        let mut out = Outbox::default();
        let clock = self.generator.clock();
        let end = clock.now() + THOUSAND_MAX.mul_f64((calls as f64 / 1000.0).max(1.0));
        while self.infos.count() < calls && clock.now() < end {
            let window = Arrivals::Window((self.infos.count() + BEGINNING) as usize);
            self.caller.set_arrivals(clock.now(), window);
            self.caller.handle_timeout(clock.now(), &mut out);
            let received = self.socket.recv(&mut self.recv, Wait::Poll)?;
            for datagram in self.recv.datagrams().take(received) {
                self.caller
                    .handle_input(clock.now(), 0, datagram.from, datagram.bytes, &mut out);
            }
            out.datagrams()
                .for_each(|(.., bytes)| self.infos.take(bytes));
            let datagrams = out.datagrams().map(|(_, to, bytes)| (to, bytes));
            self.socket.send(&mut self.send, datagrams);
            out.clear();
            self.generator.turn();
        }
        let stats = self.caller.stats();
        if self.infos.count() == calls && stats.failures() == 0 {
            return Ok(());
        }
        let open = self.infos.count();
        Err(io::Error::other(format!(
            "{open} of {calls} calls are open: {:?}",
            stats.failed
        )))
    }

    /// Sends INFO in calls drawn at random, so many at a time; returns the CPU time of each and how
    /// many were lost. The `other` program's servers go on answering its probes.
    fn inform(&mut self, other: &mut Self) -> io::Result<(f64, u64)> {
        let cpu_before = self.running.process.cpu();
        let (began, mut heard) = (Instant::now(), Instant::now());
        let (mut sent, mut answered, mut lost) = (0, 0, 0);
        while began.elapsed() < ROUND {
            if heard.elapsed() > LOST_AFTER {
                lost = sent - answered;
            }
            for _ in sent - answered - lost..WINDOW {
                let info = self.infos.draw(&mut self.rng);
                self.socket
                    .send(&mut self.send, [(self.running.address, info)]);
                sent += 1;
            }
            self.generator.turn();
            other.generator.turn();
            let received = self.socket.recv(&mut self.recv, Wait::Poll)?;
            if received > 0 {
                heard = Instant::now();
            }
            let ok = |bytes: &[u8]| bytes.starts_with(b"SIP/2.0 200");
            answered += self
                .recv
                .datagrams()
                .take(received)
                .filter(|it| ok(it.bytes))
                .count() as u64;
        }
        let cpu = self.running.process.cpu() - cpu_before;
        Ok((micros(cpu) / answered as f64, lost))
    }
}

/// An INFO for each call, made of the ACK that confirmed it.
#[derive(Default)]
struct Infos {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Infos {
    fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    fn take(&mut self, sent: &[u8]) {
        let Some(ack) = sent.strip_prefix(b"ACK ") else {
            return;
        };
        let ack = String::from_utf8_lossy(ack).replacen("CSeq: 1 ACK", "CSeq: 2 INFO", 1);
        self.bytes.extend_from_slice(b"INFO ");
        self.bytes.extend_from_slice(ack.as_bytes());
        self.ends.push(self.bytes.len());
    }

    /// The INFO of a random call, with a branch of its own.
    fn draw(&mut self, rng: &mut Rng) -> &[u8] {
        let call = rng.usize(..self.ends.len());
        let start = call.checked_sub(1).map_or(0, |before| self.ends[before]);
        let info = &mut self.bytes[start..self.ends[call]];
        const BRANCH: &[u8] = b"branch=z9hG4bK";
        if let Some(at) = info
            .windows(BRANCH.len())
            .position(|window| window == BRANCH)
        {
            info[at + BRANCH.len()..][..12].fill_with(|| rng.alphanumeric() as u8);
        }
        info
    }
}
