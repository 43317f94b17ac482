//! What one step of the proxy works with.

use crate::{context::Context, io::Outbox, work::Work};

/// The moment, the open work, and what is to be sent.
pub(super) struct Step<'a> {
    pub(super) cx: Context<'a>,
    pub(super) work: &'a mut Work,
    pub(super) out: &'a mut Outbox,
}
