//! Where a node keeps what it must remember: entries by number, their timers, copies of messages.
//!
//! Everything here has a limit that is known when it is made, and its memory is used again. Entries
//! are named by an [`Id`] of their type, so that the number of one thing can't be taken for that of
//! another. The crate knows nothing of SIP, reads no clock and does no I/O: time is a [`Duration`]
//! since a zero that the driver chose. Read [`Table`] first; it stands on
//! [`Slab`] and [`Wheel`].
//!
//! ```
//! use std::time::Duration;
//! use slots::Table;
//!
//! let mut calls = Table::new(1_000, Duration::ZERO);
//! let call = calls.insert("alice to bob").expect("there is room");
//! calls.arm(call, Duration::from_secs(3));
//! assert_eq!(calls.pop_due(Duration::from_secs(4)), Some(call));
//! assert_eq!(calls.remove(call), "alice to bob");
//! ```
//!
//! [`Duration`]: std::time::Duration

mod buffers;
mod id;
mod slab;
mod table;
mod wheel;

pub use buffers::{Buffers, Kept};
pub use id::Id;
pub use slab::Slab;
pub use table::{Table, Ticket};
pub use wheel::Wheel;
