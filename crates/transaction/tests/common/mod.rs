//! Messages, a wire, and a clock that tests move.

#![allow(dead_code, reason = "each test file uses a part")]

use std::{net::SocketAddr, time::Duration};

use sip::{Message, Method};
use slots::Id;
use transaction::{Event, Flow, Key, Sender, Timing, Transaction, Transactions, Transport};

pub(crate) const MS: fn(u64) -> Duration = Duration::from_millis;
pub(crate) const TIMING: Timing = Timing::new(Duration::from_millis(500), Duration::from_secs(181));

pub(crate) fn flow(reliable: bool) -> Flow {
    let transport = if reliable {
        Transport::Tcp
    } else {
        Transport::Udp
    };
    Flow {
        transport,
        ..Flow::udp(0, SocketAddr::from(([10, 0, 0, 1], 5060)))
    }
}

/// What names the owner of a transaction.
pub(crate) type Owner = u32;

/// What was sent: the first word of each message's start line, or its status.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    pub(crate) sent: Vec<String>,
    pub(crate) last: Vec<u8>,
}

impl Sender for Wire {
    fn send(&mut self, _: Flow, bytes: &[u8]) {
        let message = Message::parse(bytes, 64).expect("what is sent is a message");
        let word = match message.method() {
            Some(method) => String::from_utf8_lossy(method.as_bytes()).into_owned(),
            None => message.status().expect("it is a response").to_string(),
        };
        self.sent.push(word);
        self.last = bytes.to_vec();
    }
}

pub(crate) fn request(method: &str, number: u64) -> Vec<u8> {
    format!(
        "{method} sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{number}\r\n\
         Via: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bKbelow\r\nMax-Forwards: 69\r\n\
         Route: <sip:next.example.com;lr>\r\nFrom: <sip:alice@example.com>;tag=1\r\n\
         To: <sip:bob@example.com>\r\nCall-ID: {number}@192.0.2.1\r\nCSeq: 7 {method}\r\n\
         Content-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

pub(crate) fn response(method: &str, status: u16) -> Vec<u8> {
    format!(
        "SIP/2.0 {status} Reason\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
         From: <sip:alice@example.com>;tag=1\r\nTo: <sip:bob@example.com>;tag=2\r\nCall-ID: 1@192.0.2.1\r\n\
         CSeq: 7 {method}\r\nContent-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

/// One transaction among its kind.
pub(crate) struct Bench {
    pub(crate) store: Transactions<Owner>,
    pub(crate) now: Duration,
    pub(crate) wire: Wire,
    pub(crate) events: Vec<Event<Owner>>,
    pub(crate) id: Id<Transaction<Owner>>,
    method: String,
}

impl Bench {
    /// With a request of this method sent.
    pub(crate) fn client(method: &str, reliable: bool) -> Self {
        let mut bench = Self::empty(method, 8);
        let key = Key::client(1, Method::from_bytes(method.as_bytes()));
        let write = |out: &mut Vec<u8>| out.extend_from_slice(&request(method, 1));
        let (now, flow) = (bench.now, flow(reliable));
        let id = bench
            .store
            .request(now, key, flow, 5, &mut bench.wire, write);
        bench.id = id.expect("there is room");
        bench
    }

    /// With a request of this method received.
    pub(crate) fn server(method: &str, reliable: bool) -> Self {
        let mut bench = Self::empty(method, 8);
        let key = Key::server(1, Method::from_bytes(method.as_bytes()));
        let id = bench.store.receive(bench.now, key, flow(reliable), 5);
        bench.id = id.expect("there is room");
        bench
    }

    fn empty(method: &str, limit: usize) -> Self {
        Self {
            store: Transactions::new(limit, 4096, TIMING, Duration::ZERO),
            now: Duration::ZERO,
            wire: Wire::default(),
            events: Vec::new(),
            id: Id::at(0),
            method: method.to_owned(),
        }
    }

    /// A response comes to the client. Whether it is passed on.
    pub(crate) fn answer(&mut self, status: u16) -> bool {
        let bytes = response(&self.method, status);
        let message = Message::parse(&bytes, 64).expect("it is a message");
        self.store
            .on_response(self.now, self.id, &message, &mut self.wire)
    }

    /// The transaction user of the server responds.
    pub(crate) fn respond(&mut self, status: u16) {
        let bytes = response(&self.method, status);
        let write = |out: &mut Vec<u8>| out.extend_from_slice(&bytes);
        self.store
            .respond(self.now, self.id, status, &mut self.wire, write);
    }

    pub(crate) fn again(&mut self, is_ack: bool) -> transaction::Seen {
        self.store
            .on_request(self.now, self.id, is_ack, &mut self.wire)
    }

    /// Lets time pass, and says when what was sent and what the transaction user was told, in
    /// milliseconds.
    pub(crate) fn run(&mut self, until: Duration) -> Vec<(u64, String)> {
        let mut log = Vec::new();
        while let Some(at) = self.store.deadline().filter(|&at| at <= until) {
            self.now = self.now.max(at);
            let sent = self.wire.sent.len();
            while let Some(event) = self.store.poll(self.now, &mut self.wire) {
                log.push((self.now.as_millis() as u64, format!("{:?}", event.notice)));
                self.events.push(event);
            }
            let messages = self.wire.sent[sent..].iter();
            log.extend(messages.map(|word| (self.now.as_millis() as u64, word.clone())));
        }
        self.now = until;
        log
    }
}

/// The log of [`Bench::run`] as a table: exact but for the wheel's 10 ms.
pub(crate) fn check(log: &[(u64, String)], expected: &[(u64, &str)]) {
    let words: Vec<&str> = log.iter().map(|(_, word)| word.as_str()).collect();
    let wanted: Vec<&str> = expected.iter().map(|&(_, word)| word).collect();
    assert_eq!(words, wanted, "{log:?}");
    for ((at, _), (due, _)) in log.iter().zip(expected) {
        // Each repetition starts where the one before was done.
        let lateness = 10 * (1 + log.len() as u64);
        assert!(
            (*due..=due + lateness).contains(at),
            "{at} for {due}: {log:?}"
        );
    }
}
