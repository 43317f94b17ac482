//! One thread reads. Each new transaction gets a thread of its own, which works on all its messages under the lock of
//! the one node, and ends when a final response has gone out.
//!
//! If there are [`THREADS_MAX`] of them, the reading thread works on the messages of new transactions itself.

use std::{
    collections::HashMap,
    convert::Infallible,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, Scope},
    time::Duration,
};

use node::Outbox;
use sip::{Message, Method};
use socket::udp::{self, SendBatch};

use crate::{
    station::{self, Ground, Station},
    two_stage::{HEADERS, Letter},
};

/// Threads at a time.
const THREADS_MAX: usize = 1_024;

/// Messages that may wait for a thread.
const QUEUE: usize = 16;

/// A thread needs little of it.
const STACK_BYTES: usize = 256 << 10;

/// A transaction without a message for so long is over: 64*T1.
const IDLE_MAX: Duration = Duration::from_secs(32);

/// What names a transaction in all its messages, on both sides of the node: Call-ID, CSeq and method.
type Name = u64;

/// What the threads share.
struct Hall<'a> {
    ground: &'a Ground,
    station: Mutex<Station>,
    /// Where the messages of the transactions go that have a thread.
    queues: Mutex<HashMap<Name, SyncSender<Letter>>>,
}

/// A thread's memory for what it sends.
#[derive(Default)]
struct Desk {
    out: Outbox,
    to_send: SendBatch,
}

pub(crate) fn run(ground: &Ground) -> io::Result<Infallible> {
    let hall = Hall {
        ground,
        station: Mutex::new(ground.station()?),
        queues: Mutex::default(),
    };
    thread::scope(|scope| Ok(read(&hall, scope)))
}

fn read<'scope>(hall: &'scope Hall<'_>, scope: &'scope Scope<'scope, '_>) -> Infallible {
    let mut received = station::batch();
    let mut desk = Desk::default();
    loop {
        let now = station::receive(hall.ground, &mut received);
        for datagram in received.datagrams() {
            let is_passed_on = name(datagram.bytes)
                .is_some_and(|name| pass(hall, scope, name, Letter::copy(&datagram)));
            if !is_passed_on {
                hall.hear(&datagram, &mut desk);
            }
        }
        lock(&hall.station).keep_time(now, &mut desk.out);
        station::send(&hall.ground.socket, &mut desk.to_send, &mut desk.out);
    }
}

/// Gives a message to the thread of its transaction, which may be new. False: there are too many threads.
fn pass<'scope>(
    hall: &'scope Hall<'_>,
    scope: &'scope Scope<'scope, '_>,
    name: Name,
    letter: Letter,
) -> bool {
    let mut queues = lock(&hall.queues);
    if let Some(queue) = queues.get(&name) {
        // A full queue drops it, and its sender repeats it.
        let _ = queue.try_send(letter);
        return true;
    }
    if queues.len() >= THREADS_MAX {
        return false;
    }
    let (queue, letters) = sync_channel(QUEUE);
    let thread = thread::Builder::new().stack_size(STACK_BYTES);
    let spawned = thread.spawn_scoped(scope, move || hall.serve(name, &letters));
    let is_passed_on = spawned.is_ok() && queue.try_send(letter).is_ok();
    if is_passed_on {
        queues.insert(name, queue);
    }
    is_passed_on
}

impl Hall<'_> {
    /// The life of a transaction's thread.
    fn serve(&self, name: Name, letters: &Receiver<Letter>) {
        let mut desk = Desk::default();
        let mut is_over = false;
        while !is_over {
            is_over = match letters.recv_timeout(IDLE_MAX) {
                Ok(letter) => self.hear(&letter.datagram(), &mut desk),
                Err(_) => true,
            };
        }
        // Who holds the lock sees either the queue with its reader, or no queue.
        lock(&self.queues).remove(&name);
        for letter in letters.try_iter() {
            self.hear(&letter.datagram(), &mut desk);
        }
    }

    /// Works on a message and sends what the node says; whether the transaction is over.
    fn hear(&self, datagram: &udp::Datagram<'_>, desk: &mut Desk) -> bool {
        let Desk { out, to_send } = desk;
        let now = self.ground.clock.now();
        lock(&self.station).hear(now, datagram, out);
        let mut sent = out.transmits.iter().map(|it| out.payload(it));
        let is_over = datagram.bytes.starts_with(b"ACK ") || sent.any(is_final);
        station::send(&self.ground.socket, to_send, out);
        is_over
    }
}

/// Whether a message is a final response.
fn is_final(message: &[u8]) -> bool {
    message
        .strip_prefix(b"SIP/2.0 ")
        .is_some_and(|status| matches!(status.first(), Some(b'2'..=b'6')))
}

/// An ACK is a transaction of its own: it may come after the thread of its INVITE has ended.
fn name(bytes: &[u8]) -> Option<Name> {
    let message = Message::parse(bytes, HEADERS).ok()?;
    let cseq = message.cseq().ok()?;
    let is_ack = message.method() == Some(Method::Ack);
    let mut hasher = DefaultHasher::new();
    (message.call_id().ok()?, cseq.number, is_ack).hash(&mut hasher);
    Some(hasher.finish())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(line: &str, cseq: &str) -> String {
        format!("{line}\r\nCall-ID: one\r\nCSeq: {cseq}\r\n\r\n")
    }

    #[test]
    fn a_transaction_has_one_name_on_both_sides_and_its_ack_another() {
        let name = |line, cseq| name(message(line, cseq).as_bytes()).expect("it has a name");
        let invite = name("INVITE sip:a@b SIP/2.0", "1 INVITE");
        assert_eq!(name("SIP/2.0 180 Ringing", "1 INVITE"), invite);
        assert_eq!(name("CANCEL sip:a@b SIP/2.0", "1 CANCEL"), invite);
        assert_ne!(name("ACK sip:a@b SIP/2.0", "1 ACK"), invite);
        assert_ne!(name("BYE sip:a@b SIP/2.0", "2 BYE"), invite);
    }

    #[test]
    fn a_transaction_ends_with_a_final_response() {
        for (message, is_end) in [
            ("SIP/2.0 100 Trying", false),
            ("SIP/2.0 183 Session Progress", false),
            ("SIP/2.0 200 OK", true),
            ("SIP/2.0 603 Decline", true),
            ("INVITE sip:a@b SIP/2.0", false),
        ] {
            assert_eq!(is_final(message.as_bytes()), is_end, "{message}");
        }
    }
}
