//! Finds the servers of SIP names in the DNS, without blocking the caller.
//!
//! [`Names`] answers a [`Question`] with [`Target`]s: the servers that RFC 3263 selects, each with
//! its addresses. It returns a known answer at once, even if the answer is out of date and being
//! refreshed. It delivers other answers later, within [`Limits::wait_max`]. One thread asks the
//! DNS. Everything has a limit, so a name whose DNS servers never answer does not delay the others.
//! [`order`] draws the order in which to try the addresses.
//!
//! Read [`Names`] first.
//!
//! ```
//! use names::{Limits, Names, Question};
//!
//! let names = Names::start(&["192.0.2.53:53".parse().expect("it is one")], Limits::default());
//! let names = names.expect("a thread can be started");
//! let question = Question::of_uri("Example.com", None, None);
//! let answer = names.ask(&question, |answer| println!("{answer:?}"));
//! assert!(answer.is_pending(), "nothing is known yet");
//! ```
#![allow(
    clippy::disallowed_methods,
    reason = "records end at times of the clock, and the DNS is asked by a thread"
)]

mod cache;
mod client;
mod dns;
mod target;
mod transport;

use std::{
    fmt, io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::Poll,
    time::{Duration, Instant},
};

pub use target::{Target, order};
pub use transport::Transport;

use cache::Cache;
use client::{Client, Done};

/// The limits of look-ups.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long a question may wait for its answer.
    pub wait_max: Duration,
    /// The most answers in the cache.
    pub answers: u64,
    /// The most callers that wait.
    pub queue: usize,
    /// The most names that are asked for at the same time; a quarter of them may be of one domain.
    pub lookups: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wait_max: Duration::from_secs(3),
            answers: 16_384,
            queue: 4_096,
            lookups: 512,
        }
    }
}

/// A question. Names are in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// The servers of a service, `_sip._udp.example.com`: its SRV records (RFC 2782).
    Service(Box<str>),
    /// The addresses of a host, with this port.
    Host(Box<str>, u16),
    /// The servers of a domain by this transport: from its SRV records, else its addresses. None: by the
    /// transports that its NAPTR records name, else those that it has SRV records for, else over UDP at its
    /// addresses (RFC 3263 §4).
    Domain(Box<str>, Option<Transport>),
}

impl Question {
    /// A service's servers.
    #[must_use]
    pub fn service(name: &str) -> Self {
        Self::Service(name.to_ascii_lowercase().into())
    }

    /// A host's addresses.
    #[must_use]
    pub fn host(name: &str, port: u16) -> Self {
        Self::Host(name.to_ascii_lowercase().into(), port)
    }

    /// The question for a URI whose host is a name, and which may say a transport. With a port, the name is a host
    /// (RFC 3263 §4.2).
    #[must_use]
    pub fn of_uri(host: &str, port: Option<u16>, transport: Option<Transport>) -> Self {
        // What a caller writes is a whole name; the machine's search list is not for it.
        let name = format!("{}.", host.trim_end_matches('.')).to_ascii_lowercase();
        match port {
            Some(port) => Self::Host(name.into(), port),
            None => Self::Domain(name.into(), transport),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Service(name) | Self::Host(name, _) | Self::Domain(name, _) => name,
        }
    }

    /// The last two labels of the name: names below them mostly have the same servers.
    fn parent(&self) -> &str {
        let name = self.name().trim_end_matches('.');
        let mut dots = name.rmatch_indices('.').skip(1);
        dots.next().map_or(name, |(dot, _)| &name[dot + 1..])
    }
}

/// The answer of the DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// At least one server.
    pub targets: Vec<Target>,
    /// Why this is an earlier answer and not the present one; none if it is up to date.
    pub stale: Option<Error>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The DNS says that the name has no server.
    NotFound,
    /// Too many questions wait. Ask again later.
    Busy,
    /// The DNS fails or is too slow, for this reason.
    Unavailable(Arc<str>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("the DNS has no server of this name"),
            Self::Busy => f.write_str("too many questions wait for the DNS"),
            Self::Unavailable(why) => write!(f, "the DNS fails: {why}"),
        }
    }
}

impl std::error::Error for Error {}

/// Counters of questions and answers since the start.
#[derive(Debug, Default)]
pub struct Stats {
    counts: [AtomicU64; Count::ALL.len()],
}

/// The things that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// A question was answered at once, with an answer that is up to date.
    Known,
    /// A question was answered at once, with an earlier answer.
    Stale,
    /// A question had to wait.
    Waited,
    /// A question was refused, because too many were waiting.
    Refused,
    /// The DNS named servers.
    Found,
    /// The DNS said that there are none.
    NotFound,
    /// The DNS failed or did not answer in time.
    Failed,
}

impl Count {
    /// All events, with their names in metrics.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Known, "known"),
        (Self::Stale, "stale"),
        (Self::Waited, "waited"),
        (Self::Refused, "refused"),
        (Self::Found, "found"),
        (Self::NotFound, "not_found"),
        (Self::Failed, "failed"),
    ];
}

impl Stats {
    /// How often it happened.
    pub fn count(&self, what: Count) -> u64 {
        self.counts[what as usize].load(Relaxed)
    }

    fn add(&self, what: Count) {
        self.counts[what as usize].fetch_add(1, Relaxed);
    }
}

/// A DNS client for any thread.
pub struct Names {
    cache: Arc<Cache>,
    stats: Arc<Stats>,
    client: Client,
}

impl Names {
    /// Starts the thread that asks these DNS servers, or those of `/etc/resolv.conf` if there are none.
    ///
    /// If the thread can't be started, or `/etc/resolv.conf` can't be read.
    pub fn start(servers: &[SocketAddr], limits: Limits) -> io::Result<Self> {
        let cache = Arc::new(Cache::new(limits.answers));
        let stats = Arc::new(Stats::default());
        let client = Client::start(servers, limits, Arc::clone(&cache), Arc::clone(&stats))?;
        Ok(Self {
            cache,
            stats,
            client,
        })
    }

    /// Asks a question. Returns the answer at once if it is known; else calls `done` once, on
    /// another thread. `done` must not block.
    pub fn ask(
        &self,
        question: &Question,
        done: impl FnOnce(Result<Arc<Answer>, Error>) + Send + 'static,
    ) -> Poll<Result<Arc<Answer>, Error>> {
        let (counted, answer) = match self.cache.get(question, Instant::now()) {
            Some(known) => {
                let is_stale = matches!(&known.answer, Ok(answer) if answer.stale.is_some());
                if known.is_due {
                    self.client.refresh(question);
                }
                let counted = [Count::Known, Count::Stale][usize::from(known.is_due || is_stale)];
                (counted, Poll::Ready(known.answer))
            }
            None => match self.client.ask(question, Box::new(done) as Done) {
                Ok(()) => (Count::Waited, Poll::Pending),
                Err(error) => (Count::Refused, Poll::Ready(Err(error))),
            },
        };
        self.stats.add(counted);
        answer
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_with_a_port_names_a_host() {
        let host = Question::Host("a.example.com.".into(), 5070);
        assert_eq!(Question::of_uri("A.Example.com", Some(5070), None), host);
        for transport in [None, Some(Transport::Tls)] {
            let domain = Question::Domain("example.com.".into(), transport);
            assert_eq!(Question::of_uri("example.com.", None, transport), domain);
        }
    }

    #[test]
    fn names_of_one_domain_are_known_as_such() {
        for (name, parent) in [
            ("a.b.example.com", "example.com"),
            ("example.com.", "example.com"),
            ("localhost", "localhost"),
            (".", ""),
        ] {
            assert_eq!(Question::service(name).parent(), parent, "{name}");
        }
    }
}
