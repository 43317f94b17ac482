//! Overload control, at a node and between nodes.
//!
//! A [`Delay`] tells that a node gets more than it can serve. Then it lets in a [`Share`] of that, which follows what is
//! served. Its [`Utilisation`] says how much room there is, and its [`Throughput`] what it could serve.
//!
//! Between nodes there are RFC 7339 (loss) and RFC 7415 (rate).
//! A server that can't serve all that comes tells its clients how much to send. [`Neighbours`] is the
//! server's side: it counts what each neighbour offers, and divides the capacity among them by an
//! [`Allotment`]. [`Restriction`] is the client's side: it keeps what one server has told, and says
//! whether a request may go there.
//!
//! What is counted and withheld are *new* requests, those that begin something. The messages of a call
//! that is withheld stay away with it, so a server that speaks of a share of all requests gets that
//! share.
//!
//! The crate knows nothing of SIP, reads no clock and does no I/O: time is a [`Duration`] since a zero
//! that the driver chose. Many threads share a table and a restriction. What happens for each request
//! takes no lock and allocates nothing.
//!
//! ```
//! use std::time::Duration;
//! use overload::{Algorithm, Class, Neighbour, Neighbours, Restriction};
//!
//! let (server, client) = (Neighbours::new(1), Restriction::default());
//! server.set_capacity(0, Some(100.0));
//! let mut sent = 0;
//! for ms in 0..2_000 {
//!     let now = Duration::from_millis(ms);
//!     if !client.admits(now, Class::New, 0) {
//!         continue;
//!     }
//!     client.pass(now);
//!     sent += 1;
//!     let of = Neighbour { key: 7, weight: 1 };
//!     server.note(now, of, Some(Algorithm::Rate), 1);
//!     if let Some(terms) = server.terms(now, 7) {
//!         client.observe(now, &terms);
//!     }
//! }
//! assert!((200..220).contains(&sent), "{sent}: 105 in a second");
//! ```
//!
//! [`Duration`]: std::time::Duration

mod allotment;
mod delay;
mod fair;
mod in_flight;
mod limit;
mod neighbours;
mod restriction;
mod share;
mod standstill;
mod terms;
mod throughput;
mod utilisation;

pub use allotment::{Allotment, SURPLUS};
pub use delay::{BEHIND, Delay};
pub use limit::{Limit, Wait};
pub use neighbours::{INTERVAL, NEIGHBOURS_MAX, Neighbour, Neighbours};
pub use restriction::{Class, Restriction};
pub use share::{Read, Share, Waiting};
pub use standstill::Standstill;
pub use terms::{Algorithm, Terms};
pub use throughput::Throughput;
pub use utilisation::Utilisation;
