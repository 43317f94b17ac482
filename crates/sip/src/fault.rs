//! The faults of messages: those that get an answer, and those that don't.

use std::fmt;

/// Why bytes are not a message that can be answered. The node drops them silently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseError {
    /// Nothing but line ends: a keep-alive (RFC 5626 §3.5.1), or nothing at all.
    KeepAlive,
    /// More than [`MESSAGE_BYTES_MAX`](crate::MESSAGE_BYTES_MAX) bytes.
    TooLong,
    /// The first line is neither a request line nor a status line.
    NotSip,
    /// A status line without a status code from 100 to 699.
    BadStatus,
    /// The empty line that ends the headers is missing.
    Truncated,
}

impl ParseError {
    /// Every variant, in the order of declaration, so that `error as usize` is its index.
    pub const ALL: [Self; 5] = [
        Self::KeepAlive,
        Self::TooLong,
        Self::NotSip,
        Self::BadStatus,
        Self::Truncated,
    ];

    /// A short label for counters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KeepAlive => "keep_alive",
            Self::TooLong => "too_long",
            Self::NotSip => "not_sip",
            Self::BadStatus => "bad_status",
            Self::Truncated => "truncated",
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KeepAlive => "nothing but line ends",
            Self::TooLong => "more bytes than a message may have",
            Self::NotSip => "no SIP start line",
            Self::BadStatus => "no status code from 100 to 699",
            Self::Truncated => "no empty line after the headers",
        })
    }
}

impl std::error::Error for ParseError {}

/// A fault of a message whose sender can be told. A request with a fault is answered with
/// [`status`](Self::status) and [`reason`](Self::reason); a response with a fault is dropped.
///
/// A fault of a header means that the header is malformed, missing, or present too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The request line has too much white space, or a method that is not a token.
    StartLine,
    /// The protocol's version is not 2.0.
    Version,
    /// A header field has no name or no colon.
    HeaderField,
    /// There are more header fields than the reader allows. Those beyond are not read.
    TooManyHeaders,
    /// The Request-URI is malformed.
    RequestUri,
    /// The Request-URI's scheme is not sip, sips or tel.
    UriScheme,
    /// Via.
    Via,
    /// From.
    From,
    /// To.
    To,
    /// Call-ID.
    CallId,
    /// CSeq.
    CSeq,
    /// CSeq's method is not the request's.
    CSeqMethod,
    /// Max-Forwards, which is at most 255.
    MaxForwards,
    /// Route.
    Route,
    /// Record-Route.
    RecordRoute,
    /// Path.
    Path,
    /// Contact.
    Contact,
    /// Content-Length.
    ContentLength,
    /// The body is shorter than Content-Length says.
    Body,
}

impl Fault {
    /// The status code of the answer.
    pub const fn status(self) -> u16 {
        match self {
            Self::Version => 505,
            Self::UriScheme => 416,
            _ => 400,
        }
    }

    /// The reason phrase of the answer.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::StartLine => "Bad Request-Line",
            Self::Version => "Version Not Supported",
            Self::HeaderField => "Bad Header Field",
            Self::TooManyHeaders => "Too Many Header Fields",
            Self::RequestUri => "Bad Request-URI",
            Self::UriScheme => "Unsupported URI Scheme",
            Self::Via => "Bad Via",
            Self::From => "Bad From",
            Self::To => "Bad To",
            Self::CallId => "Bad Call-ID",
            Self::CSeq => "Bad CSeq",
            Self::CSeqMethod => "CSeq Method Mismatch",
            Self::MaxForwards => "Bad Max-Forwards",
            Self::Route => "Bad Route",
            Self::RecordRoute => "Bad Record-Route",
            Self::Path => "Bad Path",
            Self::Contact => "Bad Contact",
            Self::ContentLength => "Bad Content-Length",
            Self::Body => "Body Shorter Than Content-Length",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for Fault {}
