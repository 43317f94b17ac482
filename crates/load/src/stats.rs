use std::{collections::BTreeMap, fmt, mem, time::Duration};

use hdrhistogram::Histogram;

/// The results of the calls of a [`Caller`](crate::Caller), or of the registrations of
/// [`Phones`](crate::Phones).
#[derive(Clone)]
pub struct Stats {
    /// Calls or registrations that started.
    pub offered: u64,
    /// Calls that were answered and ended as planned; registrations that were granted.
    pub carried: u64,
    /// Calls that their caller cancelled before the answer.
    pub cancelled: u64,
    /// Answered calls whose caller vanished, as planned.
    pub abandoned: u64,
    /// Failures by reason.
    pub failed: BTreeMap<Failure, u64>,
    /// Challenges that were answered with credentials.
    pub challenges: u64,
    /// Requests that were retransmitted.
    pub retransmissions: u64,
    /// Responses that were retransmitted, or that nothing waited for.
    pub strays: u64,
    /// Nanoseconds from the scheduled time of a call or a registration to its start. If this
    /// exceeds the latencies, this machine is too slow for the load.
    pub late_ns: Histogram<u64>,
    /// Nanoseconds from an INVITE's scheduled time to its first response other than 100, because
    /// the next hop sends the 100.
    pub first_response_ns: Histogram<u64>,
    /// Nanoseconds from an INVITE's scheduled time to its 2xx.
    pub answer_ns: Histogram<u64>,
    /// Nanoseconds from a re-INVITE's scheduled time to its 2xx.
    pub reinvite_ns: Histogram<u64>,
    /// Nanoseconds from a BYE's scheduled time to its 2xx.
    pub bye_ns: Histogram<u64>,
    /// Nanoseconds from a REGISTER's scheduled time to its 2xx.
    pub register_ns: Histogram<u64>,
}

/// Why a call or a registration failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// The INVITE got no response at all (Timer B).
    Silence,
    /// The INVITE got provisional responses, then nothing for 64*T1.
    NoAnswer,
    /// The INVITE got this final response.
    Rejected(u16),
    /// The INVITE got no final response for 64*T1 after the CANCEL.
    CancelSilence,
    /// The re-INVITE got no final response.
    ReinviteSilence,
    /// The re-INVITE got this final response.
    ReinviteRejected(u16),
    /// The BYE got no response (Timer F).
    ByeSilence,
    /// The BYE got this final response.
    ByeRejected(u16),
    /// The other side ended the call.
    HungUp,
    /// The REGISTER got no response (Timer F).
    RegisterSilence,
    /// The REGISTER's connection was lost before its final response, or could not be opened.
    RegisterClosed,
    /// The REGISTER got this final response.
    RegisterRejected(u16),
}

impl Stats {
    /// All calls or registrations that went as planned.
    #[must_use]
    pub fn successes(&self) -> u64 {
        self.carried + self.cancelled + self.abandoned
    }

    /// All failures.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Returns the counters and resets them.
    #[must_use]
    pub fn take(&mut self) -> Self {
        mem::take(self)
    }

    /// Adds the counters of another.
    pub fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.carried += other.carried;
        self.cancelled += other.cancelled;
        self.abandoned += other.abandoned;
        self.challenges += other.challenges;
        self.retransmissions += other.retransmissions;
        self.strays += other.strays;
        for (&failure, &count) in &other.failed {
            *self.failed.entry(failure).or_default() += count;
        }
        for (own, other) in [
            (&mut self.late_ns, &other.late_ns),
            (&mut self.first_response_ns, &other.first_response_ns),
            (&mut self.answer_ns, &other.answer_ns),
            (&mut self.reinvite_ns, &other.reinvite_ns),
            (&mut self.bye_ns, &other.bye_ns),
            (&mut self.register_ns, &other.register_ns),
        ] {
            if !other.is_empty() {
                own.add(other).expect("all histograms have the same bounds");
            }
        }
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
            cancelled: 0,
            abandoned: 0,
            failed: BTreeMap::new(),
            challenges: 0,
            retransmissions: 0,
            strays: 0,
            late_ns: histogram(),
            first_response_ns: histogram(),
            answer_ns: histogram(),
            reinvite_ns: histogram(),
            bye_ns: histogram(),
            register_ns: histogram(),
        }
    }
}

/// The counts alone: a histogram has thousands of places.
impl fmt::Debug for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stats")
            .field("offered", &self.offered)
            .field("carried", &self.carried)
            .field("cancelled", &self.cancelled)
            .field("abandoned", &self.abandoned)
            .field("failed", &self.failed)
            .field("challenges", &self.challenges)
            .field("retransmissions", &self.retransmissions)
            .field("strays", &self.strays)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silence => f.write_str("no response to INVITE"),
            Self::NoAnswer => f.write_str("no answer"),
            Self::Rejected(status) => write!(f, "INVITE answered {status}"),
            Self::CancelSilence => f.write_str("no final response after CANCEL"),
            Self::ReinviteSilence => f.write_str("no final response to re-INVITE"),
            Self::ReinviteRejected(status) => write!(f, "re-INVITE answered {status}"),
            Self::ByeSilence => f.write_str("no response to BYE"),
            Self::ByeRejected(status) => write!(f, "BYE answered {status}"),
            Self::HungUp => f.write_str("hung up by the other side"),
            Self::RegisterSilence => f.write_str("no response to REGISTER"),
            Self::RegisterClosed => f.write_str("connection lost before the response to REGISTER"),
            Self::RegisterRejected(status) => write!(f, "REGISTER answered {status}"),
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
