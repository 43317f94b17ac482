//! RFC 3261 figure 6.

use super::step::{Action, Input};
use crate::timer::Timer;

/// Where a request that we sent stands, which is no INVITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the figure's names")]
pub enum State {
    Trying,
    Proceeding,
    Completed,
    Terminated,
}

impl State {
    /// The figure's arrows.
    #[must_use]
    pub fn on(self, input: Input) -> (Self, Action) {
        use Input::{Failure, Provisional, Success, TransportError};
        match (self, input) {
            (Self::Trying | Self::Proceeding, Input::Timer(Timer::E)) => (self, Action::Send),
            (Self::Trying | Self::Proceeding, Input::Timer(Timer::F)) => {
                (Self::Terminated, Action::InformTimeout)
            }
            (Self::Trying | Self::Proceeding, TransportError) => {
                (Self::Terminated, Action::InformTransportError)
            }
            (Self::Trying | Self::Proceeding, Provisional) => (Self::Proceeding, Action::Pass),
            (Self::Trying | Self::Proceeding, Success | Failure) => (Self::Completed, Action::Pass),
            (Self::Completed, Input::Timer(Timer::K)) => (Self::Terminated, Action::Nothing),
            _ => (self, Action::Nothing),
        }
    }

    pub(crate) const fn timers(self) -> [Option<Timer>; 2] {
        match self {
            Self::Trying | Self::Proceeding => [Some(Timer::E), Some(Timer::F)],
            Self::Completed => [None, Some(Timer::K)],
            Self::Terminated => [None, None],
        }
    }
}
