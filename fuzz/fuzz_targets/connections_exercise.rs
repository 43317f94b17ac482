//! What a table of connections must withstand. Run by the fuzz target and by the tests.

use std::{collections::HashMap, net::SocketAddr, time::Duration};

use sip::{Frame, FrameLimits, Framer};
use stream::{Connections, Event, Layer, Limits, Said, Why};
use transaction::{ConnectionId, Flow, NextHop, Transport};

const LIMITS: Limits = Limits {
    total: 6,
    per_source: 3,
    connecting: 2,
    handshaking: 2,
    handshake: Duration::from_secs(2),
    idle: Duration::from_secs(20),
    message: Duration::from_secs(3),
    stall: Duration::from_secs(4),
    linger: Duration::from_secs(1),
    queue_bytes: 40_000,
    total_bytes: 100_000,
    frame: FrameLimits {
        head_bytes: 512,
        message_bytes: 20_000,
    },
};

/// A layer whose peer says hello, and to whom hello is said; then bytes are messages.
#[derive(Debug, Default)]
pub struct Hello {
    is_said: bool,
    is_heard: bool,
    awaits_remote: bool,
}

impl Layer for Hello {
    fn receive(&mut self, bytes: &[u8], heard: &mut impl FnMut(Said<'_>)) -> Result<(), Why> {
        let mut rest = bytes;
        if let ([b'R', host, behind @ ..], true) = (rest, self.awaits_remote) {
            heard(Said::Remote(([192, 0, 2, host % 3], 1).into()));
            (rest, self.awaits_remote) = (behind, false);
        }
        match (rest, self.is_heard) {
            ([], _) => return Ok(()),
            ([b'H', behind @ ..], false) => (rest, self.is_heard) = (behind, true),
            ([..], false) => return Err(Why::Tls),
            ([b'W', behind @ ..], true) => {
                heard(Said::Alive);
                heard(Said::Message(behind));
                rest = &[];
            }
            ([..], true) => {}
        }
        heard(Said::Bytes(rest));
        Ok(())
    }

    fn send(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<(), Why> {
        assert!(self.is_open());
        wire.extend_from_slice(message);
        Ok(())
    }

    fn write_own(&mut self, wire: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.is_said, true) {
            wire.extend_from_slice(b"\n");
        }
    }

    fn is_open(&self) -> bool {
        self.is_heard && self.is_said
    }

    fn close(&mut self, wire: &mut Vec<u8>) {
        wire.extend_from_slice(b"\n\n");
    }

    fn awaits_remote(&self) -> bool {
        self.awaits_remote
    }
}

/// What is known of a connection from outside.
#[derive(Default)]
struct Side {
    /// The numbers of the messages that are queued.
    queued: Vec<u32>,
    /// All that was written.
    wire: Vec<u8>,
    is_gone: bool,
}

struct World {
    connections: Connections<Hello>,
    now: Duration,
    sides: HashMap<ConnectionId, Side>,
    ids: Vec<ConnectionId>,
    messages: u32,
    /// What was told last of each peer.
    backed_up: HashMap<(Transport, u8, SocketAddr), bool>,
}

/// Plays a game that the bytes choose, and checks all counts at each step.
pub fn connections(bytes: &[u8]) {
    let mut world = World {
        connections: Connections::new(3, 5, LIMITS, Duration::ZERO),
        now: Duration::ZERO,
        sides: HashMap::new(),
        ids: Vec::new(),
        messages: 0,
        backed_up: HashMap::new(),
    };
    for chunk in bytes.chunks(3) {
        let &[op, which, amount] = chunk else {
            break;
        };
        world.play(op, which, amount);
        world.read_events();
        world.connections.recount();
    }
    world.end();
}

impl World {
    fn play(&mut self, op: u8, which: u8, amount: u8) {
        let (now, id) = (self.now, self.id(which));
        let connections = &mut self.connections;
        match op % 12 {
            0 | 1 => {
                let layer = Hello {
                    awaits_remote: amount.is_multiple_of(5),
                    ..Hello::default()
                };
                let (flow, is_ours) = (flow(amount), op.is_multiple_of(12));
                let id = match is_ours {
                    true => connections.open(now, flow, layer),
                    false if amount.is_multiple_of(7) => connections.accept_known(now, flow, layer),
                    false => connections.accept(now, flow, layer),
                };
                if let Ok(id) = id {
                    assert_eq!(id.worker(), 3);
                    self.ids.push(id);
                    let side = self.sides.insert(id, Side::default());
                    assert!(side.is_none(), "a number is not used again");
                }
            }
            2 => connections.connected(now, id),
            3 => self.hear(id, b"H"),
            4 => self.hear(id, TEXTS[usize::from(amount) % TEXTS.len()]),
            5 => self.hear(id, &[b'R', amount, b'H']),
            6 | 7 => self.send(id, usize::from(amount) * 40),
            8 if amount < 99 => self.write(id, usize::from(amount) * 97),
            8 => {
                let all = connections.to_write(id).len();
                self.write(id, all.saturating_sub(usize::from(amount) % 4));
            }
            9 => connections.close(now, id),
            10 => connections.closed(now, id, Why::Peer),
            _ => {
                self.now += Duration::from_millis(u64::from(amount) * 20);
                connections.handle_timeout(self.now);
            }
        }
    }

    fn id(&self, which: u8) -> ConnectionId {
        let never = ConnectionId::new(1, 1).expect("it is not 0");
        let last = self.ids.len().saturating_sub(8);
        let ids = &self.ids[last..];
        let at = usize::from(which) % ids.len().max(1);
        ids.get(at).copied().unwrap_or(never)
    }

    fn hear(&mut self, id: ConnectionId, bytes: &[u8]) {
        self.connections
            .receive(self.now, id, bytes, &mut |flow, heard| {
                assert_eq!(flow.connection, Some(id));
                assert!(heard.fault.is_some() || !heard.bytes.is_empty());
            });
    }

    fn send(&mut self, id: ConnectionId, padding: usize) {
        self.messages += 1;
        let message = format!(
            "SIP/2.0 200 OK\r\nl: {}\r\nn: {}\r\n\r\n{}",
            padding,
            self.messages,
            "x".repeat(padding)
        );
        if self
            .connections
            .send(self.now, id, message.as_bytes())
            .is_ok()
        {
            let side = self.sides.get_mut(&id).expect("it was there");
            side.queued.push(self.messages);
        }
    }

    fn write(&mut self, id: ConnectionId, most: usize) {
        let bytes = self.connections.to_write(id);
        let bytes = bytes[..bytes.len().min(most)].to_vec();
        if let Some(side) = self.sides.get_mut(&id) {
            side.wire.extend_from_slice(&bytes);
        }
        self.connections.wrote(self.now, id, bytes.len());
        self.connections.back_up(self.now, id);
    }

    /// The peer has read a message if and only if it is not told as unsent.
    fn read_events(&mut self) {
        let mut unsent: HashMap<ConnectionId, Vec<u32>> = HashMap::new();
        let mut closed = Vec::new();
        while let Some(event) = self.connections.next_event() {
            match event {
                Event::Writable(id) | Event::Opened(id) => assert!(self.sides.contains_key(&id)),
                Event::Backlog { flow, is_backed_up } => {
                    let peer = (flow.transport, flow.listener, flow.remote);
                    self.backed_up.insert(peer, is_backed_up);
                }
                Event::Close(gone) => closed.push(gone.id),
                Event::Unsent { flow, message } => {
                    let id = flow.connection.expect("it had one");
                    unsent.entry(id).or_default().push(number(&message));
                }
            }
        }
        for id in closed {
            let side = self.sides.get_mut(&id).expect("it was there");
            assert!(!std::mem::replace(&mut side.is_gone, true));
            let mut told = numbers(&side.wire);
            told.extend(unsent.remove(&id).unwrap_or_default());
            assert_eq!(told, side.queued);
            assert_eq!(self.connections.flow(id), None);
        }
        assert!(unsent.is_empty(), "only what is gone has not sent");
    }

    /// Each connection ends by itself.
    fn end(mut self) {
        while let Some(deadline) = self.connections.deadline() {
            self.now = self.now.max(deadline + Duration::from_millis(10));
            self.connections.handle_timeout(self.now);
            self.read_events();
            self.connections.recount();
            assert!(self.now < Duration::from_secs(3_600));
        }
        assert!(self.connections.is_empty());
        assert_eq!(self.connections.held_bytes(), 0);
        assert!(self.sides.values().all(|side| side.is_gone));
        assert!(!self.backed_up.values().any(|&is_backed_up| is_backed_up));
    }
}

/// What a peer may say.
const TEXTS: [&[u8]; 8] = [
    b"\r\n\r\n",
    b"SIP/2.0 200 OK\r\nl: 0\r\n\r\n",
    b"SIP/2.0 200 OK\r\nl: 10\r\n\r\nabc",
    b"0123456789SIP/2.0 200 OK\r\nl: 1\r\n\r\n1SIP",
    b"/2.0 200 OK\r\n",
    b"SIP/2.0 200 OK\r\n\r\n",
    b"W-",
    b"\0",
];

fn flow(amount: u8) -> Flow {
    let transport = [Transport::Tcp, Transport::Tls][usize::from(amount) % 2];
    let address = ([192, 0, 2, amount % 3], u16::from(amount % 4)).into();
    Flow::to(amount / 100, NextHop { transport, address })
}

/// The numbers of the messages that are whole in what was written.
fn numbers(mut wire: &[u8]) -> Vec<u32> {
    let mut framer = Framer::new(LIMITS.frame);
    let mut numbers = Vec::new();
    loop {
        match framer.next(wire) {
            Frame::Message(message) => {
                numbers.push(number(message));
                wire = &wire[message.len()..];
            }
            Frame::LineEnds { bytes, .. } => wire = &wire[bytes..],
            Frame::Partial { .. } => return numbers,
            Frame::Fault { .. } => panic!("what is written are messages"),
        }
    }
}

fn number(message: &[u8]) -> u32 {
    let text = String::from_utf8_lossy(message);
    let line = text.lines().find_map(|line| line.strip_prefix("n: "));
    line.and_then(|number| number.parse().ok())
        .expect("each has one")
}
