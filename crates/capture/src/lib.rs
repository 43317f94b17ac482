//! Makes a layered queueing network of SIP servers from packet captures of their traffic.
//!
//! The method is that of Franks, Lau and Hrischuk, "Performance Measurements and Modeling of a
//! Java-based Session Initiation Protocol (SIP) Application Server" (QoSA 2011). It runs here
//! without manual steps.
//!
//! The crate takes bytes and returns models. It opens no file and reads no clock. Read [`Trace`]
//! first.

mod calls;
mod datagrams;
mod flows;
mod ladder;
mod merge;
mod model;
mod names;
mod read;
mod roles;
mod sample;
mod study;
mod times;
mod trace;
mod turns;
mod unused;
mod view;
mod warning;
mod way;
mod work;

pub use datagrams::{Datagram, Rest, datagrams};
pub use model::{Demand, Machines, customers};
pub use read::{Decipher, OpenError};
pub use roles::{Role, Told};
pub use sample::Sample;
pub use study::{Ended, Flow, Link, Options, Place, Row, Rung, Study, StudyError};
pub use trace::Trace;
pub use unused::{Reason, Unused};
pub use warning::{Warning, WarningKind};
