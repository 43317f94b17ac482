//! What goes into a node and what comes out of it.

use std::{ops::Range, time::Duration};

use balance::ServerId;
use transaction::{Flow, Sender};

use crate::{
    question::{Answer, Question, QuestionId},
    tap::Tap,
};

/// One thing that happened to a worker's node.
#[derive(Debug)]
pub enum Input<'a> {
    /// A datagram came in.
    Datagram(Datagram<'a>),
    /// Another worker received it, but its call lives here.
    Handover(Handover),
    /// The network says that nobody listens where we sent something.
    Unreachable(Quotation<'a>),
    /// A question that this worker asked has its answer.
    Answer {
        /// [`Question::id`].
        question: QuestionId,
        /// The answer.
        answer: Answer,
    },
}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The listener that was hit, and the sender.
    pub flow: Flow,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// It was longer than the limit on message size; `bytes` holds its beginning.
    pub truncated: bool,
}

/// An ICMP error: nobody listens at the other end of a flow. Anybody can forge one, so the node
/// believes what quotes a request of its own.
#[derive(Clone, Copy, Debug)]
pub struct Quotation<'a> {
    /// The listener, and where it sent to.
    pub flow: Flow,
    /// The beginning of the datagram that did not arrive; may be empty.
    pub bytes: &'a [u8],
}

/// A datagram or a quotation on its way to the worker that owns its call.
#[derive(Debug)]
pub struct Handover {
    /// The worker it goes to.
    pub worker: usize,
    /// The listener that was hit, and the sender.
    pub flow: Flow,
    /// Its bytes.
    pub bytes: Box<[u8]>,
    /// What it is; none: a quotation.
    pub named: Option<Named>,
}

/// Where the dialog is that a request names by Replaces, Join or Target-Dialog. RFC 3891, 3911, 4538
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The worker that owns the dialog has not been asked.
    Unasked,
    /// There is no such dialog.
    Nowhere,
    /// At this server.
    At(ServerId),
}

/// How a datagram came to this worker.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// From the network.
    Socket,
    /// From another worker.
    Worker(Named),
}

/// A datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The listener to send from, and where to.
    pub flow: Flow,
    /// Where its bytes lie in [`Outbox::bytes`].
    pub range: Range<usize>,
}

/// Memory that an outbox keeps for its next batch.
const IDLE_BYTES_MAX: usize = 4 << 20;

/// What a worker has done since it told last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// How long it was busy by the clock.
    pub busy: Duration,
    /// The processor time that it used.
    pub ran: Duration,
    /// Of the time by the clock, that for strangers' connections.
    pub for_strangers: Duration,
    /// Of the processor time, what it used for work that waits as long as there is other work.
    pub while_idle: Duration,
}

/// Everything that a node wants done. The driver drains it after each batch of inputs.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Datagrams to send, in order.
    pub transmits: Vec<Transmit>,
    /// Datagrams for other workers.
    pub handovers: Vec<Handover>,
    /// Questions to the store and the DNS.
    pub questions: Vec<Question>,
    /// The bytes of all transmits.
    pub bytes: Vec<u8>,
    /// Records what passes, if the driver wants to know. [`Self::clear`] leaves it alone.
    pub tap: Option<Tap>,
}

impl Outbox {
    /// Forgets all, keeps the memory that a usual batch takes.
    pub fn clear(&mut self) {
        self.transmits.clear();
        self.handovers.clear();
        self.questions.clear();
        self.bytes.clear();
        self.bytes.shrink_to(IDLE_BYTES_MAX);
    }

    /// The bytes of one transmit.
    #[must_use]
    pub fn payload(&self, transmit: &Transmit) -> &[u8] {
        &self.bytes[transmit.range.clone()]
    }

    /// Queues what `write` appends, unless it appends nothing.
    pub fn send(&mut self, flow: Flow, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let range = start..self.bytes.len();
        if !range.is_empty() {
            self.transmits.push(Transmit { flow, range });
        }
    }
}

impl Sender for Outbox {
    fn send(&mut self, flow: Flow, bytes: &[u8]) {
        Self::send(self, flow, |out| out.extend_from_slice(bytes));
    }
}
