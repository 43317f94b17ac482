//! A request that waits in the lobby.

use std::time::Duration;

use sip::Message;
use slots::Kept;
use transaction::Flow;

use super::class::Class;
use crate::{
    context::Context,
    control,
    io::{Datagram, Origin},
};

/// Whether requests over a flow are not repeated.
pub(super) fn comes_once(flow: Flow) -> bool {
    flow.transport.is_stream()
}

/// When a request came that has waited for so long in its socket. Another worker hands over what it has just read.
pub(super) fn came(now: Duration, origin: Origin, waited: Duration) -> Duration {
    match origin {
        Origin::Socket => now.saturating_sub(waited),
        Origin::Worker(_) => now,
    }
}

/// Whose a new request is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// That of a neighbour who obeys what it is told: what it may send is limited where it comes from. Or one that another
    /// worker has let in.
    pub(super) is_granted: bool,
    /// While neighbours are told what they may send: a stranger's that has no part in that. It has only the time that known
    /// hosts leave, or is neither a call nor a REGISTER. Or one that another worker has counted.
    pub(super) is_apart: bool,
}

impl Standing {
    pub(super) fn of(
        cx: Context<'_>,
        class: Class,
        flow: Flow,
        message: &Message<'_>,
        origin: Origin,
    ) -> Self {
        if let Origin::Worker(_) = origin {
            return Self {
                is_granted: true,
                is_apart: true,
            };
        }
        let may_be_apart = comes_once(flow) || class == Class::Other;
        Self {
            is_granted: control::is_granted(cx, flow, message),
            is_apart: may_be_apart
                && cx.shared.neighbours().is_over()
                && !cx.snapshot.is_known(flow.remote.ip()),
        }
    }
}

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) flow: Flow,
    pub(crate) origin: Origin,
    pub(super) bytes: Kept,
    pub(super) came: Duration,
    /// Since when it waits here.
    pub(super) since: Duration,
    pub(super) class: Class,
    pub(super) standing: Standing,
    /// Names the request, if its repetitions may come while it waits.
    pub(super) name: Option<u64>,
}

/// What becomes of a new request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is served at once.
    Passes,
    Waits,
    /// A copy of it waits.
    WaitsAlready,
    /// It is told that there is no room.
    Refused,
    StaysOut,
}

/// What becomes of a request that has waited too long.
#[derive(Debug)]
pub(crate) enum Leaves {
    /// It is told so.
    Refused(Guest),
    /// It is not.
    Dropped(Guest),
}

impl Guest {
    pub(crate) fn class(&self) -> Class {
        self.class
    }

    pub(crate) fn datagram(&self) -> Datagram<'_> {
        Datagram {
            flow: self.flow,
            bytes: &self.bytes,
            truncated: false,
        }
    }
}

/// Names a REGISTER, by what its repetitions share.
pub(super) fn name_of(cx: Context<'_>, class: Class, message: &Message<'_>) -> Option<u64> {
    if !matches!(class, Class::Login | Class::Register) {
        return None;
    }
    let call = cx.snapshot.keys().session(message.call_id().ok()?);
    Some(call.bits().wrapping_add(message.cseq().ok()?.number.into()))
}
