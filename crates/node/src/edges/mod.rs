//! Other edges before the same servers: what each tells the others of its ledger.

mod exchange;
mod peers;
mod report;

pub(crate) use self::exchange::Exchange;
pub use self::peers::PeerView;
pub(crate) use self::report::{FIRST_BYTE, read as read_report};
