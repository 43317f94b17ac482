//! The timers by name, and how long they run.

use std::time::Duration;

/// A timer of RFC 3261 table 4, RFC 6026 §8.11, or one that the text asks for without naming it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the RFCs' names")]
pub enum Timer {
    A,
    B,
    /// The longest that an INVITE may ring: RFC 3261 §16.6 step 11.
    C,
    D,
    E,
    F,
    G,
    H,
    I,
    J,
    K,
    L,
    M,
    /// An INVITE's 100 is due: RFC 3261 §17.2.1.
    Trying,
    /// The 100 of another request is due: RFC 4320 §4.1.
    TryingLate,
    /// It is too late for a final response to a request that is no INVITE: RFC 4320 §4.2.
    Expiry,
}

/// What the operator may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The round-trip estimate; RFC 3261's default is 500 ms.
    pub t1: Duration,
    /// The longest interval between retransmissions but for an INVITE's; 4 s.
    pub t2: Duration,
    /// The longest that a message stays in the network; 5 s.
    pub t4: Duration,
    /// Timer C; more than 3 minutes.
    pub c: Duration,
}

impl Timing {
    /// RFC 3261's values for this T1, and this Timer C.
    #[must_use]
    pub const fn new(t1: Duration, c: Duration) -> Self {
        Self {
            t1,
            t2: Duration::from_nanos(t1.as_nanos() as u64 * 8),
            t4: Duration::from_nanos(t1.as_nanos() as u64 * 10),
            c,
        }
    }

    /// How long a timer runs when it is started; none: it isn't.
    pub(crate) fn duration(&self, timer: Timer, reliable: bool) -> Option<Duration> {
        /// The wheel may be 10 ms late, and RFC 3261 §17.2.1 says 200 ms.
        const TRYING: Duration = Duration::from_millis(180);
        let unless_reliable = |duration| if reliable { Duration::ZERO } else { duration };
        match timer {
            Timer::A | Timer::E | Timer::G => (!reliable).then_some(self.t1),
            Timer::B | Timer::F | Timer::H | Timer::L | Timer::M | Timer::Expiry => {
                Some(self.t1 * 64)
            }
            Timer::C => Some(self.c),
            Timer::D | Timer::J => Some(unless_reliable(self.t1 * 64)),
            Timer::I | Timer::K => Some(unless_reliable(self.t4)),
            Timer::Trying => Some(TRYING),
            Timer::TryingLate => Some(self.t2.saturating_sub(self.t1)),
        }
    }
}
