use std::{fmt, time::Duration};

/// The outcome of a seed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Calls started.
    pub calls: u64,
    /// Calls that failed while there were faults.
    pub failed: u64,
    /// Datagrams that arrived at a party, and messages that were sent on connections.
    pub messages: u64,
    /// The virtual time that passed.
    pub lasted: Duration,
    /// A hash of all events.
    pub digest: u64,
    /// The first violation; none if all checks passed.
    pub violation: Option<Violation>,
}

/// A violation of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When the checker saw it.
    pub at: Duration,
    /// Its kind.
    pub kind: Kind,
    /// The checker's description.
    pub what: String,
}

/// The kind of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something wrong happened.
    Safety,
    /// Something right didn't happen in time.
    Liveness,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Safety => "safety",
            Kind::Liveness => "liveness",
        };
        write!(f, "{kind}, {:.3} s: {}", self.at.as_secs_f64(), self.what)
    }
}
