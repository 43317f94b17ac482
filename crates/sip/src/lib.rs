//! SIP messages as borrowed views: find, read, rewrite.
//!
//! One pass over a datagram finds its start line and the first field of every header that the crate
//! knows. Everything else is read on demand, and refers to the datagram's bytes. [`Edits`] collect
//! the changes of a proxy and apply them as copies of slices, so the crate never prints a whole
//! message again.
//!
//! The crate never reads a clock, opens a socket, or allocates while it parses. Read [`Message`]
//! and [`Edits`] first.
//!
//! ```
//! let text = b"OPTIONS sip:bob@example.com SIP/2.0\r\n\
//!     Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1;rport\r\n\
//!     Max-Forwards: 70\r\nFrom: <sip:a@example.com>;tag=1\r\nTo: <sip:bob@example.com>\r\n\
//!     Call-ID: 7@192.0.2.1\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n";
//! let message = sip::Message::parse(text, 128).expect("it is well formed");
//! assert_eq!(message.validate(), Ok(()));
//! assert_eq!(message.top_via().expect("it has one").host, b"192.0.2.1");
//!
//! let (mut edits, mut out) = (sip::Edits::default(), Vec::new());
//! edits.push_via(&message, |out| out.extend_from_slice(b"SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK2"));
//! edits.set_max_forwards(&message, 69);
//! edits.apply(message.bytes(), &mut out);
//! assert_eq!(sip::Message::parse(&out, 128).expect("it still is").vias().count(), 2);
//! ```

mod address;
pub mod digest;
mod edits;
mod fault;
mod framing;
mod glance;
mod header;
mod headers;
mod message;
mod method;
mod name_addr;
mod overload;
mod params;
mod reader;
mod reply;
mod scan;
mod start_line;
mod text;
mod uri;
mod validate;
mod values;
mod via;
mod via_params;

pub use address::is_private;
pub use edits::Edits;
pub use fault::{Fault, ParseError};
pub use framing::{Frame, FrameFault, FrameLimits, Framer};
pub use glance::Glance;
pub use header::HeaderName;
pub use message::{CSeq, MESSAGE_BYTES_MAX, Message};
pub use method::Method;
pub use name_addr::NameAddr;
pub use overload::{OVERLOAD_OFFER, OVERLOAD_SEQUENCE_PER_S, Overload, OverloadTerms};
pub use params::Param;
pub use reply::{Back, reason_phrase, write_reply, write_reply_with};
pub use start_line::StartLine;
pub use text::Span;
pub use uri::{Host, Scheme, Uri, UriError};
pub use validate::Essentials;
pub use via::{Rport, Via};
