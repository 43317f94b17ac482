//! RFC 6026 figure 5, which takes the place of RFC 3261 figure 5, with Timer C of RFC 3261 §16.6.

use super::step::{Action, Input};
use crate::timer::Timer;

/// Where an INVITE that we sent stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the figure's names")]
pub enum State {
    Calling,
    Proceeding,
    Completed,
    Accepted,
    Terminated,
}

impl State {
    /// The figure's arrows. One more, RFC 3261 §9.1: Timer B ends what was cancelled and still
    /// rings.
    #[must_use]
    pub fn on(self, input: Input) -> (Self, Action) {
        use Input::{Failure, Provisional, Success, TransportError};
        match (self, input) {
            (Self::Calling, Input::Timer(Timer::A)) => (self, Action::Send),
            (Self::Calling | Self::Proceeding, Input::Timer(Timer::B)) => {
                (Self::Terminated, Action::InformTimeout)
            }
            (Self::Calling | Self::Completed, TransportError) => {
                (Self::Terminated, Action::InformTransportError)
            }
            (Self::Calling | Self::Proceeding, Provisional) => (Self::Proceeding, Action::Pass),
            (Self::Calling | Self::Proceeding | Self::Accepted, Success) => {
                (Self::Accepted, Action::Pass)
            }
            (Self::Calling | Self::Proceeding, Failure) => (Self::Completed, Action::AckAndPass),
            (Self::Proceeding, Input::Timer(Timer::C)) => (self, Action::InformTimerC),
            (Self::Completed, Failure) => (self, Action::Send),
            (Self::Completed, Input::Timer(Timer::D)) => (Self::Terminated, Action::Nothing),
            (Self::Accepted, Input::Timer(Timer::M)) => (Self::Terminated, Action::Nothing),
            _ => (self, Action::Nothing),
        }
    }

    pub(crate) const fn timers(self) -> [Option<Timer>; 2] {
        match self {
            Self::Calling => [Some(Timer::A), Some(Timer::B)],
            Self::Proceeding => [None, Some(Timer::C)],
            Self::Completed => [None, Some(Timer::D)],
            Self::Accepted => [None, Some(Timer::M)],
            Self::Terminated => [None, None],
        }
    }
}
