//! The headers the crate knows, and finding one by its name.

use memchr::{memchr, memchr2};

use crate::text::{is_token_text, skip_lws, trimmed_end};

macro_rules! header_names {
    ($($variant:ident $text:literal $($compact:literal)?,)*) => {
        /// A header that the crate knows by name. Any other is passed on as it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum HeaderName {
            $(#[doc = concat!("`", $text, "`")] $variant,)*
        }

        impl HeaderName {
            /// Every variant, in the order of declaration.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name in full, as the RFCs spell it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// The header of this name, whatever its case, or of this compact form.
            pub fn from_bytes(name: &[u8]) -> Option<Self> {
                if name.len() < KEY_BYTES {
                    let mut padded = [0; KEY_BYTES];
                    padded[..name.len()].copy_from_slice(name);
                    return Self::from_key(lower_case(u128::from_le_bytes(padded)));
                }
                Self::ALL.iter().copied().find(|known| {
                    known.as_str().as_bytes().eq_ignore_ascii_case(name)
                })
            }

            /// The header whose name, in lower case and padded with zeros, makes this number.
            fn from_key(name: u128) -> Option<Self> {
                match name {
                    $(value if value == const { key($text) } => Some(Self::$variant),
                      $(value if value == const { key($compact) } => Some(Self::$variant),)?)*
                    _ => None,
                }
            }
        }
    };
}

header_names! {
    Via "Via" "v",
    From "From" "f",
    To "To" "t",
    CallId "Call-ID" "i",
    CSeq "CSeq",
    MaxForwards "Max-Forwards",
    Contact "Contact" "m",
    ContentLength "Content-Length" "l",
    ContentType "Content-Type" "c",
    Route "Route",
    RecordRoute "Record-Route",
    Supported "Supported" "k",
    Require "Require",
    ProxyRequire "Proxy-Require",
    Expires "Expires",
    SessionExpires "Session-Expires" "x",
    Replaces "Replaces",
    Join "Join",
    TargetDialog "Target-Dialog",
    ReferTo "Refer-To" "r",
    RetryAfter "Retry-After",
    RSeq "RSeq",
    RAck "RAck",
    SubscriptionState "Subscription-State",
    Event "Event" "o",
    Timestamp "Timestamp",
    Authorization "Authorization",
    ProxyAuthorization "Proxy-Authorization",
    ResourcePriority "Resource-Priority",
    Path "Path",
}

const _: () = assert!(
    HeaderName::ALL.len() <= u32::BITS as usize,
    "a set of headers is a u32"
);

/// Names shorter than this are compared as one number.
const KEY_BYTES: usize = 16;

/// The number that [`HeaderName::from_key`] knows a name by; never met for names that are too long.
const fn key(name: &str) -> u128 {
    let mut padded = [0; KEY_BYTES];
    let mut at = 0;
    while at < name.len() && name.len() < KEY_BYTES {
        padded[at] = name.as_bytes()[at].to_ascii_lowercase();
        at += 1;
    }
    if at == 0 {
        u128::MAX
    } else {
        u128::from_le_bytes(padded)
    }
}

/// Sets bit 5 of the bytes that have bit 6: letters lose their case, digits and hyphens stay.
const fn lower_case(name: u128) -> u128 {
    const BIT_6: u128 = u128::from_le_bytes([0x40; KEY_BYTES]);
    name | ((name & BIT_6) >> 1)
}

/// One header field's place: its first byte, its value without white space around it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Field {
    pub(crate) line: u16,
    pub(crate) value: u16,
    pub(crate) end: u16,
}

/// A header field with all its continuation lines.
pub(crate) struct Line {
    pub(crate) known: Option<HeaderName>,
    /// Whether there is a name with a colon after it.
    pub(crate) named: bool,
    pub(crate) field: Field,
    /// Where the next line begins.
    pub(crate) next: usize,
}

/// Reads the header field at `at`; none when its line does not end. The bytes are at most 65,535.
pub(crate) fn read_line(bytes: &[u8], at: usize) -> Option<Line> {
    let (known, colon) = match short_name(bytes, at) {
        Some((known, colon)) => (known, Some(colon)),
        None => any_name(bytes, at),
    };
    let mut value = colon.map_or(at, |colon| colon + 1);
    let mut next = value + memchr(b'\n', &bytes[value..])? + 1;
    while let Some(b' ' | b'\t') = bytes.get(next) {
        next += memchr(b'\n', &bytes[next..])? + 1;
    }
    value = skip_lws(&bytes[..next], value);
    let end = trimmed_end(bytes, value, next);
    let field = Field {
        line: at as u16,
        value: value as u16,
        end: end as u16,
    };
    Some(Line {
        known,
        named: colon.is_some(),
        field,
        next,
    })
}

/// A name of less than 16 bytes with the colon right after it: the usual case, without a loop.
fn short_name(bytes: &[u8], at: usize) -> Option<(Option<HeaderName>, usize)> {
    const ONES: u128 = u128::from_le_bytes([0x01; KEY_BYTES]);
    const HIGHS: u128 = u128::from_le_bytes([0x80; KEY_BYTES]);
    const COLONS: u128 = u128::from_le_bytes([b':'; KEY_BYTES]);
    let word = u128::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
    let zeros = word ^ COLONS;
    // The lowest byte that this marks is a colon; those above it may be marked by the borrow.
    let marks = zeros.wrapping_sub(ONES) & !zeros & HIGHS;
    let colon = marks.trailing_zeros() / 8;
    if marks == 0 || colon == 0 {
        return None;
    }
    let name = word & (u128::MAX >> (128 - colon * 8));
    HeaderName::from_key(lower_case(name)).map(|known| (Some(known), at + colon as usize))
}

/// A name of any length, with white space before the colon (RFC 3261 §25.1, HCOLON), or none.
fn any_name(bytes: &[u8], at: usize) -> (Option<HeaderName>, Option<usize>) {
    let line = &bytes[at..];
    match memchr2(b':', b'\n', line) {
        Some(length) if line[length] == b':' => {
            let name = line[..length].trim_ascii_end();
            let colon = is_token_text(name).then_some(at + length);
            (HeaderName::from_bytes(name), colon)
        }
        _ => (None, None),
    }
}
