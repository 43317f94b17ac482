//! Why a call is where it is, and where a message would go.

use std::{net::SocketAddr, time::Duration};

use balance::{Ineligible, Policy, ServerId};
use sip::Message;

use crate::{
    io::Datagram,
    keys::SessionKey,
    node::Node,
    request::Request,
    session::{Reason, State as Life},
    snapshot::{NoRoute, PoolView, Snapshot},
    token::Direction,
};

/// Placements that a worker remembers.
const DECISIONS_MAX: usize = 4096;
/// Servers of a pool whose ledgers are remembered with a placement.
const LEDGERS_MAX: usize = 8;

/// The latest placements of a worker.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    ring: Vec<Decision>,
    next: usize,
}

#[derive(Clone, Debug)]
struct Decision {
    key: SessionKey,
    at: Duration,
    policy: Policy,
    ledgers: Ledgers,
}

/// The ledgers of a pool's first servers at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Ledgers([Option<Ledger>; LEDGERS_MAX]);

#[derive(Clone, Copy, Debug)]
struct Ledger {
    server: ServerId,
    calls: u32,
    transactions: u32,
    work: f32,
}

impl Ledgers {
    pub(crate) fn of(pool: &PoolView) -> Self {
        let servers = pool.pool().servers();
        Self(std::array::from_fn(|place| {
            let server = servers.get(place)?;
            Some(Ledger {
                server: server.id(),
                calls: server.calls() as u32,
                transactions: server.transactions() as u32,
                work: server.work() as f32,
            })
        }))
    }
}

impl Decisions {
    pub(crate) fn record(
        &mut self,
        key: SessionKey,
        at: Duration,
        policy: Policy,
        ledgers: Ledgers,
    ) {
        let decision = Decision {
            key,
            at,
            policy,
            ledgers,
        };
        if self.ring.len() < DECISIONS_MAX {
            self.ring.push(decision);
        } else {
            self.ring[self.next] = decision;
        }
        self.next = (self.next + 1) % DECISIONS_MAX;
    }

    fn find(&self, key: SessionKey) -> Option<&Decision> {
        let (newer, older) = self.ring.split_at(self.next.min(self.ring.len()));
        newer
            .iter()
            .rev()
            .chain(older.iter().rev())
            .find(|decision| decision.key == key)
    }
}

/// What a node knows of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallView {
    /// The server it is on; none when that has left the configuration.
    pub server: Option<SocketAddr>,
    /// The pool of that server.
    pub pool: Option<String>,
    /// Why it is there.
    pub reason: &'static str,
    /// Whether it is over, and kept only for strays.
    pub is_expired: bool,
    /// Whether it counts as an open call.
    pub is_call: bool,
    /// Time since its first request.
    pub age: Duration,
    /// How often its first request was placed again, at least.
    pub placed_again: u8,
    /// Its open transactions.
    pub transactions: usize,
    /// The placement, if it is not long ago.
    pub decision: Option<DecisionView>,
}

/// A placement, and what the policy saw.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionView {
    /// Time since the choice.
    pub ago: Duration,
    /// The policy that chose.
    pub policy: Policy,
    /// The pool's first servers as they were before: address, open calls, open transactions, work.
    pub ledgers: Vec<(SocketAddr, u32, u32, f32)>,
}

/// Where a message would go.
#[derive(Clone, Debug, PartialEq)]
pub enum Forecast {
    /// It isn't a request that could be read.
    NoRequest(&'static str),
    /// The node itself would answer.
    Answered {
        /// The status code.
        status: u16,
        /// The reason phrase.
        reason: &'static str,
    },
    /// Its affinity token names the server.
    Token {
        /// The server.
        server: SocketAddr,
        /// Whether it goes to the server, or comes from it.
        to_server: bool,
    },
    /// Its call is known.
    Session(CallView),
    /// The location service would be asked.
    LookedUp,
    /// It would be placed: the scores now, the lowest wins.
    Placed {
        /// The pool of the first route that matches.
        pool: String,
        /// Its policy.
        policy: Policy,
        /// Each server's score, or why it is passed over.
        scores: Vec<(SocketAddr, Result<f64, Ineligible>)>,
    },
}

impl Node {
    /// The worker that owns the call with this Call-ID.
    pub fn owner(&self, call_id: &[u8]) -> usize {
        self.snapshot
            .keys()
            .session(call_id)
            .worker(self.shared.workers().len())
    }

    /// What this worker knows of a call. Its owner knows, if anybody does.
    pub fn explain_call(&self, now: Duration, call_id: &[u8]) -> Option<CallView> {
        let key = self.snapshot.keys().session(call_id);
        let session = self.state.sessions.get(self.state.sessions.find(key)?);
        let member = self.snapshot.member(session.server);
        let decision = self
            .state
            .decisions
            .find(key)
            .map(|decision| decision.view(now, &self.snapshot));
        Some(CallView {
            server: member.map(|member| member.address),
            pool: member.map(|member| member.pool.clone()),
            reason: session.reason.as_str(),
            is_expired: session.state == Life::Expired,
            is_call: session.is_call,
            age: session.age(now),
            placed_again: session.placed_again(),
            transactions: self.state.transactions.list(session.transactions).count(),
            decision,
        })
    }

    /// Where a request would go if it came now; nothing is counted or sent. To be asked of the
    /// owner of its call.
    pub fn explain_message(&self, now: Duration, bytes: &[u8]) -> Forecast {
        let message = match Message::parse(bytes, self.snapshot.config().limits.headers) {
            Ok(message) if message.is_request() => message,
            Ok(_) => return Forecast::NoRequest("a response goes back along its Vias"),
            Err(error) => return Forecast::NoRequest(error.as_str()),
        };
        let from = SocketAddr::from(([0, 0, 0, 0], 0));
        let datagram = Datagram {
            listener: 0,
            from,
            bytes,
            truncated: false,
        };
        match Request::read(&self.snapshot, datagram, &message) {
            Ok(request) => self.forecast(now, &request),
            Err(refusal) => Forecast::Answered {
                status: refusal.status,
                reason: refusal.reason,
            },
        }
    }

    fn forecast(&self, now: Duration, request: &Request<'_>) -> Forecast {
        if let Ok(Some(affinity)) = request.affinity(&self.snapshot) {
            let to_server = affinity.direction == Direction::ToServer;
            return Forecast::Token {
                server: affinity.server,
                to_server,
            };
        }
        if let Some(call) = self.explain_call(now, request.call_id) {
            return Forecast::Session(call);
        }
        if !request.is_initial() {
            return Forecast::Answered {
                status: 481,
                reason: sip::reason_phrase(481),
            };
        }
        match self
            .snapshot
            .route(request.method, &request.path.target.host)
        {
            Ok(route) => match self.snapshot.pool_at(route) {
                Some(pool) => self.forecast_placement(now, request, pool),
                None => Forecast::LookedUp,
            },
            Err(none) => {
                let status = if none == NoRoute::Host { 404 } else { 405 };
                Forecast::Answered {
                    status,
                    reason: sip::reason_phrase(status),
                }
            }
        }
    }

    fn forecast_placement(
        &self,
        now: Duration,
        request: &Request<'_>,
        pool: &PoolView,
    ) -> Forecast {
        let policy = pool.pool().policy();
        let key = request.placement_key(policy == Policy::UserHash);
        let address = |server| self.snapshot.member(server).map(|member| member.address);
        let scores = pool.pool().scores(now, key).into_iter();
        let scores = scores
            .filter_map(|(server, score)| Some((address(server)?, score)))
            .collect();
        Forecast::Placed {
            pool: pool.config().name.clone(),
            policy,
            scores,
        }
    }
}

impl Decision {
    fn view(&self, now: Duration, snapshot: &Snapshot) -> DecisionView {
        let ledgers = self.ledgers.0.iter().flatten().filter_map(|ledger| {
            let address = snapshot.member(ledger.server)?.address;
            Some((address, ledger.calls, ledger.transactions, ledger.work))
        });
        DecisionView {
            ago: now.saturating_sub(self.at),
            policy: self.policy,
            ledgers: ledgers.collect(),
        }
    }
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Placed => "the pool's policy chose its server",
            Self::FailedOver => "the server chosen first failed, the policy chose again",
            Self::Token => "its affinity token names the server",
            Self::NamedDialog => "its first request named a dialog that is there",
            Self::Answered => {
                "it refused a request that came before the node's start, or by another node"
            }
            Self::Originated => "the server itself started it",
        }
    }
}
