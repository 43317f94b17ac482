//! How much a server can take, as its answers tell.

use overload::Limit;
use sip::Method;

/// The room at one server, in whatever pool, shared by all workers. Calls and other requests that begin something have
/// limits of their own: their times have nothing in common, and a flood of one does not take the other's room.
#[derive(Debug, Default)]
pub(crate) struct Room {
    pub(crate) calls: Limit,
    pub(crate) others: Limit,
}

impl Room {
    pub(crate) fn of(&self, method: Method<'_>) -> &Limit {
        match method {
            Method::Invite => &self.calls,
            _ => &self.others,
        }
    }

    /// Requests that begin something and wait for their first response.
    pub(crate) fn waiting(&self) -> u32 {
        self.calls.waiting() + self.others.waiting()
    }
}
