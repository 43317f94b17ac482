//! Replays captured traffic through a node on virtual time, and sets its decisions beside those that
//! were taken.
//!
//! [`edges`] finds the addresses of the edge in a capture, [`History`] collects what it did, and
//! [`replay`] lets a node do it again. Callers send what they sent, at the times at which they did.
//! Servers take as long as they took when they had nothing else to do, one request after the other.
//! Callees ring and hang up as they did.
//!
//! The crate takes bytes and configurations: it opens no file and reads no clock.

mod edges;
mod history;
mod replay;
mod report;
mod server;
mod speech;

pub use edges::{Search, edges};
pub use history::{History, Taken};
pub use replay::replay;
pub use report::{Difference, Outcome, Row, quantile};

/// Header fields of a message that are looked at.
const HEADERS_MAX: usize = 256;
