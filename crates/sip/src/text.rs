//! Bytes and places in them.

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
    !text.is_empty() && text.iter().all(|&byte| is_in(byte, set::TOKEN))
}

/// The position of the first line feed. Lines are so short that a call to a vector search costs more.
#[inline(always)]
pub(crate) fn line_feed(bytes: &[u8]) -> Option<usize> {
    let (chunks, rest) = bytes.as_chunks::<8>();
    for (index, &chunk) in chunks.iter().enumerate() {
        let marks = marks_of(chunk, b'\n');
        if marks != 0 {
            return Some(index * 8 + first_mark(marks));
        }
    }
    let last = rest.iter().position(|&byte| byte == b'\n')?;
    Some(bytes.len() - rest.len() + last)
}

/// Sets the high bit of each of the eight bytes that is `byte`; right up to the first of them, which is all it is used for.
#[inline(always)]
pub(crate) const fn marks_of(bytes: [u8; 8], byte: u8) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let zeros = u64::from_le_bytes(bytes) ^ (ONES * byte as u64);
    zeros.wrapping_sub(ONES) & !zeros & (ONES << 7)
}

/// The index of the first byte that is marked, 8 if none is.
#[inline(always)]
pub(crate) const fn first_mark(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

/// The first position from `at` on that is not white space.
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
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
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
