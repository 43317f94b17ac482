//! Simulates nodes, callers and servers on a virtual clock and network, without I/O.
//!
//! A [`World`] contains the parties: real [`node::Node`]s, and real [`load`] callers and servers.
//! It moves time from event to event, so an hour of calls takes as long as its messages cost. Runs
//! with the same seed are identical bit for bit. An observer ([`Watch`]) can print the events
//! ([`Trace`]) or hash them ([`Digest`]). This crate uses no socket, clock, thread or entropy
//! source. Read [`World`] and [`Network`] first.

mod door;
mod edge;
mod estimate;
mod experiment;
pub mod explore;
pub mod farm;
mod flights;
mod host;
mod nat;
mod network;
mod occupancy;
mod party;
mod peak;
mod processor;
mod setup;
mod stages;
mod store;
mod streams;
mod trace;
mod wakes;
mod watch;
mod world;

pub use door::Scheme;
pub use edge::{Alter, Edge, Machine};
pub use estimate::Estimate;
pub use experiment::{Action, Deed, Experiment, Noise, Outcome, Span, Who, run};
pub use host::{Pace, Quota};
pub use nat::Nat;
pub use network::{Bottleneck, Link, Network};
pub use occupancy::Occupancy;
pub use party::{Death, PartyId};
pub use peak::{Criterion, Search};
pub use processor::Capacity;
pub use setup::{Calls, Cluster, ServerSetup, Setup, edge_address, server_address};
pub use stages::{Duty, Second, node_address};
pub use store::Store;
pub(crate) use streams::IDLE_MAX;
pub use streams::{Buffers, Conduct};
pub use trace::{LEGEND, Trace};
pub use watch::{Digest, Event, Watch, What};
pub use world::World;

/// More header fields than any message of a simulated call has.
const HEADERS_MAX: usize = 128;
