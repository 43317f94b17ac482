//! Places work on servers: it decides which server gets the next arrival, and keeps what each
//! server has open.
//!
//! Each server has three parts. Its *ledger* contains the open calls and transactions, and the cost
//! of the transactions, which is the work. Its *response times* are recent means. Its *standing*
//! contains its capacity, its health, and whether it drains. A [`Pool`] applies a [`Policy`] to
//! them and counts each placement in the same step. All methods take `&self`: threads share servers
//! and pools through atomics.
//!
//! The crate does not interpret SIP, reads no clock, has no generator and starts no thread. Time is
//! a [`Duration`] since a zero that the caller chooses, and randomness comes from the caller's
//! [`fastrand::Rng`].
//!
//! Read [`Server`] and [`Pool`] first.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use balance::{Arrival, Cost, Policy, Pool, Server, ServerId};
//!
//! let servers = (0..4)
//!     .map(|i| Arc::new(Server::new(ServerId(i), &format!("10.0.0.{i}:5060"), 1.0)))
//!     .collect();
//! let pool = Pool::new(Policy::Tlwl, servers, Duration::ZERO);
//! let arrival = Arrival { key: b"call-1", cost: Cost::INVITE, call: true, avoid: &[] };
//!
//! let mut rng = fastrand::Rng::with_seed(7);
//! let server = pool.place(Duration::ZERO, &arrival, &mut rng).expect("all are up");
//! assert_eq!(server.work(), 1.75);
//! server.close_transaction(Cost::INVITE);
//! server.close_call();
//! assert_eq!(server.work(), 0.0);
//! ```

mod cost;
mod elsewhere;
mod hash;
mod ledger;
mod lottery;
mod maglev;
mod peak;
mod policy;
mod pool;
mod response_times;
mod round_robin;
mod server;
mod standing;
mod wishes;

pub use cost::Cost;
pub use elsewhere::Elsewhere;
pub use ledger::TRANSACTIONS_MAX;
pub use policy::{Policy, UnknownPolicy};
pub use pool::LAST_RESORT_EVERY;
pub use pool::{Arrival, Pool};
pub use server::Server;
pub use standing::{BACK_OFF_MAX, Health, Ineligible, Judge, RETRY_AFTER, RETRY_MAX};

use std::ops::RangeInclusive;
use std::time::Duration;

/// A server's number within one process. It is stable while anything refers to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId(pub u16);

/// The allowed capacities. They are relative: twice the capacity gets twice the work.
pub const CAPACITY: RangeInclusive<f64> = 0.001..=1_000_000.0;

/// Keeps what it holds off its neighbours' cache lines: 128 bytes, as processors fetch in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded<T>(T);

/// Nanoseconds since the driver's zero; enough for 584 years.
fn nanos(since_zero: Duration) -> u64 {
    since_zero
        .as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::from(since_zero.subsec_nanos()))
}
