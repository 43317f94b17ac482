//! What the connections of all workers have in common.

use super::{aliases::Aliases, closings::Closings};

/// What is told of connections that are gone, and which of them other workers may send on.
#[derive(Debug, Default)]
pub(crate) struct Common {
    pub(crate) closings: Closings,
    pub(crate) aliases: Aliases,
}
