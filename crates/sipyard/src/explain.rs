//! Explains why a server has a call, and where a message would go, in JSON and in words.

use std::{fmt, net::SocketAddr};

use balance::Ineligible;
use node::{CallView, DecisionView, Forecast, PassedOver};
use recorder::Seen;
use serde::{Deserialize, Serialize};

use crate::view::ServerState;

/// The answer to `explain`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(crate) enum Explanation {
    /// A worker has the message's call.
    Call(Call),
    /// The message's affinity token names the server.
    Token {
        server: SocketAddr,
        /// Whether the message goes to the server or comes from it.
        to_server: bool,
    },
    /// The policy would place the message by these scores; the lowest wins.
    Placed {
        pool: String,
        policy: String,
        servers: Vec<Scored>,
    },
    /// There is more than the node can serve, so the message would stay out.
    StaysOut {
        /// What requests of its class are, in the plural.
        class: String,
        /// The share of these that is let in.
        share: f64,
    },
    /// The node would ask the location service.
    LookedUp,
    /// The node would answer the message itself.
    Answered { status: u16, reason: String },
    /// The message is not a request that can be read.
    NoRequest { reason: String },
}

/// A call that a worker has.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    /// None after the server left the configuration.
    server: Option<SocketAddr>,
    pool: Option<String>,
    reason: String,
    /// The call is over; the worker keeps it for stray messages.
    is_expired: bool,
    /// The node counts it as an open call.
    is_call: bool,
    age_s: f64,
    /// How often the node placed its first request again.
    placed_again: u8,
    /// Transactions that are open at the moment.
    transactions: usize,
    /// None if the placement was long ago.
    decision: Option<Decision>,
}

/// A placement, and the values that the policy compared.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Decision {
    ago_s: f64,
    policy: String,
    chosen: Option<SocketAddr>,
    /// The first servers of the pool.
    seen: Vec<Seen>,
    /// Servers of the pool beyond these.
    more: u16,
}

/// A server with the values that the policy compares.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Scored {
    server: SocketAddr,
    /// None if the policy skipped the server.
    score: Option<f64>,
    passed_over: Option<String>,
}

impl From<CallView> for Call {
    fn from(view: CallView) -> Self {
        Self {
            server: view.server,
            pool: view.pool,
            reason: view.reason.to_owned(),
            is_expired: view.is_expired,
            is_call: view.is_call,
            age_s: view.age.as_secs_f64(),
            placed_again: view.placed_again,
            transactions: view.transactions,
            decision: view.decision.map(Decision::from),
        }
    }
}

impl From<DecisionView> for Decision {
    fn from(view: DecisionView) -> Self {
        Self {
            ago_s: view.ago.as_secs_f64(),
            policy: view.policy.to_string(),
            chosen: view.chosen,
            seen: view.ledgers.iter().map(Seen::of).collect(),
            more: view.more,
        }
    }
}

impl From<Forecast> for Explanation {
    fn from(forecast: Forecast) -> Self {
        match forecast {
            Forecast::NoRequest(reason) => Self::NoRequest {
                reason: reason.to_owned(),
            },
            Forecast::Answered { status, reason } => Self::Answered {
                status,
                reason: reason.to_owned(),
            },
            Forecast::Token { server, to_server } => Self::Token { server, to_server },
            Forecast::Session(view) => Self::Call(view.into()),
            Forecast::LookedUp => Self::LookedUp,
            Forecast::StaysOut { class, share } => Self::StaysOut {
                class: class.to_owned(),
                share,
            },
            Forecast::Placed {
                pool,
                policy,
                scores,
            } => Self::Placed {
                pool,
                policy: policy.to_string(),
                servers: scores.into_iter().map(scored).collect(),
            },
        }
    }
}

fn scored((server, score): (SocketAddr, Result<f64, PassedOver>)) -> Scored {
    Scored {
        server,
        score: score.ok(),
        passed_over: score.err().map(passed_over),
    }
}

fn passed_over(why: PassedOver) -> String {
    let why = match why {
        PassedOver::Ineligible(why) => why,
        PassedOver::NoRoom { waiting } => {
            return format!(
                "has no room: it answers slowly, and {waiting} requests wait for an answer"
            );
        }
    };
    let why = match why {
        Ineligible::Removed => ServerState::Removed.label(),
        Ineligible::Draining => ServerState::Draining.label(),
        Ineligible::Down => ServerState::Down.label(),
        Ineligible::BackingOff => ServerState::BackingOff.label(),
        Ineligible::AboveBound => "holds more calls than its bound",
        Ineligible::OtherCluster => "is in another cluster than the user",
        Ineligible::InReserve => ServerState::Reserve.label(),
    };
    why.to_owned()
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(call) => call.fmt(f),
            Self::Token { server, to_server } => {
                let direction = if *to_server { "to" } else { "from" };
                writeln!(
                    f,
                    "goes {direction} {server}: its affinity token names the server"
                )
            }
            Self::Placed {
                pool,
                policy,
                servers,
            } => {
                writeln!(
                    f,
                    "would be placed in pool {pool} by {policy}; the lowest score wins:"
                )?;
                servers.iter().try_for_each(|server| server.fmt(f))
            }
            Self::StaysOut { class, share } => writeln!(
                f,
                "would stay out: there is more than the node can serve, and {:.1} % of the {class} are let in",
                share * 100.0
            ),
            Self::LookedUp => {
                writeln!(f, "would go to the user's contacts in the location service")
            }
            Self::Answered { status, reason } => writeln!(f, "would be answered {status} {reason}"),
            Self::NoRequest { reason } => {
                writeln!(f, "is not a request that can be read: {reason}")
            }
        }
    }
}

impl fmt::Display for Scored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, .. } = self;
        match (self.score, &self.passed_over) {
            (Some(score), _) => writeln!(f, "  {server}  {score:.3}"),
            (None, Some(why)) => writeln!(f, "  {server}  skipped: {why}"),
            (None, None) => writeln!(f, "  {server}  skipped"),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.server, &self.pool) {
            (Some(server), Some(pool)) => write!(f, "on {server} of pool {pool}")?,
            _ => write!(f, "on a server that has left the configuration")?,
        }
        writeln!(f, ": {}", self.reason)?;
        let life = match (self.is_expired, self.is_call) {
            (true, _) => "over, kept for stray messages",
            (false, true) => "an open call",
            (false, false) => "no call, transactions only",
        };
        let (age, open) = (self.age_s, self.transactions);
        writeln!(f, "{life}; {age:.1} s old, {open} transactions open")?;
        if self.placed_again > 0 {
            writeln!(f, "placed again {} times", self.placed_again)?;
        }
        match &self.decision {
            Some(decision) => decision.fmt(f),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} chose {:.1} s ago, seeing:", self.policy, self.ago_s)?;
        let best = self.seen.iter().filter(|seen| seen.passed_over.is_none());
        let alike = |seen: &Seen| (seen.calls, seen.transactions, seen.work, seen.capacity);
        let chosen = self
            .seen
            .iter()
            .find(|seen| Some(seen.server) == self.chosen);
        let ties = chosen.map_or(0, |chosen| {
            best.filter(|seen| alike(seen) == alike(chosen)).count()
        });
        for seen in &self.seen {
            let is_chosen = Some(seen.server) == self.chosen;
            let mark = match (is_chosen, ties) {
                (true, 2..) => "   <- chosen, a tie",
                (true, _) => "   <- chosen",
                (false, _) => "",
            };
            writeln!(f, "  {}{mark}", seen.words())?;
        }
        match self.more {
            0 => Ok(()),
            more => writeln!(f, "  and {more} more servers"),
        }
    }
}
