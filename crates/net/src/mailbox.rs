//! The mailbox in which other threads leave work for a worker.

use std::{fmt, io, time::Duration};

use crossbeam_queue::{ArrayQueue, SegQueue};
use node::{Answer, Flow, Handover, Node, Outbox, QuestionId};
use socket::Waker;

/// The most commands that wait for a worker.
const COMMANDS_MAX: usize = 64;

/// A command that the worker's own thread carries out between two batches.
pub type Command = Box<dyn FnOnce(&mut Node, Duration, &mut Outbox) + Send>;

/// Too many commands are waiting for the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{COMMANDS_MAX} commands are waiting for the worker: try again later"
        )
    }
}

impl std::error::Error for Busy {}

/// Separate queues, so that a flood of messages does not keep the operator out. The node limits its
/// questions, so the answers are limited too.
pub(crate) struct Mailbox {
    /// Each with the moment at which it came to the socket.
    handovers: ArrayQueue<(Duration, Handover)>,
    answers: SegQueue<(QuestionId, Answer)>,
    /// Messages for connections that the owner holds.
    messages: ArrayQueue<(Flow, Box<[u8]>)>,
    commands: ArrayQueue<Command>,
    /// None: the owner can't be woken, and checks the mailbox at every tick.
    waker: Option<Waker>,
}

impl Mailbox {
    pub(crate) fn new(handovers_max: usize, wakes: bool) -> io::Result<Self> {
        Ok(Self {
            handovers: ArrayQueue::new(handovers_max.max(1)),
            answers: SegQueue::new(),
            messages: ArrayQueue::new(handovers_max.max(1)),
            commands: ArrayQueue::new(COMMANDS_MAX),
            waker: if wakes { Some(Waker::new()?) } else { None },
        })
    }

    /// Leaves a message that came then, unless the queue is full.
    pub(crate) fn hand_over(&self, came: Duration, handover: Handover) -> bool {
        let fits = self.handovers.push((came, handover)).is_ok();
        self.wake();
        fits
    }

    /// Whether at least half as many messages wait for the worker as there may be.
    pub(crate) fn is_half_full(&self) -> bool {
        2 * self.handovers.len() >= self.handovers.capacity()
    }

    /// Leaves a message for a connection, unless the queue is full.
    pub(crate) fn send(&self, flow: Flow, message: &[u8]) -> bool {
        let fits = self.messages.push((flow, message.into())).is_ok();
        self.wake();
        fits
    }

    pub(crate) fn answer(&self, question: QuestionId, answer: Answer) {
        self.answers.push((question, answer));
        self.wake();
    }

    pub(crate) fn command(&self, command: Command) -> Result<(), Busy> {
        self.commands.push(command).map_err(|_| Busy)?;
        self.wake();
        Ok(())
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }

    pub(crate) fn waker(&self) -> Option<&Waker> {
        self.waker.as_ref()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.handovers.is_empty()
            && self.answers.is_empty()
            && self.messages.is_empty()
            && self.commands.is_empty()
    }

    pub(crate) fn next_handover(&self) -> Option<(Duration, Handover)> {
        self.handovers.pop()
    }

    pub(crate) fn next_answer(&self) -> Option<(QuestionId, Answer)> {
        self.answers.pop()
    }

    pub(crate) fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    pub(crate) fn next_message(&self) -> Option<(Flow, Box<[u8]>)> {
        self.messages.pop()
    }

    pub(crate) fn next_command(&self) -> Option<Command> {
        self.commands.pop()
    }
}
