//! Bytes and places in them.

use std::{io::Write, net::IpAddr};

/// A range of [`Message::bytes`](crate::Message::bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first byte's position.
    pub start: usize,
    /// The position after the last byte.
    pub end: usize,
}

/// Linear white space, folding included (RFC 3261 §25.1).
pub(crate) const fn is_lws(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Sets of characters, one bit each in [`SETS`].
pub(crate) mod set {
    /// Tokens (RFC 3261 §25.1).
    pub(crate) const TOKEN: u8 = 1;
    /// Host names and IPv4 addresses. The underscore isn't allowed in them, but too common to refuse.
    pub(crate) const HOST: u8 = 2;
    /// What can't stand in a URI.
    pub(crate) const NO_URI: u8 = 4;
    /// What ends a parameter's value.
    pub(crate) const VALUE_END: u8 = 8;
    /// What ends a parameter's name.
    pub(crate) const NAME_END: u8 = 16;
    /// Decimal digits.
    pub(crate) const DIGIT: u8 = 32;
    /// What ends the part of an address before its brackets or parameters.
    pub(crate) const ADDR_END: u8 = 64;
}

/// The sets that each byte is in.
static SETS: [u8; 256] = {
    let mut sets = [0; 256];
    let mut index = 0;
    while index < sets.len() {
        let byte = index as u8;
        let value_end = matches!(byte, b';' | b',' | b'"') || is_lws(byte);
        let is_host = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        let is_uri = byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>' | b'"');
        let members = [
            (set::TOKEN, is_token(byte)),
            (set::HOST, is_host),
            (set::NO_URI, !is_uri),
            (set::VALUE_END, value_end),
            (set::NAME_END, value_end || byte == b'='),
            (set::DIGIT, byte.is_ascii_digit()),
            (set::ADDR_END, matches!(byte, b'<' | b'"' | b';' | b',')),
        ];
        let mut at = 0;
        while at < members.len() {
            if members[at].1 {
                sets[index] |= members[at].0;
            }
            at += 1;
        }
        index += 1;
    }
    sets
};

/// Whether a byte is in one of the sets.
pub(crate) fn is_in(byte: u8, sets: u8) -> bool {
    SETS[usize::from(byte)] & sets != 0
}

const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~'
        )
}

/// Whether the text is a token of at least one character.
pub(crate) fn is_token_text(text: &[u8]) -> bool {
    !text.is_empty() && count_while(text, set::TOKEN) == text.len()
}

/// How many bytes come before the first that is in one of the sets.
#[inline]
pub(crate) fn count_until(bytes: &[u8], sets: u8) -> usize {
    let (fours, _) = bytes.as_chunks::<4>();
    let ends = |four: &[u8; 4]| {
        four.iter()
            .fold(0, |all, &byte| all | SETS[usize::from(byte)])
            & sets
            != 0
    };
    let mut at = 0;
    for four in fours {
        if ends(four) {
            break;
        }
        at += 4;
    }
    while at < bytes.len() && !is_in(bytes[at], sets) {
        at += 1;
    }
    at
}

/// How many bytes come before the first that is not in the set.
#[inline]
pub(crate) fn count_while(bytes: &[u8], set: u8) -> usize {
    let mut at = 0;
    while at < bytes.len() && is_in(bytes[at], set) {
        at += 1;
    }
    at
}

/// The position of the first such byte. What is searched is so short that choosing the widest vectors, as
/// `memchr::memchr` does at each call, costs more than it saves.
#[inline]
#[cfg(target_arch = "x86_64")]
pub(crate) fn find(bytes: &[u8], byte: u8) -> Option<usize> {
    memchr::arch::x86_64::sse2::memchr::One::new(byte)?.find(bytes)
}

/// The position of the first such byte.
#[inline]
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn find(bytes: &[u8], byte: u8) -> Option<usize> {
    memchr::memchr(byte, bytes)
}

/// The first position from `at` on that is not white space.
#[inline]
pub(crate) fn skip_lws(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && is_lws(bytes[at]) {
        at += 1;
    }
    at
}

/// The position after the last byte in `start..end` that is not white space.
pub(crate) fn trimmed_end(bytes: &[u8], start: usize, mut end: usize) -> usize {
    while end > start && is_lws(bytes[end - 1]) {
        end -= 1;
    }
    end
}

/// The text without white space around it.
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    let start = skip_lws(text, 0);
    &text[start..trimmed_end(text, start, text.len())]
}

/// The position after the quoted string that opens at `at`; none when it never closes.
pub(crate) fn quoted_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// A number of digits only; none when it does not fit.
pub(crate) fn number(text: &[u8]) -> Option<u32> {
    match digits(text) {
        (Some(value), []) => Some(value),
        _ => None,
    }
}

/// The number that the text begins with, and what follows it.
pub(crate) fn digits(text: &[u8]) -> (Option<u32>, &[u8]) {
    let count = count_while(text, set::DIGIT);
    let (digits, rest) = text.split_at(count);
    let value = digits.iter().try_fold(0u32, |value, &digit| {
        value.checked_mul(10)?.checked_add(u32::from(digit - b'0'))
    });
    (value.filter(|_| count > 0), rest)
}

/// Where `part`, a slice of `whole`, begins in it.
pub(crate) fn offset(whole: &[u8], part: &[u8]) -> usize {
    let offset = part.as_ptr().addr().wrapping_sub(whole.as_ptr().addr());
    debug_assert!(offset + part.len() <= whole.len());
    offset
}

/// Appends an address as it stands in a received parameter: IPv6 without brackets.
pub(crate) fn write_ip(out: &mut Vec<u8>, ip: IpAddr) {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            for (place, octet) in ip.octets().into_iter().enumerate() {
                if place > 0 {
                    out.push(b'.');
                }
                write_number(out, octet.into());
            }
        }
        IpAddr::V6(ip) => write!(out, "{ip}").expect("a Vec takes all"),
    }
}

/// Appends a number in decimal.
pub(crate) fn write_number(out: &mut Vec<u8>, value: u32) {
    let mut digits = [0; 10];
    let mut at = digits.len();
    let mut rest = value;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}
