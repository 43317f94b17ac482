//! TLS as a layer of connections, by rustls.
//!
//! A [`Server`] takes handshakes of clients and shows the [`Identity`] that fits; a [`Client`] begins handshakes and
//! checks names as SIP does (RFC 5922). Both make a [`Session`] for each connection, which is a [`stream::Layer`]. A new
//! configuration is a new `Server` or `Client`; sessions of the old one go on. What [`Trust`] and `Identity` read
//! from files is told in full if it can't be used, see [`Error`].
//!
//! Sessions are resumed by tickets that any node of a cluster opens, as their keys come from the cluster's secret and
//! the time. Who has the secret can read recorded TLS 1.2 sessions; TLS 1.3 agrees on new keys also when it resumes.
//!
//! [`Overheard`] reads the connections of others in captures, if their [`Secrets`] are known.
//!
//! The crate opens no socket and reads no clock; it reads the files that it is told to. rustls takes its entropy from
//! the system.

mod client;
mod error;
mod identity;
mod overheard;
mod server;
mod session;
mod tickets;
mod trust;

pub use client::{Client, Naming};
pub use error::{Error, Problem};
pub use identity::{Identity, Names};
pub use overheard::{Overheard, Secrets};
pub use server::{Clients, Server};
pub use session::{Session, Wall};
pub use trust::{Trust, prepare_thread};
