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

/// A character of a token (RFC 3261 §25.1).
pub(crate) const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~'
        )
}

/// Whether the text is a token of at least one character.
pub(crate) fn is_token_text(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| is_token(byte))
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
        (Some(value), rest) if rest.is_empty() => Some(value),
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
