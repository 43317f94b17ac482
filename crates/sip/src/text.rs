//! Bytes and places in them.

use std::{io::Write, net::IpAddr};

use crate::scan::seek;

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

/// The characters of tokens (RFC 3261 §25.1).
static IS_TOKEN: [bool; 256] = {
    let mut is_in = [false; 256];
    let mut index = 0;
    while index < is_in.len() {
        is_in[index] = is_token(index as u8);
        index += 1;
    }
    is_in
};

const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~'
        )
}

/// Whether the text is a token of at least one character.
pub(crate) fn is_token_text(text: &[u8]) -> bool {
    !text.is_empty() && token_length(text) == text.len()
}

/// How many bytes come before the first that can't be in a token.
#[inline]
pub(crate) fn token_length(bytes: &[u8]) -> usize {
    let is_end = |&byte: &u8| !IS_TOKEN[usize::from(byte)];
    bytes.iter().position(is_end).unwrap_or(bytes.len())
}

/// The position of the first such byte.
#[inline]
pub(crate) fn find(bytes: &[u8], byte: u8) -> Option<usize> {
    let at = seek(bytes, |block| block.is(byte));
    (at < bytes.len()).then_some(at)
}

/// What follows the line ends at the beginning. RFC 3261 §7.5
pub(crate) fn skip_line_ends(bytes: &[u8]) -> &[u8] {
    let leading = bytes
        .iter()
        .take_while(|byte| matches!(byte, b'\r' | b'\n'))
        .count();
    &bytes[leading..]
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

/// A number of digits only; none when it does not fit.
pub(crate) fn number(text: &[u8]) -> Option<u32> {
    match digits(text) {
        (Some(value), []) => Some(value),
        _ => None,
    }
}

/// The number that the text begins with, and what follows it.
pub(crate) fn digits(text: &[u8]) -> (Option<u32>, &[u8]) {
    const TOO_MUCH: u64 = 1 << u32::BITS;
    let mut value = 0;
    let mut rest = text;
    while let [digit @ b'0'..=b'9', behind @ ..] = rest {
        value = (value * 10 + u64::from(digit - b'0')).min(TOO_MUCH);
        rest = behind;
    }
    let value = u32::try_from(value).ok();
    (value.filter(|_| rest.len() < text.len()), rest)
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
