//! Users whose calls go before others.

use std::ops::Range;

use super::lane::{LOWERED, word};

/// Users at most, and bytes of each: more would not fit in a program of the kernel.
pub const USERS_MAX: usize = 32;
/// See [`USERS_MAX`].
pub const USER_BYTES_MAX: usize = 32;

/// Where the scheme of an INVITE's Request-URI is, in bytes.
pub(super) const SCHEME: Range<usize> = 7..11;
pub(super) const URN: u32 = u32::from_be_bytes(*b"urn:");
/// Schemes that a user follows.
pub(super) const SCHEMES: [u32; 2] = [u32::from_be_bytes(*b"sip:"), u32::from_be_bytes(*b"tel:")];
/// How what follows `urn:` begins in a call for help (RFC 5031): words in small letters, and which of their bits count.
pub(super) const FOR_HELP: [(u32, u32); 3] = [
    (u32::from_be_bytes(*b"serv"), u32::MAX),
    (u32::from_be_bytes(*b"ice:"), u32::MAX),
    (u32::from_be_bytes(*b"sos\0"), 0xffff_ff00),
];
const SIPS: &[u8] = b"sips:";

/// What follows a user, or the number of a `tel` URI.
pub(super) const ENDS: [u8; 4] = *b"@;: ";

/// Whether a URI is that of one of these users, as they are written.
pub(crate) fn is_of(users: &[String], uri: &[u8]) -> bool {
    !users.is_empty()
        && user_of(uri).is_some_and(|user| users.iter().any(|it| it.as_bytes() == user))
}

fn user_of(uri: &[u8]) -> Option<&[u8]> {
    let rest = match uri.get(..SIPS.len()) {
        Some(scheme) if scheme.eq_ignore_ascii_case(SIPS) => &uri[SIPS.len()..],
        _ if SCHEMES.contains(&(word(uri.get(..4)?) | LOWERED)) => &uri[4..],
        _ => return None,
    };
    rest.split(|byte| ENDS.contains(byte)).next()
}

/// Whether the first bytes of an INVITE show a call for help, or to one of these users.
pub(super) fn begins(invite: &[u8], users: &[String]) -> bool {
    let scheme = word(&invite[SCHEME]) | LOWERED;
    let is_for_help = || {
        let words = invite[SCHEME.end..].chunks_exact(4).map(word);
        let mut pairs = words.zip(FOR_HELP);
        pairs.all(|(word, (expected, mask))| (word | LOWERED) & mask == expected)
    };
    scheme == URN && is_for_help()
        || SCHEMES.contains(&scheme) && is_of(users, &invite[SCHEME.start..])
}
