//! The state machines beside the RFCs' figures: every arrow is a line here, and what has no line
//! changes nothing.

use transaction::{Action, Input, Timer, invite_client, invite_server, other_client, other_server};

use Action::{
    AckAndPass, AskTrying, InformTimeout, InformTimerC, InformTransportError, Nothing, Pass, Send,
};
use Input::{Ack, Failure, Provisional, Request, Success, Timer as Due, TransportError};

const TIMERS: [Timer; 16] = [
    Timer::A,
    Timer::B,
    Timer::C,
    Timer::D,
    Timer::E,
    Timer::F,
    Timer::G,
    Timer::H,
    Timer::I,
    Timer::J,
    Timer::K,
    Timer::L,
    Timer::M,
    Timer::Trying,
    Timer::TryingLate,
    Timer::Expiry,
];

fn check<S: Copy + PartialEq + std::fmt::Debug>(
    states: &[S],
    on: fn(S, Input) -> (S, Action),
    figure: &[(S, Input, Action, S)],
) {
    let messages = [Request, Ack, Provisional, Success, Failure, TransportError];
    let inputs = messages.into_iter().chain(TIMERS.map(Due));
    for (state, input) in inputs.flat_map(|input| states.iter().map(move |&s| (s, input))) {
        let arrow = figure
            .iter()
            .find(|arrow| (arrow.0, arrow.1) == (state, input));
        let expected = arrow.map_or((state, Nothing), |arrow| (arrow.3, arrow.2));
        assert_eq!(on(state, input), expected, "{state:?}, {input:?}");
    }
}

/// RFC 6026 figure 5, RFC 3261 §9.1 and §16.8
#[test]
fn invite_client_transaction() {
    use invite_client::State::{self, Accepted, Calling, Completed, Proceeding, Terminated};
    check(
        &[Calling, Proceeding, Completed, Accepted, Terminated],
        State::on,
        &[
            (Calling, Due(Timer::A), Send, Calling),
            (Calling, Due(Timer::B), InformTimeout, Terminated),
            (Calling, TransportError, InformTransportError, Terminated),
            (Calling, Provisional, Pass, Proceeding),
            (Calling, Success, Pass, Accepted),
            (Calling, Failure, AckAndPass, Completed),
            (Proceeding, Provisional, Pass, Proceeding),
            (Proceeding, Success, Pass, Accepted),
            (Proceeding, Failure, AckAndPass, Completed),
            (Proceeding, Due(Timer::C), InformTimerC, Proceeding),
            (Proceeding, Due(Timer::B), InformTimeout, Terminated),
            (Completed, Failure, Send, Completed),
            (Completed, TransportError, InformTransportError, Terminated),
            (Completed, Due(Timer::D), Nothing, Terminated),
            (Accepted, Success, Pass, Accepted),
            (Accepted, Due(Timer::M), Nothing, Terminated),
        ],
    );
}

/// RFC 6026 figure 7
#[test]
fn invite_server_transaction() {
    use invite_server::State::{self, Accepted, Completed, Confirmed, Proceeding, Terminated};
    check(
        &[Proceeding, Completed, Confirmed, Accepted, Terminated],
        State::on,
        &[
            (Proceeding, Request, Send, Proceeding),
            (Proceeding, Due(Timer::Trying), AskTrying, Proceeding),
            (Proceeding, Provisional, Send, Proceeding),
            (Proceeding, TransportError, InformTransportError, Proceeding),
            (Proceeding, Success, Send, Accepted),
            (Proceeding, Failure, Send, Completed),
            (Completed, Request, Send, Completed),
            (Completed, Due(Timer::G), Send, Completed),
            (Completed, Ack, Nothing, Confirmed),
            (Completed, TransportError, InformTransportError, Completed),
            (Completed, Due(Timer::H), Nothing, Terminated),
            (Confirmed, Due(Timer::I), Nothing, Terminated),
            (Accepted, Ack, Pass, Accepted),
            (Accepted, Success, Send, Accepted),
            (Accepted, TransportError, InformTransportError, Accepted),
            (Accepted, Due(Timer::L), Nothing, Terminated),
        ],
    );
}

/// RFC 3261 figure 6
#[test]
fn non_invite_client_transaction() {
    use other_client::State::{self, Completed, Proceeding, Terminated, Trying};
    check(
        &[Trying, Proceeding, Completed, Terminated],
        State::on,
        &[
            (Trying, Due(Timer::E), Send, Trying),
            (Trying, Due(Timer::F), InformTimeout, Terminated),
            (Trying, TransportError, InformTransportError, Terminated),
            (Trying, Provisional, Pass, Proceeding),
            (Trying, Success, Pass, Completed),
            (Trying, Failure, Pass, Completed),
            (Proceeding, Due(Timer::E), Send, Proceeding),
            (Proceeding, Due(Timer::F), InformTimeout, Terminated),
            (Proceeding, TransportError, InformTransportError, Terminated),
            (Proceeding, Provisional, Pass, Proceeding),
            (Proceeding, Success, Pass, Completed),
            (Proceeding, Failure, Pass, Completed),
            (Completed, Due(Timer::K), Nothing, Terminated),
        ],
    );
}

/// RFC 3261 figure 8, RFC 4320 §4
#[test]
fn non_invite_server_transaction() {
    use other_server::State::{self, Completed, Proceeding, Terminated, Trying};
    check(
        &[Trying, Proceeding, Completed, Terminated],
        State::on,
        &[
            (Trying, Due(Timer::TryingLate), AskTrying, Trying),
            (Trying, Due(Timer::Expiry), InformTimeout, Terminated),
            (Trying, Provisional, Send, Proceeding),
            (Trying, Success, Send, Completed),
            (Trying, Failure, Send, Completed),
            (Proceeding, Request, Send, Proceeding),
            (Proceeding, Provisional, Send, Proceeding),
            (Proceeding, Success, Send, Completed),
            (Proceeding, Failure, Send, Completed),
            (Proceeding, Due(Timer::Expiry), InformTimeout, Terminated),
            (Proceeding, TransportError, InformTransportError, Terminated),
            (Completed, Request, Send, Completed),
            (Completed, TransportError, InformTransportError, Terminated),
            (Completed, Due(Timer::J), Nothing, Terminated),
        ],
    );
}
