//! The only place that says "not now".
//!
//! Between reading a request and routing it [`admit`] looks whether there is room for what it would
//! begin. What turns out later, such as that no server is left, is refused in the same words by
//! [`refuse`]. A request that belongs to something known is never refused here.

mod backlog;
mod class;
mod delays;
mod guest;
mod guests;
pub(crate) mod lane;
mod lobby;
mod names;
pub(crate) mod program;
mod queue;
mod refusals;
pub(crate) mod sieve;
mod unheard;
pub(crate) mod unruly;
pub mod urgent;

pub(crate) use class::{Class, class_of, is_called_first, is_urgent};
pub(crate) use guest::{Guest, Leaves, Taken};
pub(crate) use lobby::Lobby;

use sip::{Message, Method};

use crate::{context::Context, stats::Event, wire::reply::Reply};

/// What a caller is told to wait when no server can take its call, in seconds.
pub(crate) const RETRY_AFTER_S: u64 = 5;

/// Why a request is refused that might be served at another time. RFC 3261 §21.5.4
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotNow {
    /// The node is about to stop.
    Draining,
    /// The session table is full of active sessions.
    SessionsFull,
    /// The session has as many open requests as it may have.
    SessionBusy,
    /// The table of open or of held transactions is full.
    TransactionsFull,
    /// The node is behind, and the request has waited too long.
    Overloaded,
    /// Too many REGISTERs wait for the store.
    RegistrationsFull,
    /// Too many requests wait for the store to tell who sent them.
    CallersFull,
    /// Too many requests wait for the DNS.
    UnlocatedFull,
    /// The store failed, or was silent for too long.
    StoreFailed,
    /// Others changed the same record again and again.
    Contended,
    /// No server of the pool may get it.
    NoServer,
    /// The servers of the pool that are there answer slowly, and have as much to do as they answer in time.
    NoRoom,
    /// The servers of the pool that are there have asked for less. RFC 7339 §5.10
    Restricted,
    /// No listener or no address leads to the next hop. RFC 3261 §16.9
    Unreachable,
}

/// Lets a request begin something, if the node takes new work and the owner of what it would begin
/// has `room` for it.
///
/// # Errors
/// The refusal.
pub(crate) fn admit(
    cx: Context<'_>,
    room: Result<(), NotNow>,
    retry_after_s: impl FnOnce() -> u64,
) -> Result<(), Reply> {
    let room = if cx.shared.is_draining() {
        Err(NotNow::Draining)
    } else {
        room
    };
    room.map_err(|why| refuse_for(cx, why, retry_after_s()))
}

/// Counts a refusal and words it. The caller may try elsewhere at once, and here after a moment.
pub(crate) fn refuse(cx: Context<'_>, why: NotNow) -> Reply {
    refuse_for(cx, why, RETRY_AFTER_S)
}

/// The same with another Retry-After: those that are refused at once shall not come back at once.
pub(crate) fn refuse_for(cx: Context<'_>, why: NotNow, retry_after_s: u64) -> Reply {
    if let Some(event) = why.event() {
        cx.stats.count(event, 1);
    }
    let reply = match why {
        NotNow::Unreachable => Reply::because(503, "Next Hop Unreachable"),
        NotNow::Restricted | NotNow::NoRoom => return Reply::new(503),
        // A 503 says of the whole node that it is to be left alone: RFC 3261 §21.5.4.
        NotNow::StoreFailed if cx.shared.is_store_up(cx.now) => Reply::new(500),
        _ => Reply::new(503),
    };
    reply.with("Retry-After", retry_after_s.to_string())
}

/// Refuses a new request that has waited too long. A proxy is told no time: it would keep all calls from
/// us for so long. Phones that register shall not come back all at once.
pub(crate) fn refuse_late(cx: Context<'_>, request: &Message<'_>, pause_s: u64) -> Reply {
    if request.method() == Some(Method::Register) {
        return refuse_for(cx, NotNow::Overloaded, pause_s);
    }
    cx.stats.count(Event::OverloadRefused, 1);
    Reply::new(503)
}

impl NotNow {
    fn event(self) -> Option<Event> {
        match self {
            Self::SessionsFull => Some(Event::SessionsFull),
            Self::SessionBusy => Some(Event::SessionBusy),
            Self::TransactionsFull => Some(Event::TransactionsFull),
            Self::Overloaded => Some(Event::OverloadRefused),
            Self::RegistrationsFull => Some(Event::RegistrationsFull),
            Self::CallersFull => Some(Event::CallersFull),
            Self::UnlocatedFull => Some(Event::UnlocatedFull),
            Self::StoreFailed => Some(Event::StoreFailed),
            Self::Restricted => Some(Event::Restricted),
            Self::NoRoom => Some(Event::NoRoom),
            Self::Draining | Self::Contended | Self::NoServer | Self::Unreachable => None,
        }
    }
}
