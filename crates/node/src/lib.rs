//! The node: it takes datagrams and time, and says which datagrams to send.
//!
//! It never touches a socket, a clock or an entropy source: time is a [`Duration`] since a zero
//! that the driver chose, randomness a seed. After each [`Node::handle_input`] or
//! [`Node::handle_timeout`], or after a batch of them, the driver sends what the [`Outbox`] holds
//! and clears it. Read [`Node`] and [`Shared`] first.
//!
//! [`Duration`]: std::time::Duration

mod admission;
mod behind;
mod calls;
mod changes;
pub mod config;
mod context;
mod control;
mod decisions;
mod edges;
mod explain;
pub mod figures;
mod health;
pub mod histogram;
mod io;
mod keep_alive;
mod listener;
mod member;
mod node;
mod probes;
mod proxy;
mod question;
mod recount;
mod registrar;
mod room;
mod routes;
mod service_times;
mod shared;
mod snapshot;
pub mod stats;
mod strangers;
pub mod tap;
mod tapped;
mod unsent;
mod wire;
mod work;

pub use abuse::{BANS_MAX, Ban, Guard, Notice, Source};
pub use admission::{
    lane::{Lane, Steering, steering_past_lanes},
    program::Instruction,
    sieve::Sieve,
    urgent,
};
pub use changes::{Cause, Change};
pub use config::Config;
pub use custody::Figures as CustodyFigures;
pub use decisions::{DecisionView, LedgerView};
pub use edges::PeerView;
pub use explain::{CallView, Forecast, PassedOver};
pub use io::{Datagram, Handover, Input, Named, Outbox, Quotation, Transmit, Work};
pub use member::Member;
pub use node::Node;
pub use overload::{Algorithm, Neighbours};
pub use question::{Answer, Ask, Name, Question, QuestionId, Record};
pub use recount::Open;
pub use shared::{ReloadError, Shared};
pub use snapshot::{PoolView, Snapshot};
pub use transaction::{ConnectionId, Flow, NextHop, Transport};
pub use wire::branch::LISTENERS_MAX;
