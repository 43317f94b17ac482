//! What a machine takes in, and what it wants done.

use crate::timer::Timer;

/// What happens to a transaction. Responses come from the network at a client, from the
/// transaction user at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The request came again.
    Request,
    /// Its ACK came.
    Ack,
    /// 1xx.
    Provisional,
    /// 2xx.
    Success,
    /// 300 to 699.
    Failure,
    /// A timer has run out.
    Timer(Timer),
    /// The peer can't be reached.
    TransportError,
}

impl Input {
    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            0..200 => Self::Provisional,
            200..300 => Self::Success,
            300.. => Self::Failure,
        }
    }
}

/// What is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Nothing,
    /// At a client: the request again, or the ACK. At a server: the response, or the last one again.
    Send,
    /// The transaction user gets the message.
    Pass,
    /// An ACK is sent and the transaction user gets the message.
    AckAndPass,
    /// The transaction user is to send a 100.
    AskTrying,
    /// The transaction user is told that an INVITE has rung for too long.
    InformTimerC,
    /// The transaction user is told that nothing came.
    InformTimeout,
    /// The transaction user is told that nobody is there.
    InformTransportError,
}
