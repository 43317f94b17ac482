//! The state machines: what comes in, what is to be done, which timers run. Nothing else.

pub mod invite_client;
pub mod invite_server;
pub mod other_client;
pub mod other_server;
mod step;

pub use step::{Action, Input};

use crate::timer::Timer;

/// The state of a transaction of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// We sent an INVITE.
    InviteClient(invite_client::State),
    /// We received an INVITE.
    InviteServer(invite_server::State),
    /// We sent another request.
    OtherClient(other_client::State),
    /// We received another request.
    OtherServer(other_server::State),
}

impl State {
    /// What follows an input.
    #[must_use]
    pub fn on(self, input: Input) -> (Self, Action) {
        match self {
            Self::InviteClient(state) => {
                let (state, action) = state.on(input);
                (Self::InviteClient(state), action)
            }
            Self::InviteServer(state) => {
                let (state, action) = state.on(input);
                (Self::InviteServer(state), action)
            }
            Self::OtherClient(state) => {
                let (state, action) = state.on(input);
                (Self::OtherClient(state), action)
            }
            Self::OtherServer(state) => {
                let (state, action) = state.on(input);
                (Self::OtherServer(state), action)
            }
        }
    }

    /// The timers that run in this state: one that repeats or asks, one that ends the state. A
    /// timer that the state before has too runs on.
    #[must_use]
    pub const fn timers(self) -> [Option<Timer>; 2] {
        match self {
            Self::InviteClient(state) => state.timers(),
            Self::InviteServer(state) => state.timers(),
            Self::OtherClient(state) => state.timers(),
            Self::OtherServer(state) => state.timers(),
        }
    }

    /// Whether the transaction is over.
    #[must_use]
    pub const fn is_terminated(self) -> bool {
        matches!(
            self,
            Self::InviteClient(invite_client::State::Terminated)
                | Self::InviteServer(invite_server::State::Terminated)
                | Self::OtherClient(other_client::State::Terminated)
                | Self::OtherServer(other_server::State::Terminated)
        )
    }

    /// Whether what was sent last may have to be sent again, or an ACK or a CANCEL made from it.
    pub(crate) const fn keeps_bytes(self) -> bool {
        match self {
            Self::InviteClient(state) => !matches!(state, invite_client::State::Accepted),
            Self::InviteServer(state) => !matches!(
                state,
                invite_server::State::Accepted | invite_server::State::Confirmed
            ),
            Self::OtherClient(state) => !matches!(state, other_client::State::Completed),
            Self::OtherServer(_) => true,
        }
    }
}
