//! Changes of the servers' health, and why: news for whoever drives the node.

use std::{
    collections::VecDeque,
    fmt,
    net::SocketAddr,
    sync::{Mutex, PoisonError},
};

use crate::member::Member;

/// Changes that wait for the driver at most. More: the oldest goes.
const WAITING_MAX: usize = 4096;

/// A server's health has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The server's pool.
    pub pool: String,
    /// The server's address.
    pub address: SocketAddr,
    /// What happened.
    pub cause: Cause,
}

/// Why a server's health has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Down: it answered no probe.
    ProbesUnanswered,
    /// Down: it answered probes with 503.
    ProbesRefused,
    /// Down: an ICMP error says that nobody listens there.
    Unreachable,
    /// Down: it answered no request.
    Silent,
    /// It gets no new calls for some seconds: it refused several in a row.
    Refuses,
    /// Up: it answered a probe.
    ProbeAnswered,
    /// Up: it answered a request.
    Answered,
}

impl Cause {
    /// Whether the server went down.
    #[must_use]
    pub fn is_fall(self) -> bool {
        match self {
            Self::ProbesUnanswered | Self::ProbesRefused | Self::Unreachable | Self::Silent => true,
            Self::Refuses | Self::ProbeAnswered | Self::Answered => false,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ProbesUnanswered => "is down: it does not answer probes",
            Self::ProbesRefused => "is down: it answers probes with 503",
            Self::Unreachable => "is down: nobody listens there (ICMP)",
            Self::Silent => "is down: it does not answer requests",
            Self::Refuses => {
                "gets no new calls for some seconds: it answered several in a row with 503"
            }
            Self::ProbeAnswered => "is up: it answers probes",
            Self::Answered => "is up: it answers requests",
        })
    }
}

/// The changes that no driver has taken yet.
#[derive(Debug, Default)]
pub(crate) struct Changes(Mutex<VecDeque<Change>>);

impl Changes {
    pub(crate) fn push(&self, member: &Member, cause: Cause) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() == WAITING_MAX {
            waiting.pop_front();
        }
        waiting.push_back(Change {
            pool: member.pool.clone(),
            address: member.address,
            cause,
        });
    }

    pub(crate) fn take(&self) -> VecDeque<Change> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
