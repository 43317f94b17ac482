//! What the node knows of one call.

use std::time::Duration;

use balance::ServerId;
use slots::Id;

use super::dialogs::Dialog;
use crate::{
    wire::{keys::SessionKey, token::PackedClient},
    work::open::OpenRequest,
};

/// Names a session of this worker.
pub(crate) type SessionId = Id<Session>;

/// The attempt of a session that has moved to the server of a dialog: where its initial request
/// failed is no longer known.
const ELSEWHERE: u8 = u8::MAX;

/// What the node knows of one call. Kept small: there may be a million.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) key: SessionKey,
    /// The first of its open requests.
    pub(crate) requests: Option<Id<OpenRequest>>,
    /// The first of its dialogs.
    pub(super) dialogs: Option<Id<Dialog>>,
    /// Its neighbours in the queue of expired sessions.
    pub(super) older: Option<SessionId>,
    pub(super) newer: Option<SessionId>,
    /// Hash of the tag of whoever started it.
    pub(crate) starter_tag: u32,
    /// Low bits of the identity of its initial request's transaction.
    initial: u32,
    /// The next CSeq to come, by [`Direction`](crate::wire::token::Direction); a request below it is a retransmission.
    pub(crate) cseq_next: [u32; 2],
    pub(super) opened_ms: u32,
    /// When it expired, or when it was last known alive.
    pub(super) seen_ms: u32,
    /// The [`tag_pair`](super::tag_pair) of the dialog that ended last: its 2xx may come once more.
    pub(super) ended: u32,
    /// Seconds of silence after which its dialog is over. RFC 4028; 0: not said.
    pub(crate) interval_s: u32,
    pub(crate) server: ServerId,
    /// Its other end, where its client was when a server last answered it.
    pub(crate) client: PackedClient,
    /// How often the initial request was placed again, or [`ELSEWHERE`].
    attempt: u8,
    /// Unanswered re-checks.
    pub(crate) checks: u8,
    pub(crate) life: Life,
    pub(crate) reason: Reason,
    /// It is counted as an open call of its server.
    pub(crate) is_call: bool,
    /// The server started it.
    pub(crate) from_server: bool,
}

/// Whether a session is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Active,
    Expired,
}

/// Why a session is on its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The pool's policy chose it.
    Placed,
    /// The server chosen first did not answer; the policy chose again.
    FailedOver,
    /// An affinity token named it.
    Token,
    /// Its request named a dialog that is there (Replaces, Join, Target-Dialog).
    NamedDialog,
    /// It answered a request that this node had not placed.
    Answered,
    /// The server itself started the call.
    Originated,
}

impl Session {
    pub(super) fn new(now: Duration, key: SessionKey, server: ServerId, reason: Reason) -> Self {
        Self {
            key,
            requests: None,
            dialogs: None,
            older: None,
            newer: None,
            starter_tag: 0,
            initial: 0,
            cseq_next: [0; 2],
            opened_ms: millis(now),
            seen_ms: millis(now),
            ended: 0,
            interval_s: 0,
            server,
            client: PackedClient::NONE,
            attempt: 0,
            checks: 0,
            life: Life::Active,
            reason,
            is_call: false,
            from_server: false,
        }
    }

    /// How often the request with this identity was placed again; none: its call has moved on.
    pub(crate) fn attempt(&self, id: u64) -> Option<u8> {
        if self.initial == id as u32 {
            (self.attempt != ELSEWHERE).then_some(self.attempt)
        } else {
            Some(0)
        }
    }

    /// How often its initial request was placed again, at least.
    pub(crate) fn placed_again(&self) -> u8 {
        if self.attempt == ELSEWHERE {
            1
        } else {
            self.attempt
        }
    }

    /// Notes at which attempt the request with this identity is, if it is the initial one.
    pub(crate) fn set_attempt(&mut self, id: u64, attempt: u8) {
        if self.initial == id as u32 {
            self.attempt = attempt;
        }
    }

    /// Whether the initial request, if this is it, is no longer at that attempt.
    pub(crate) fn has_left(&self, id: u64, attempt: u8) -> bool {
        self.initial == id as u32 && self.attempt != attempt
    }

    /// A new initial request, with this identity.
    pub(crate) fn begin(&mut self, id: u64) {
        (self.initial, self.attempt) = (id as u32, 0);
    }

    /// The session is at another server, because a dialog is; not because its initial request was
    /// placed there last.
    pub(crate) fn move_to_dialog(&mut self) {
        self.attempt = ELSEWHERE;
    }

    /// Time since the session began.
    pub(crate) fn age(&self, now: Duration) -> Duration {
        self.age_of(now, |session| session.opened_ms)
    }

    /// Time since the dialog was last known alive, or since the session expired.
    pub(crate) fn silence(&self, now: Duration) -> Duration {
        self.age_of(now, |session| session.seen_ms)
    }

    /// The dialog is alive.
    pub(crate) fn seen(&mut self, now: Duration) {
        self.seen_ms = millis(now);
        self.checks = 0;
    }

    fn age_of(&self, now: Duration, since: impl FnOnce(&Self) -> u32) -> Duration {
        Duration::from_millis(millis(now).wrapping_sub(since(self)).into())
    }
}

/// Milliseconds, wrapping after 49 days: only differences are used.
pub(super) fn millis(at: Duration) -> u32 {
    at.as_millis() as u32
}

const _: () = assert!(size_of::<Session>() <= 96);
