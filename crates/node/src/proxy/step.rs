//! What one step of the proxy works with.

use super::dynamic::Dynamic;
use crate::{context::Context, io::Outbox, work::Work};

/// What became of a request that nobody was there to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// It went elsewhere, or waits for its next sending.
    Settled,
    /// It stood on a connection, so nobody will send it again, and there is no elsewhere.
    Stuck,
}

/// The moment, the open work, and what is to be sent.
pub(super) struct Step<'a> {
    pub(super) cx: Context<'a>,
    pub(super) work: &'a mut Work,
    pub(super) dynamic: &'a mut Dynamic,
    pub(super) out: &'a mut Outbox,
}
