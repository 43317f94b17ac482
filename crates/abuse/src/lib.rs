//! Who is heard: token buckets for strangers, failed logins, and bans with an end.
//!
//! A [`Source`] is an IPv4 address or an IPv6 network of 64 bits. The [`Guard`] follows sources in
//! tables of a fixed size. Many threads share one guard: what happens for each message takes no lock
//! and allocates nothing.
//!
//! Over UDP anybody can write anybody's address on a datagram. So the guard tells two kinds of
//! evidence apart:
//! - What merely *claims* to come from a source, such as rubbish, costs its bucket tokens. An empty
//!   bucket silences the source until it has a token again, but never one that has logged in or shown
//!   otherwise during the last two hours that it hears us. So nobody can silence a known source by
//!   forging its address. Whoever was never heard before can be silenced by somebody who forges their
//!   address; nothing tells the two apart.
//! - What *proves* that the source receives our datagrams, such as wrong credentials for a nonce that
//!   was sent to it, counts towards a ban, unless a user has logged in from there.
//!
//! The tables forget. If a place is needed and none is free, the least entry goes: the bucket with the
//! most tokens, or what ends soonest. Who is forgotten is heard, so a flood of forged addresses can't
//! make anybody lose. It can't hide the flood of one address either: that one's bucket is the emptiest.
//! A ban is never forgotten; if there is no room for another, the other is not made, and that is
//! counted.
//!
//! The crate knows nothing of SIP, reads no clock and does no I/O: time is a [`Duration`] since a zero
//! that the driver chose.
//!
//! ```
//! use std::{net::IpAddr, time::Duration};
//! use abuse::{Guard, Hearing, Rules};
//!
//! let rules = Rules { rate: 10, burst: 2, ..Rules::default() };
//! let guard = Guard::new(&[7; 16], 1_024);
//! let (now, stranger) = (Duration::from_secs(9), IpAddr::from([203, 0, 113, 9]));
//! for _ in 0..3 {
//!     assert_eq!(guard.hear(now, &rules, stranger), Hearing::Heard);
//!     guard.charge(now, &rules, stranger);
//! }
//! assert_eq!(guard.hear(now, &rules, stranger), Hearing::Limited);
//! let later = now + Duration::from_millis(100);
//! assert_eq!(guard.hear(later, &rules, stranger), Hearing::Heard);
//! ```
//!
//! [`Duration`]: std::time::Duration

mod ban;
mod guard;
mod moments;
mod notice;
mod source;

pub use ban::{BANS_MAX, Ban};
pub use guard::{Failure, Guard, Hearing, Login, Rules};
pub use notice::{NOTICES_MAX, Notice};
pub use source::Source;
