//! What one step of the proxy works with.

use balance::Health;

use super::dynamic::Dynamic;
use crate::{
    context::Context,
    io::Outbox,
    wire::request::Request,
    work::{Course, Work},
};

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

impl Step<'_> {
    /// Whether it is left to the node behind to check who sent a new request. Not to one that has fallen.
    pub(super) fn leaves_unchecked(
        &self,
        request: &Request<'_>,
        course: &Course,
        has_room: bool,
    ) -> bool {
        let cx = self.cx;
        let member = course.server.and_then(|server| cx.snapshot.member(server));
        let has_fallen = member.is_some_and(|member| member.server.health() == Health::Down);
        !has_fallen && (self.dynamic).leaves_unchecked(cx, request, course, has_room)
    }
}
