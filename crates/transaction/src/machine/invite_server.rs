//! RFC 6026 figure 7, which takes the place of RFC 3261 figure 7.

use super::step::{Action, Input};
use crate::timer::Timer;

/// Where an INVITE that we received stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the figure's names")]
pub enum State {
    Proceeding,
    Completed,
    Confirmed,
    Accepted,
    Terminated,
}

impl State {
    /// The figure's arrows.
    #[must_use]
    pub fn on(self, input: Input) -> (Self, Action) {
        use Input::{Ack, Failure, Provisional, Request, Success, TransportError};
        match (self, input) {
            (Self::Proceeding, Request | Provisional) => (self, Action::Send),
            (Self::Proceeding, Input::Timer(Timer::Trying)) => (self, Action::AskTrying),
            (Self::Proceeding | Self::Accepted, Success) => (Self::Accepted, Action::Send),
            (Self::Proceeding, Failure) => (Self::Completed, Action::Send),
            (Self::Completed, Request | Input::Timer(Timer::G)) => (self, Action::Send),
            (Self::Completed, Ack) => (Self::Confirmed, Action::Nothing),
            (Self::Completed, Input::Timer(Timer::H)) => (Self::Terminated, Action::Nothing),
            (Self::Confirmed, Input::Timer(Timer::I)) => (Self::Terminated, Action::Nothing),
            (Self::Accepted, Ack) => (self, Action::Pass),
            (Self::Accepted, Input::Timer(Timer::L)) => (Self::Terminated, Action::Nothing),
            (Self::Proceeding | Self::Completed | Self::Accepted, TransportError) => {
                (self, Action::InformTransportError)
            }
            _ => (self, Action::Nothing),
        }
    }

    pub(crate) const fn timers(self) -> [Option<Timer>; 2] {
        match self {
            Self::Proceeding => [Some(Timer::Trying), None],
            Self::Completed => [Some(Timer::G), Some(Timer::H)],
            Self::Confirmed => [None, Some(Timer::I)],
            Self::Accepted => [None, Some(Timer::L)],
            Self::Terminated => [None, None],
        }
    }
}
