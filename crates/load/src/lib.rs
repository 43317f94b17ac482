//! Generates SIP load without I/O: callers that make calls, emulated servers that answer them, and
//! phones that register.
//!
//! A [`Caller`] makes calls in an open or closed loop and measures their results. A [`Server`]
//! answers them as a user agent server with a service time, ringing and stalls does. [`Phones`]
//! register and refresh. All of them take datagrams and the time, and put datagrams into an
//! [`Outbox`]. None uses a socket, a clock or an entropy source. Time is a
//! [`Duration`](std::time::Duration) since a zero that the driver chooses.
//!
//! ```
//! use load::{Arrivals, Caller, CallerConfig, Outbox, Server, ServerConfig};
//! use std::time::Duration;
//!
//! let (alice, bob) = ("127.0.0.1:5070".parse().unwrap(), "127.0.0.1:7001".parse().unwrap());
//! let config = CallerConfig {
//!     calls_max: 10,
//!     ..CallerConfig::plain(vec![alice], bob, Arrivals::Window(1))
//! };
//! let mut caller = Caller::new(config, fastrand::Rng::with_seed(1), Duration::ZERO);
//! let rng = fastrand::Rng::with_seed(2);
//! let mut server = Server::new(ServerConfig::prompt(bob), rng, Duration::ZERO);
//! let (mut requests, mut responses) = (Outbox::default(), Outbox::default());
//! caller.handle_timeout(Duration::ZERO, &mut requests);
//! while !caller.is_done() {
//!     for (_, _, bytes) in requests.datagrams() {
//!         server.handle_input(Duration::ZERO, alice, bytes, &mut responses);
//!     }
//!     requests.clear();
//!     for (socket, _, bytes) in responses.datagrams() {
//!         caller.handle_input(Duration::ZERO, socket, bob, bytes, &mut requests);
//!     }
//!     responses.clear();
//! }
//! assert_eq!(caller.stats().carried, 10);
//! assert_eq!(server.stats().byes, 10);
//! ```

mod arrivals;
mod caller;
mod cohorts;
mod law;
mod login;
mod outbox;
mod phones;
mod server;
mod stats;
mod template;
mod timers;

pub use arrivals::{Arrivals, Bursts, Ramp, Rate, Stream};
pub use caller::{Caller, CallerConfig, Habits};
pub use cohorts::Cohort;
pub use law::Law;
pub use outbox::Outbox;
pub use phones::{Account, Accounts, Phones, PhonesConfig, Turns};
pub use server::{Discipline, Processor, Server, ServerConfig, ServerStats, Service, Stall};
pub use stats::{Failure, Stats};
pub use timers::Retransmission;
pub use transaction::Transport;

/// More header fields than any message of a call through a few proxies has.
const HEADERS_MAX: usize = 128;
