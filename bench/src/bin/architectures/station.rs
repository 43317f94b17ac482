//! A node with what every driver of one needs.

use std::{io, sync::Arc, time::Duration};

use node::{Config, Datagram, Flow, Input, Node, Outbox, Question, Shared};
use socket::{
    Clock, seed,
    udp::{self, BATCH, Options, RecvBatch, SendBatch, Socket, Wait},
    wall,
};

use crate::{config::MESSAGE_BYTES, locations::Locations};

/// The interval of a node's timers.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// As large as those of the workers.
const RECV_BUFFER_BYTES: usize = 4 << 20;
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// What all threads of an architecture stand on.
pub(crate) struct Ground {
    pub(crate) socket: Socket,
    pub(crate) clock: Clock,
    config: Config,
    locations: Locations,
}

impl Ground {
    pub(crate) fn new(config: Config, locations: Locations) -> io::Result<Self> {
        let options = Options {
            recv_buffer: Some(RECV_BUFFER_BYTES),
            send_buffer: Some(SEND_BUFFER_BYTES),
            ..Options::default()
        };
        let socket = Socket::bind(config.listeners[0].address, options)?;
        socket.set_recv_timeout(Some(TICK))?;
        Ok(Self {
            socket,
            clock: Clock::start(),
            config,
            locations,
        })
    }

    /// A node with a ledger of its own. All share the location service.
    pub(crate) fn station(&self) -> io::Result<Station> {
        let shared = Shared::new(self.config.clone(), 1).map_err(io::Error::other)?;
        let now = self.clock.now();
        shared.set_wall(now, wall());
        Ok(Station {
            node: Node::new(Arc::new(shared), 0, seed(), now),
            locations: self.locations.clone(),
            tick: now,
        })
    }
}

/// A node that works on one message after another.
pub(crate) struct Station {
    node: Node,
    locations: Locations,
    /// The next time of the node's timers.
    tick: Duration,
}

impl Station {
    pub(crate) fn hear(&mut self, now: Duration, heard: &udp::Datagram<'_>, out: &mut Outbox) {
        let datagram = Datagram {
            flow: Flow::udp(0, heard.from),
            bytes: heard.bytes,
            truncated: heard.truncated,
        };
        self.node.handle_input(now, Input::Datagram(datagram), out);
        while let Some(Question { id, ask }) = out.questions.pop() {
            let answer = self.locations.answer(ask);
            let question = id;
            self.node
                .handle_input(now, Input::Answer { question, answer }, out);
        }
    }

    /// Does what the node's timers want, once in a tick.
    pub(crate) fn keep_time(&mut self, now: Duration, out: &mut Outbox) {
        if self.tick <= now {
            self.node.handle_timeout(now, out);
            self.tick = now + TICK;
        }
    }
}

/// A thread's memory for what it receives.
pub(crate) fn batch() -> RecvBatch {
    RecvBatch::new(BATCH, MESSAGE_BYTES)
}

/// Waits for datagrams, for a tick at most.
pub(crate) fn receive(ground: &Ground, received: &mut RecvBatch) -> Duration {
    let Ground { socket, clock, .. } = ground;
    if socket.recv(received, Wait::Block).is_err() {
        // ICMP's word on a generator that has ended.
        socket.unreachable(|_, _| ());
    }
    clock.now()
}

/// Sends all, and clears it.
pub(crate) fn send(socket: &Socket, to_send: &mut SendBatch, out: &mut Outbox) {
    let transmits = out.transmits.iter();
    let items = transmits.map(|it| (it.flow.remote, out.payload(it)));
    if socket.send(to_send, items).error {
        socket.unreachable(|_, _| ());
    }
    out.clear();
}
