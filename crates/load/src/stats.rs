use std::{collections::BTreeMap, fmt, mem, time::Duration};

use hdrhistogram::Histogram;

/// What became of the calls of a [`Caller`](crate::Caller).
#[derive(Clone, Debug)]
pub struct Stats {
    /// Calls begun.
    pub offered: u64,
    /// Calls answered and ended as they should.
    pub carried: u64,
    /// Calls that failed, by reason.
    pub failed: BTreeMap<Failure, u64>,
    /// Requests sent again because no answer had come.
    pub retransmissions: u64,
    /// Responses that came again, or that no call was waiting for.
    pub strays: u64,
    /// Nanoseconds from an INVITE's scheduled time to its first response, of any status.
    pub first_response_ns: Histogram<u64>,
    /// Nanoseconds from an INVITE's scheduled time to its 2xx.
    pub answer_ns: Histogram<u64>,
    /// Nanoseconds from a BYE to its 2xx.
    pub bye_ns: Histogram<u64>,
}

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// The INVITE got no response at all (Timer B).
    Silence,
    /// The INVITE got provisional responses, then nothing for 64*T1.
    NoAnswer,
    /// The INVITE got this final response.
    Rejected(u16),
    /// The BYE got no response (Timer F).
    ByeSilence,
    /// The BYE got this final response.
    ByeRejected(u16),
    /// The other side ended the call.
    HungUp,
}

impl Stats {
    /// All failed calls.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Hands over what was counted and begins anew.
    #[must_use]
    pub fn take(&mut self) -> Self {
        mem::take(self)
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        *self.failed.entry(failure).or_default() += 1;
    }
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            offered: 0,
            carried: 0,
            failed: BTreeMap::new(),
            retransmissions: 0,
            strays: 0,
            first_response_ns: histogram(),
            answer_ns: histogram(),
            bye_ns: histogram(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silence => f.write_str("no response to INVITE"),
            Self::NoAnswer => f.write_str("no answer"),
            Self::Rejected(status) => write!(f, "INVITE answered {status}"),
            Self::ByeSilence => f.write_str("no response to BYE"),
            Self::ByeRejected(status) => write!(f, "BYE answered {status}"),
            Self::HungUp => f.write_str("hung up by the other side"),
        }
    }
}

pub(crate) fn record(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

fn histogram() -> Histogram<u64> {
    const MAX_NS: u64 = 128_000_000_000;
    Histogram::new_with_max(MAX_NS, 3).expect("the bounds are valid")
}
