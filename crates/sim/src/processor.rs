//! The cost of messages at a node: one processor with a limited queue.

use std::time::Duration;

use load::{Discipline, Processor};
use node::Flow;
use sip::{Message, Method};

use crate::HEADERS_MAX;

/// The capacity of a node's processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// The most calls or registrations per second that it carries.
    pub per_s: f64,
    /// Messages of each of them; all cost the same.
    pub messages: f64,
    /// The most messages that may wait. A message that finds the queue full is lost, as in a
    /// socket's buffer.
    pub waiting_max: usize,
    /// A request that starts something new is lost when this many messages wait.
    pub waiting_max_of_new: usize,
}

/// Messages that wait for a node's processor, which takes them one after another.
#[derive(Debug)]
pub(crate) struct Queue {
    capacity: Capacity,
    processor: Processor<Waiting>,
    spare: Vec<Vec<u8>>,
    lost: u64,
}

/// A datagram that came to a listener.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) flow: Flow,
    pub(crate) bytes: Vec<u8>,
}

impl Capacity {
    /// The processing time of a message.
    #[must_use]
    pub fn message_time(&self) -> Duration {
        Duration::from_secs_f64(1.0 / (self.per_s * self.messages))
    }
}

impl Queue {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            processor: Processor::new(Discipline::Fifo),
            spare: Vec::new(),
            lost: 0,
        }
    }

    /// Whether there was room for a datagram.
    pub(crate) fn take_in(&mut self, now: Duration, flow: Flow, bytes: &[u8]) -> bool {
        let waiting = self.processor.jobs();
        let Capacity {
            waiting_max,
            waiting_max_of_new,
            ..
        } = self.capacity;
        if waiting > waiting_max || (waiting > waiting_max_of_new && begins_something(bytes)) {
            self.lost += 1;
            return false;
        }
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.extend_from_slice(bytes);
        let what = Waiting { flow, bytes: kept };
        let work = self.capacity.message_time();
        self.processor.begin(now, work, what);
        true
    }

    /// The next datagram that the processor is done with by `now`; [`Self::recycle`] wants it back.
    pub(crate) fn pop(&mut self, now: Duration) -> Option<Waiting> {
        self.processor.pop(now).map(|(_, waiting)| waiting)
    }

    /// Uses the memory of a datagram again.
    pub(crate) fn recycle(&mut self, mut waiting: Waiting) {
        waiting.bytes.clear();
        self.spare.push(waiting.bytes);
    }

    /// When the processor is done with the next one; `Duration::MAX`: nothing waits.
    pub(crate) fn deadline(&self) -> Duration {
        self.processor.deadline().unwrap_or(Duration::MAX)
    }

    /// The time that the processor has worked, up to the last of its events.
    pub(crate) fn busy(&self) -> Duration {
        self.processor.busy()
    }

    /// Datagrams that found no room.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}

/// Whether it is a request outside a dialog that asks for an answer.
fn begins_something(bytes: &[u8]) -> bool {
    let Ok(message) = Message::parse(bytes, HEADERS_MAX) else {
        return false;
    };
    let method = message.method();
    let belongs_to_another = matches!(method, None | Some(Method::Ack | Method::Cancel));
    !belongs_to_another && matches!(message.to_tag(), Ok(None))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INVITE: &[u8] = b"INVITE sip:bob@example.com SIP/2.0\r\n\
        Via: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bK1\r\nFrom: <sip:a@example.com>;tag=1\r\n\
        To: <sip:bob@example.com>\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n";
    const ACK: &[u8] = b"ACK sip:bob@10.0.0.2 SIP/2.0\r\n\
        Via: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bK2\r\nFrom: <sip:a@example.com>;tag=1\r\n\
        To: <sip:bob@example.com>;tag=2\r\nCall-ID: 1\r\nCSeq: 1 ACK\r\nContent-Length: 0\r\n\r\n";

    #[test]
    fn a_full_queue_loses_what_comes_and_what_is_new_first() {
        let mut queue = Queue::new(Capacity {
            per_s: 100.0,
            messages: 5.0,
            waiting_max: 3,
            waiting_max_of_new: 1,
        });
        let flow = Flow::udp(0, ([10, 0, 0, 1], 5060).into());
        let ms = Duration::from_millis;
        let mut comes = |at, bytes| queue.take_in(ms(at), flow, bytes);
        // The first is worked on, the others wait.
        assert_eq!(
            [INVITE; 3].map(|invite| comes(0, invite)),
            [true, true, false]
        );
        assert_eq!([ACK; 3].map(|ack| comes(0, ack)), [true, true, false]);
        assert_eq!(queue.lost(), 2);
        for done in 1..=4 {
            assert_eq!(queue.deadline(), ms(2 * done));
            assert!(queue.pop(ms(2 * done - 1)).is_none());
            let waiting = queue.pop(ms(2 * done)).unwrap();
            assert_eq!(waiting.bytes, if done < 3 { INVITE } else { ACK });
            queue.recycle(waiting);
        }
        assert_eq!((queue.deadline(), queue.busy()), (Duration::MAX, ms(8)));
    }
}
