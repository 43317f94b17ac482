//! One thread reads all, and passes each message to the worker that the hash of its Call-ID names. Each worker has a
//! node of its own, so only the queues and the location service are shared.

use std::{
    convert::Infallible,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    net::SocketAddr,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use node::Outbox;
use sip::Message;
use socket::udp::{self, BATCH, SendBatch};

use crate::station::{self, Ground, Station, TICK};

/// Messages that may wait for a worker. More are dropped, as a socket's full buffer drops them.
const QUEUE: usize = 4_096;

/// Headers that are read on the way to the Call-ID.
pub(crate) const HEADERS: usize = 128;

/// A datagram on its way to another thread.
pub(crate) struct Letter {
    from: SocketAddr,
    bytes: Box<[u8]>,
    truncated: bool,
}

impl Letter {
    pub(crate) fn copy(of: &udp::Datagram<'_>) -> Self {
        Self {
            from: of.from,
            bytes: of.bytes.into(),
            truncated: of.truncated,
        }
    }

    pub(crate) fn datagram(&self) -> udp::Datagram<'_> {
        udp::Datagram {
            from: self.from,
            bytes: &self.bytes,
            truncated: self.truncated,
        }
    }
}

pub(crate) fn run(ground: &Ground, workers: usize) -> io::Result<Infallible> {
    thread::scope(|scope| {
        let mut queues = Vec::new();
        for _ in 0..workers {
            let (queue, letters) = sync_channel(QUEUE);
            let station = ground.station()?;
            queues.push(queue);
            scope.spawn(move || work(ground, station, &letters));
        }
        Ok(read(ground, &queues))
    })
}

fn read(ground: &Ground, queues: &[SyncSender<Letter>]) -> Infallible {
    let mut received = station::batch();
    loop {
        station::receive(ground, &mut received);
        for datagram in received.datagrams() {
            let queue = &queues[place(datagram.bytes, queues.len())];
            // A full queue drops it, and its sender repeats it.
            let _ = queue.try_send(Letter::copy(&datagram));
        }
    }
}

/// The worker of a message's call.
fn place(bytes: &[u8], workers: usize) -> usize {
    let message = Message::parse(bytes, HEADERS);
    let call_id = message.as_ref().ok().and_then(|it| it.call_id().ok());
    let mut hasher = DefaultHasher::new();
    call_id.unwrap_or_default().hash(&mut hasher);
    (hasher.finish() % workers as u64) as usize
}

fn work(ground: &Ground, mut station: Station, letters: &Receiver<Letter>) {
    let mut to_send = SendBatch::new();
    let mut out = Outbox::default();
    loop {
        let first = letters.recv_timeout(TICK);
        let now = ground.clock.now();
        let others = letters.try_iter().take(BATCH - 1);
        for letter in first.into_iter().chain(others) {
            station.hear(now, &letter.datagram(), &mut out);
        }
        station.keep_time(now, &mut out);
        station::send(&ground.socket, &mut to_send, &mut out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invite(call_id: &str) -> String {
        format!("INVITE sip:user@example.com SIP/2.0\r\nCall-ID: {call_id}\r\n\r\n")
    }

    #[test]
    fn messages_of_a_call_have_one_worker_and_calls_have_all() {
        let of = |call_id: &str| place(invite(call_id).as_bytes(), 4);
        let answer = b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\ni: one\r\n\r\n";
        assert_eq!(place(answer, 4), of("one"));
        let used: std::collections::BTreeSet<_> =
            (0..64).map(|number| of(&number.to_string())).collect();
        assert_eq!(used.len(), 4);
    }
}
