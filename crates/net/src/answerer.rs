//! Answers the questions of nodes.

use std::sync::Arc;

use node::{Answer, Ask, QuestionId};

use crate::seat::Team;

/// Answers the questions of nodes.
pub trait Answerer: Send + Sync {
    /// Answers at once, or later through `reply`. It never blocks the caller.
    fn answer(&self, ask: Ask, reply: Reply) -> Option<Answer>;

    /// Whether answers often come later but soon. Workers then wake up for them; otherwise they may
    /// find them at their next tick.
    fn is_often_later(&self) -> bool;
}

/// Brings an answer to the worker that asked. If it is dropped, the node's own timeout applies.
pub struct Reply {
    pub(crate) team: Arc<Team>,
    pub(crate) worker: usize,
    pub(crate) question: QuestionId,
}

impl Reply {
    /// Delivers the answer, from any thread.
    pub fn send(self, answer: Answer) {
        self.team.seats[self.worker]
            .mailbox
            .answer(self.question, answer);
    }
}
