//! What the dashboard shows: the node's state as it changes, its history and its log.
//!
//! The pages are plain files in crates/sipyard/web, which the program contains.

pub(crate) mod files;
pub(crate) mod history;
pub(crate) mod keeper;
pub(crate) mod live;
pub(crate) mod log;
mod patch;
pub(crate) mod servers;
