//! Why a call is where it is, and where a message would go.

use std::{net::SocketAddr, time::Duration};

use balance::{Ineligible, Policy, ServerId};
use sip::{HeaderName, Message, Method};
use transaction::Flow;

use crate::{
    admission::{Class, class_of, is_called_first, is_urgent},
    calls::{Life, Reason},
    decisions::DecisionView,
    io::Datagram,
    node::Node,
    registrar::is_to_prove,
    routes::NoRoute,
    snapshot::PoolView,
    wire::{request::Request, token::Direction},
};

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

/// Why a server would not get a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PassedOver {
    /// It gets no new calls.
    Ineligible(Ineligible),
    /// It answers slowly, and as many wait for its first response as it answers in time.
    NoRoom {
        /// The requests that wait.
        waiting: u32,
    },
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
    /// It would stay out, as there is more than the node can serve.
    StaysOut {
        /// What requests of its class are, in the plural.
        class: &'static str,
        /// The share of these that is let in.
        share: f64,
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
        scores: Vec<(SocketAddr, Result<f64, PassedOver>)>,
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
        let work = &self.desks.proxy.work;
        let entry = work.calls.find(key)?;
        let session = work.calls.get(entry);
        let member = self.snapshot.member(session.server);
        let decision = work
            .decisions
            .find(key)
            .map(|decision| decision.view(now, &self.snapshot));
        Some(CallView {
            server: member.map(|member| member.address),
            pool: member.map(|member| member.pool.clone()),
            reason: session.reason.as_str(),
            is_expired: session.life == Life::Expired,
            is_call: session.is_call,
            age: session.age(now),
            placed_again: session.placed_again(),
            transactions: work.of_session(entry).count(),
            decision,
        })
    }

    /// Where a request would go if it came now; nothing is counted or sent. To be asked of the
    /// owner of its call. It comes `from` its sender, or from where its Via says, to the listener
    /// with this index. Credentials are taken for good ones.
    pub fn explain_message(
        &self,
        now: Duration,
        bytes: &[u8],
        from: Option<SocketAddr>,
        listener: u8,
    ) -> Forecast {
        let message = match Message::parse(bytes, self.snapshot.config().limits.headers) {
            Ok(message) if message.is_request() => message,
            Ok(_) => return Forecast::NoRequest("a response goes back along its Vias"),
            Err(error) => return Forecast::NoRequest(error.as_str()),
        };
        let sent_by = || message.top_via().ok()?.response_address();
        let from = from.or_else(sent_by);
        let from = from.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
        let datagram = Datagram {
            flow: Flow::udp(listener, from),
            bytes,
            truncated: false,
        };
        let request = Request::read(&self.snapshot, datagram, &message);
        let checked = request.and_then(|request| {
            let own = request.answer_of_ours(&self.snapshot);
            own.map_or_else(|| request.check(&self.snapshot), Err)?;
            Ok(request)
        });
        match checked {
            Ok(request) => self.forecast(now, &request),
            Err(reply) => Forecast::Answered {
                status: reply.status,
                reason: reply.reason,
            },
        }
    }

    fn forecast(&self, now: Duration, request: &Request<'_>) -> Forecast {
        let shown = request.message.header(HeaderName::ProxyAuthorization);
        if shown.is_none() && is_to_prove(&self.snapshot, request) {
            return Forecast::answered(407);
        }
        if let Ok(Some(affinity)) = request.affinity() {
            let to_server = affinity.direction == Direction::ToServer;
            return Forecast::Token {
                server: affinity.server.address,
                to_server,
            };
        }
        if let Some(call) = self.explain_call(now, request.call_id) {
            return Forecast::Session(call);
        }
        if !request.is_initial() {
            return Forecast::answered(481);
        }
        let lobby = &self.desks.lobby;
        let from = request.datagram.flow.remote.ip();
        let has_lanes = self.shared.has_lanes(&self.snapshot, from);
        // In lanes nobody is taken at his word.
        let is_first = match has_lanes {
            true => is_called_first(&self.snapshot, request.message),
            false => is_urgent(&self.snapshot, request.datagram.flow, request.message),
        };
        let class = match class_of(&self.snapshot, &request.datagram, request.message) {
            _ if is_first => None,
            Some(Class::Emergency) => Some(Class::Call),
            class => class,
        };
        if let Some(class) = class
            && lobby.stops(&request.datagram, has_lanes)
        {
            return Forecast::StaysOut {
                class: class.as_str(),
                share: lobby.shares()[usize::from(request.method == Method::Register)],
            };
        }
        match self.snapshot.route(&request.traits()) {
            Ok(route) => match self.snapshot.pool_at(route) {
                Some(pool) => self.forecast_placement(now, request, pool),
                None => Forecast::LookedUp,
            },
            Err(none) => Forecast::answered(if none == NoRoute::Target { 404 } else { 405 }),
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
        let scores = scores.filter_map(|(server, score)| {
            let score = score.map_err(PassedOver::Ineligible);
            let score =
                score.and_then(|score| self.forecast_room(now, request, server).map(|()| score));
            Some((address(server)?, score))
        });
        let scores = scores.collect();
        Forecast::Placed {
            pool: pool.config().name.clone(),
            policy,
            scores,
        }
    }
}

impl Node {
    /// Whether a server has room for a request.
    fn forecast_room(
        &self,
        now: Duration,
        request: &Request<'_>,
        server: ServerId,
    ) -> Result<(), PassedOver> {
        let Some(member) = self.snapshot.member(server) else {
            return Ok(());
        };
        let limit = member.room.of(request.method);
        if limit.get(now).is_some_and(|most| most <= limit.waiting())
            && !is_urgent(&self.snapshot, request.datagram.flow, request.message)
        {
            return Err(PassedOver::NoRoom {
                waiting: limit.waiting(),
            });
        }
        Ok(())
    }
}

impl Forecast {
    fn answered(status: u16) -> Self {
        Self::Answered {
            status,
            reason: sip::reason_phrase(status),
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
