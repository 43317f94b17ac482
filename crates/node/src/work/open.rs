//! A request that waits for its answer.

use std::time::Duration;

use balance::{Cost, ServerId};
use overload::Wait;
use sip::Method;
use slots::Id;

use crate::{
    calls::session::SessionId,
    stats::MethodLabel,
    wire::{kept::KeptRequest, mark::Mark},
};

/// Names an open request of this worker.
pub(crate) type OpenId = Id<OpenRequest>;

/// Placements of one request at most, the first included.
pub(crate) const ATTEMPTS_MAX: usize = 4;

/// Open requests of one session at most. A call has a few; who fills the list is up to no good, or has a
/// server that is silent.
pub(super) const OPEN_MAX: usize = 64;

/// A request that was forwarded and has no final response yet.
#[derive(Clone, Debug)]
pub(crate) struct OpenRequest {
    /// What our branch says, without the attempt.
    pub(crate) id: u64,
    /// When it was sent to its present server.
    pub(crate) sent_at: Duration,
    /// When it was first forwarded.
    pub(crate) began_at: Duration,
    pub(crate) session: SessionId,
    /// Its neighbours among the open requests of the session.
    pub(crate) before: Option<OpenId>,
    pub(crate) next: Option<OpenId>,
    /// Its copy, so that it can be sent to another server.
    pub(crate) retained: Option<Id<KeptRequest>>,
    pub(crate) cost: Cost,
    /// The servers it was sent to, in order.
    pub(crate) tried: [ServerId; ATTEMPTS_MAX],
    pub(crate) attempt: u8,
    pub(crate) kind: Kind,
    pub(crate) label: MethodLabel,
    pub(crate) progress: Progress,
    /// The tags of the dialog that is over when it ends.
    pub(crate) ends_dialog: Option<u32>,
    /// It is counted on its server; those towards clients are not.
    pub(crate) is_charged: bool,
    /// Outside any dialog: it may go to another server.
    pub(crate) is_initial: bool,
    /// It is an INVITE that begins a call, whose outcome counts. RFC 6076
    pub(crate) begins_call: bool,
    pub(crate) holder: Holder,
    /// A CANCEL for it went out.
    pub(crate) is_cancelled: bool,
    /// It is among those that its server's service times are learned from, and has no response
    /// past 100.
    pub(crate) waits: bool,
    /// It was sent when no other waited.
    pub(crate) met_idle: bool,
    pub(crate) offer: Offer,
    /// That it waits for its first response; none: it has one, or is not counted.
    pub(crate) wait: Option<Wait>,
    /// What the next node is told of who holds it.
    pub(crate) mark: Option<Mark>,
    /// Its next node has to check who sent it, so it may go to no other.
    pub(crate) is_unchecked: bool,
}

/// Who waits for the answer of an open request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The ledger alone: the request is dropped when its time is over.
    Stateless,
    /// A transaction of the stateful proxy.
    Stateful,
}

/// Whether a request asked its server to tell how much to send it. RFC 7339 §4.1
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It did not.
    No,
    /// It did.
    Made,
    /// It did, was answered 400, and was sent anew without one.
    Withdrawn,
}

impl Offer {
    pub(crate) fn of(is_made: bool) -> Self {
        if is_made { Self::Made } else { Self::No }
    }
}

/// How a request is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Invite,
    Cancel,
    Other,
}

/// How far the answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing came back.
    Unanswered,
    /// Nothing came back in time, and there was nowhere else to send it.
    Overdue,
    /// A provisional response came.
    Provisional,
}

impl OpenRequest {
    /// The server it is open on.
    pub(crate) fn server(&self) -> ServerId {
        self.tried[usize::from(self.attempt)]
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.progress == Progress::Provisional
    }

    /// Whether it may still go to another server.
    pub(crate) fn may_move(&self) -> bool {
        self.is_initial && self.may_move_within_cluster()
    }

    /// The same, where one server is as good as another in a dialog, too.
    pub(crate) fn may_move_within_cluster(&self) -> bool {
        !self.is_unchecked && !self.is_cancelled && !self.is_answered() && self.has_attempts_left()
    }

    pub(super) fn has_attempts_left(&self) -> bool {
        usize::from(self.attempt) + 1 < ATTEMPTS_MAX
    }
}

impl Kind {
    pub(super) fn of(method: Method<'_>) -> Self {
        match method {
            Method::Invite => Self::Invite,
            Method::Cancel => Self::Cancel,
            _ => Self::Other,
        }
    }
}
