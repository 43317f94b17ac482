//! RFC 3261 figure 8 with RFC 4320: a 100 late or never, and no final response when its client
//! has given up.

use super::step::{Action, Input};
use crate::timer::Timer;

/// Where a request that we received stands, which is no INVITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the figure's names")]
pub enum State {
    Trying,
    Proceeding,
    Completed,
    Terminated,
}

impl State {
    /// The figure's arrows. One more, RFC 4320 §4.2: what is not answered in time is forgotten.
    #[must_use]
    pub fn on(self, input: Input) -> (Self, Action) {
        use Input::{Failure, Provisional, Request, Success, TransportError};
        match (self, input) {
            (Self::Trying, Input::Timer(Timer::TryingLate)) => (self, Action::AskTrying),
            (Self::Trying | Self::Proceeding, Provisional) => (Self::Proceeding, Action::Send),
            (Self::Trying | Self::Proceeding, Success | Failure) => (Self::Completed, Action::Send),
            (Self::Trying | Self::Proceeding, Input::Timer(Timer::Expiry)) => {
                (Self::Terminated, Action::InformTimeout)
            }
            (Self::Proceeding | Self::Completed, Request) => (self, Action::Send),
            (Self::Proceeding | Self::Completed, TransportError) => {
                (Self::Terminated, Action::InformTransportError)
            }
            (Self::Completed, Input::Timer(Timer::J)) => (Self::Terminated, Action::Nothing),
            _ => (self, Action::Nothing),
        }
    }

    pub(crate) const fn timers(self) -> [Option<Timer>; 2] {
        match self {
            Self::Trying => [Some(Timer::TryingLate), Some(Timer::Expiry)],
            Self::Proceeding => [None, Some(Timer::Expiry)],
            Self::Completed => [None, Some(Timer::J)],
            Self::Terminated => [None, None],
        }
    }
}
