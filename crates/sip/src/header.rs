//! The headers the crate knows, and finding one by its name.

use memchr::memchr2;

use crate::text::{find, is_token_text, skip_lws, trimmed_end};

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
        }

        /// All names and compact forms.
        const SPELLINGS: &[(&str, HeaderName)] =
            &[$(($text, HeaderName::$variant), $(($compact, HeaderName::$variant),)?)*];
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

impl HeaderName {
    /// The header of this name, whatever its case, or of this compact form.
    pub fn from_bytes(name: &[u8]) -> Option<Self> {
        if name.len() < KEY_BYTES {
            let mut padded = [0; KEY_BYTES];
            padded[..name.len()].copy_from_slice(name);
            return Self::from_key(lower_case(words(&padded)));
        }
        let is_spelling = |text: &str| text.as_bytes().eq_ignore_ascii_case(name);
        SPELLINGS
            .iter()
            .find(|(text, _)| is_spelling(text))
            .map(|&(_, known)| known)
    }

    /// The header whose name in lower case makes this key.
    fn from_key(key: Key) -> Option<Self> {
        let index = usize::from(SLOTS[slot(key)]);
        (KEYS[index] == key).then(|| SPELLINGS[index].1)
    }
}

/// A name shorter than [`KEY_BYTES`] and zeros behind it, as two numbers: quick to compare and to hash.
type Key = [u64; 2];

const KEY_BYTES: usize = 16;

/// The key of a spelling that is too long for one; no name makes it.
const NO_KEY: Key = [u64::MAX; 2];

const KEYS: [Key; SPELLINGS.len()] = {
    let mut keys = [NO_KEY; SPELLINGS.len()];
    let mut index = 0;
    while index < keys.len() {
        let name = SPELLINGS[index].0.as_bytes();
        if name.len() < KEY_BYTES {
            let mut padded = [0; KEY_BYTES];
            padded.split_at_mut(name.len()).0.copy_from_slice(name);
            keys[index] = lower_case(words(&padded));
        }
        index += 1;
    }
    keys
};

/// The index of the spelling that hashes to each slot; any index where none does.
const SLOTS: [u8; 1 << SLOT_BITS] = {
    let mut slots = [0; 1 << SLOT_BITS];
    let mut taken = [false; 1 << SLOT_BITS];
    let mut index = 0;
    while index < KEYS.len() {
        let slot = slot(KEYS[index]);
        if KEYS[index][0] != NO_KEY[0] {
            assert!(!taken[slot], "look for another SLOT_MULTIPLIER");
            taken[slot] = true;
            slots[slot] = index as u8;
        }
        index += 1;
    }
    slots
};

const SLOT_BITS: u32 = 7;

/// Any number that gives each spelling a slot of its own, found by trying.
const SLOT_MULTIPLIER: u64 = 0x4be0_3db0_dc25_74bd;

const fn slot(key: Key) -> usize {
    ((key[0] ^ key[1]).wrapping_mul(SLOT_MULTIPLIER) >> (u64::BITS - SLOT_BITS)) as usize
}

const fn words(bytes: &[u8; KEY_BYTES]) -> Key {
    let both = u128::from_le_bytes(*bytes);
    [both as u64, (both >> u64::BITS) as u64]
}

/// Sets bit 5 of the bytes that have bit 6: letters lose their case, digits and hyphens stay.
const fn lower_case(key: Key) -> Key {
    const BIT_6: u64 = u64::from_le_bytes([0x40; 8]);
    [
        key[0] | ((key[0] & BIT_6) >> 1),
        key[1] | ((key[1] & BIT_6) >> 1),
    ]
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
#[inline(always)]
pub(crate) fn read_line(bytes: &[u8], at: usize) -> Option<Line> {
    // The line's end is found before its name is looked at, so that one doesn't wait for the other.
    let mut next = at + find(&bytes[at..], b'\n')? + 1;
    while let Some(b' ' | b'\t') = bytes.get(next) {
        next += find(&bytes[next..], b'\n')? + 1;
    }
    let (known, colon) = match short_name(bytes, at) {
        Some((known, colon)) => (known, Some(colon)),
        None => any_name(bytes, at),
    };
    let (value, end) = trimmed(bytes, colon.map_or(at, |colon| colon + 1), next);
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

/// The text in `start..next` without white space around it, which is mostly one space and one line end.
#[inline(always)]
fn trimmed(bytes: &[u8], start: usize, next: usize) -> (usize, usize) {
    if let [b' ', first, .., last, b'\r', b'\n'] = bytes[start..next]
        && first > b' '
        && last > b' '
    {
        return (start + 1, next - 2);
    }
    let value = skip_lws(&bytes[..next], start);
    (value, trimmed_end(bytes, value, next))
}

/// A name of less than 16 bytes with the colon right after it: the usual case, without a loop.
#[inline(always)]
fn short_name(bytes: &[u8], at: usize) -> Option<(Option<HeaderName>, usize)> {
    let [low, high] = words(bytes[at..].first_chunk()?);
    let (low, high, colon) = match (first_colon(low), first_colon(high)) {
        (0, _) | (8, 8) => return None,
        (8, colon) => (low, first_bytes(high, colon), 8 + colon),
        (colon, _) => (first_bytes(low, colon), 0, colon),
    };
    let known = HeaderName::from_key(lower_case([low, high]));
    let colon = at + colon;
    (known.is_some() || is_token_text(&bytes[at..colon])).then_some((known, colon))
}

/// The first `count` of eight bytes, less than eight, and zeros behind them.
const fn first_bytes(word: u64, count: usize) -> u64 {
    word & ((1 << (8 * count)) - 1)
}

/// The index of the first colon among eight bytes, 8 if there is none.
const fn first_colon(word: u64) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let zeros = word ^ (ONES * b':' as u64);
    // The lowest byte that this marks is a colon; those above it may be marked by the borrow.
    let marks = zeros.wrapping_sub(ONES) & !zeros & (ONES << 7);
    (marks.trailing_zeros() / 8) as usize
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
