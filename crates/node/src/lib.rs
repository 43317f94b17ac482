//! The node: it takes datagrams and time, and says which datagrams to send.
//!
//! It never touches a socket, a clock or an entropy source: time is a [`Duration`] since a zero
//! that the driver chose, randomness a seed. After each [`Node::handle_input`] or
//! [`Node::handle_timeout`], or after a batch of them, the driver sends what the [`Outbox`] holds
//! and clears it. Read [`Node`] and [`Shared`] first.
//!
//! [`Duration`]: std::time::Duration

mod branch;
pub mod config;
mod dialogs;
mod exchange;
mod explain;
mod io;
mod keys;
mod learn;
mod node;
mod orphans;
mod peers;
mod probe;
mod recount;
mod registrar;
mod relay;
mod report;
mod request;
mod response;
mod routing;
mod session;
mod shared;
mod snapshot;
mod stateful;
pub mod stats;
mod token;
mod transact;
mod transaction;
mod unlocated;

pub use branch::LISTENERS_MAX;
pub use config::Config;
pub use explain::{CallView, DecisionView, Forecast};
pub use io::{
    Answer, Ask, Datagram, Handover, Input, Name, Outbox, Question, QuestionId, Record, Transmit,
};
pub use node::Node;
pub use peers::PeerView;
pub use recount::Open;
pub use shared::{Member, ReloadError, Shared};
pub use snapshot::{PoolView, Snapshot};
