//! What one step of the proxy works with.

use super::dynamic::Dynamic;
use crate::{context::Context, io::Outbox, work::Work};

/// The moment, the open work, and what is to be sent.
pub(super) struct Step<'a> {
    pub(super) cx: Context<'a>,
    pub(super) work: &'a mut Work,
    pub(super) dynamic: &'a mut Dynamic,
    pub(super) out: &'a mut Outbox,
}
