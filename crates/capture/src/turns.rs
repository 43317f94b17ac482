//! The turns of a node in a call: a message comes in, others go out.

use std::time::Duration;

use crate::{merge::Sent, trace::Trace};

/// An incoming message, and the messages that the node sends until the next one comes in. Numbers
/// count within the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) input: usize,
    pub(crate) outputs: Vec<usize>,
    /// From the input to the last output, without pauses; none if there is no output, or only after
    /// a pause.
    pub(crate) service_ns: Option<i64>,
    /// How long the node waited for somebody to answer or to hang up.
    pub(crate) pause_ns: i64,
    /// The time to the next input, if the node sent nothing and did not pause.
    pub(crate) until_next_ns: Option<i64>,
}

/// A node's turns in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turns {
    /// The messages that it sent before the first input.
    pub(crate) leading: Vec<usize>,
    pub(crate) turns: Vec<Turn>,
}

/// A message at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) message: usize,
    pub(crate) time_ns: i64,
    pub(crate) is_input: bool,
    /// The incoming message that an outgoing one surely follows from. None: the one in hand.
    pub(crate) cause: Option<usize>,
}

/// A node's messages of a call in the order of time, as a point saw them. `messages` says for each
/// if it comes in.
pub(crate) fn events<'a>(
    trace: &Trace,
    point: usize,
    messages: impl Iterator<Item = (usize, &'a Sent, bool)>,
) -> Vec<Event> {
    let seen = |(message, sent, is_input): (usize, &'a Sent, bool)| {
        Some((sent.times_ns[point]?, message, sent, is_input))
    };
    let mut seen: Vec<_> = messages.filter_map(seen).collect();
    seen.sort_by_key(|(time_ns, ..)| *time_ns);
    let mut inputs: Vec<(usize, &Sent)> = Vec::new();
    let mut events = Vec::new();
    for (time_ns, message, sent, is_input) in seen {
        let mut cause = None;
        if is_input {
            inputs.push((message, sent));
        } else {
            let mut latest_first = inputs.iter().rev();
            let found = latest_first.find(|(_, input)| is_cause(trace, input, sent));
            cause = found.map(|(message, _)| *message);
        }
        events.push(Event {
            message,
            time_ns,
            is_input,
            cause,
        });
    }
    events
}

/// Whether a message that came in must be the cause of one that goes out, whatever came between: a response or an ACK
/// that is passed on, or a refusal that the ACK confirms (RFC 3261 §16.7, §17.1.1.3).
fn is_cause(trace: &Trace, input: &Sent, output: &Sent) -> bool {
    let (input, output) = (&input.seen, &output.seen);
    let [came, goes] = [input, output].map(|seen| trace.labels.get(seen.label));
    let is_ack = goes.status.is_none() && goes.method == "ACK";
    let goes_back = input.ends.0 == output.ends.1;
    (input.cseq, input.to_tag) == (output.cseq, output.to_tag)
        && match came == goes {
            true => !goes_back && (is_ack || came.status > Some(100)),
            false => goes_back && is_ack && came.status >= Some(300),
        }
}

impl Turns {
    /// A gap longer than `pause` in a node's activity does not count as work.
    pub(crate) fn new(events: &[Event], pause: Duration) -> Self {
        let pause = pause.as_nanos() as i64;
        let mut all = Self::default();
        // The turn in hand, and when the node last received or sent something.
        let (mut hand, mut last_ns, mut sent_ns) = (0, 0, i64::MIN);
        // When the input of each turn came.
        let mut came_ns: Vec<i64> = Vec::new();
        for event in events {
            let gap = event.time_ns - last_ns;
            if let Some(cause) = event.cause
                && let Some(turn) = all.begun_by(cause)
            {
                hand = turn;
            }
            match all.turns.get_mut(hand) {
                _ if event.is_input => {
                    if let Some(turn) = all.turns.last_mut()
                        && turn.outputs.is_empty()
                        && gap <= pause
                    {
                        turn.until_next_ns = Some(gap);
                    }
                    all.turns.push(Turn {
                        input: event.message,
                        outputs: Vec::new(),
                        service_ns: None,
                        pause_ns: 0,
                        until_next_ns: None,
                    });
                    hand = all.turns.len() - 1;
                    came_ns.push(event.time_ns);
                }
                Some(turn) => {
                    turn.outputs.push(event.message);
                    // It works on one message after the other.
                    let gap = event.time_ns - came_ns[hand].max(sent_ns);
                    if gap <= pause {
                        *turn.service_ns.get_or_insert(0) += gap;
                    } else {
                        turn.pause_ns += gap;
                    }
                }
                None => all.leading.push(event.message),
            }
            if !event.is_input {
                sent_ns = event.time_ns;
            }
            last_ns = event.time_ns;
        }
        all
    }

    /// The turn that sent the message; none if the node sent it before any input.
    pub(crate) fn sender_of(&self, message: usize) -> Option<usize> {
        self.turns
            .iter()
            .position(|turn| turn.outputs.contains(&message))
    }

    /// The turn that the message starts.
    pub(crate) fn begun_by(&self, message: usize) -> Option<usize> {
        self.turns.iter().position(|turn| turn.input == message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(100);

    fn turns(events: &[(i64, bool)]) -> Turns {
        let event = |(message, &(ms, is_input)): (usize, &(i64, bool))| Event {
            message,
            time_ns: ms * 1_000_000,
            is_input,
            cause: None,
        };
        let events: Vec<_> = events.iter().enumerate().map(event).collect();
        Turns::new(&events, PAUSE)
    }

    #[test]
    fn a_turn_lasts_from_its_input_to_its_last_output() {
        let turns = turns(&[(0, true), (2, false), (5, false), (9, true), (11, true)]);
        assert_eq!(turns.turns[0].outputs, [1, 2]);
        assert_eq!(turns.turns[0].service_ns, Some(5_000_000));
        assert_eq!(turns.turns[1].until_next_ns, Some(2_000_000));
        assert_eq!(turns.turns[2].until_next_ns, None);
        assert_eq!(turns.sender_of(2), Some(0));
        assert_eq!(turns.begun_by(4), Some(2));
    }

    #[test]
    fn a_pause_is_no_work() {
        let turns = turns(&[
            (0, false),
            (3, true),
            (4, false),
            (2_004, false),
            (2_006, false),
        ]);
        assert_eq!(turns.leading, [0]);
        assert_eq!(turns.turns[0].service_ns, Some(3_000_000));
        assert_eq!(turns.turns[0].pause_ns, 2_000_000_000);
    }

    /// Two messages come before the node is done with the first.
    #[test]
    fn what_follows_from_an_earlier_message_is_its_turn() {
        let event = |message, ms: i64, is_input, cause| Event {
            message,
            time_ns: ms * 1_000_000,
            is_input,
            cause,
        };
        let events = [
            event(0, 0, true, None),
            event(1, 2, true, None),
            event(2, 3, false, Some(0)),
            event(3, 4, false, None),
            event(4, 7, false, Some(1)),
        ];
        let turns = Turns::new(&events, PAUSE).turns;
        assert_eq!(
            (turns[0].outputs.as_slice(), turns[0].service_ns),
            (&[2, 3][..], Some(4_000_000))
        );
        assert_eq!(
            (turns[1].outputs.as_slice(), turns[1].service_ns),
            (&[4][..], Some(3_000_000))
        );
    }

    #[test]
    fn an_answer_after_a_pause_shows_no_work() {
        let turns = turns(&[(0, true), (2_000, false)]);
        assert_eq!(turns.turns[0].service_ns, None);
    }
}
