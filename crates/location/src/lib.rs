//! The records of a location service: the users who may register, and the contacts that reach them.
//!
//! Both kinds are kept under an [`Aor`]. All [`Binding`]s of an address-of-record make one record, its
//! [`Location`]; a [`Subscriber`] makes another. The crate converts records to bytes and back; a store keeps the
//! bytes and does not interpret them. Times are wall time, because they outlive a process: a
//! [`std::time::Duration`] since the UNIX epoch.
//!
//! The crate never reads a clock and does no I/O. Read [`Aor`] and [`Location`] first.
//!
//! ```
//! use std::time::Duration;
//! use location::{Aor, Binding, Location, UsedNonces};
//!
//! let uri = sip::Uri::parse(b"sip:%61lice@Example.COM;user=phone").expect("it is one");
//! let aor = Aor::of(&uri).expect("it names a user");
//! assert_eq!(aor.key(), b"aor:alice@example.com");
//!
//! let phone = Binding {
//!     contact: "sip:alice@192.0.2.7:5060",
//!     q: 1000,
//!     expires: Duration::from_secs(1_700_003_600),
//!     call_id: "7@192.0.2.7",
//!     cseq: 1,
//!     path: "",
//!     received: "192.0.2.7:5060".parse().expect("it is an address"),
//!     updated: Duration::from_secs(1_700_000_000),
//!     device: location::device("<urn:uuid:00000000-0000-1000-8000-aabbccddeeff>"),
//!     reg_id: 1,
//! };
//! let location = Location { bindings: vec![phone], nonces: UsedNonces::default() };
//! let record = location.write();
//! assert_eq!(Location::read(&record), Ok(location));
//! ```

mod aor;
mod binding;
mod codec;
mod device;
mod nonces;
mod subscriber;

pub use aor::Aor;
pub use binding::{Binding, Location};
pub use codec::Corrupt;
pub use device::device;
pub use nonces::{NONCE_LIFETIME, UsedNonce, UsedNonces};
pub use subscriber::Subscriber;
