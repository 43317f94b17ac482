//! Who answers what the nodes ask.

use std::sync::Arc;

use node::{Answer, Ask, QuestionId};

use crate::seat::Team;

/// Answers the questions of nodes.
pub trait Answerer: Send + Sync {
    /// Answers at once, or later by `reply`, and never lets the caller wait.
    fn answer(&self, ask: Ask, reply: Reply) -> Option<Answer>;

    /// Whether answers often come later, and soon: then workers listen for them. Otherwise they may find
    /// them at their next tick.
    fn is_often_later(&self) -> bool;
}

/// Brings an answer to the worker that asked. One that is dropped leaves the node to its own patience.
pub struct Reply {
    pub(crate) team: Arc<Team>,
    pub(crate) worker: usize,
    pub(crate) question: QuestionId,
}

impl Reply {
    /// Brings it, from any thread.
    pub fn send(self, answer: Answer) {
        self.team.seats[self.worker]
            .mailbox
            .answer(self.question, answer);
    }
}
