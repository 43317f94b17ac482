//! The headers that the crate knows, and how to find one by its name.

use crate::{
    scan::{self, Block, seek},
    text::{find, is_token_text, skip_lws, trimmed_end},
};

macro_rules! header_names {
    ($($variant:ident $text:literal $($compact:literal)?,)*) => {
        /// A header that the crate knows by name. All others are forwarded unchanged.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum HeaderName {
            $(#[doc = concat!("`", $text, "`")] $variant,)*
        }

        impl HeaderName {
            /// Every variant, in the order of declaration.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The full name, as the RFCs spell it.
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
    MaxBreadth "Max-Breadth",
    UserAgent "User-Agent",
    PAssertedIdentity "P-Asserted-Identity",
    PPreferredIdentity "P-Preferred-Identity",
    RemotePartyId "Remote-Party-ID",
    Privacy "Privacy",
}

const _: () = assert!(
    HeaderName::ALL.len() <= u64::BITS as usize,
    "a set of headers is a u64"
);

impl HeaderName {
    /// The header with this name in any case, or with this compact form.
    pub fn from_bytes(name: &[u8]) -> Option<Self> {
        if name.len() < KEY_BYTES {
            return Self::from_key(key(scan::padded(name), name.len()));
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

/// A name shorter than [`KEY_BYTES`] in lower case and zeros behind it: quick to compare and to hash.
type Key = u128;

const KEY_BYTES: usize = 16;

/// The key of a spelling that is too long for one; no name makes it.
const NO_KEY: Key = Key::MAX;

const KEYS: [Key; SPELLINGS.len()] = {
    let mut keys = [NO_KEY; SPELLINGS.len()];
    let mut index = 0;
    while index < keys.len() {
        let name = SPELLINGS[index].0.as_bytes();
        if name.len() < KEY_BYTES {
            let mut padded = [0; KEY_BYTES];
            padded.split_at_mut(name.len()).0.copy_from_slice(name);
            keys[index] = key(padded, name.len());
        }
        index += 1;
    }
    keys
};

/// The key of the name that is the first `length` bytes.
const fn key(bytes: [u8; KEY_BYTES], length: usize) -> Key {
    const BIT_6: Key = Key::from_le_bytes([0x40; KEY_BYTES]);
    let name = Key::from_le_bytes(bytes) & FIRST_BYTES[length];
    // Bit 5 of all that have bit 6: letters lose their case, digits and hyphens stay.
    name | (name & BIT_6) >> 1
}

/// Masks of the first bytes of a key, by their number.
const FIRST_BYTES: [Key; KEY_BYTES] = {
    let mut masks = [0; KEY_BYTES];
    let mut length = 1;
    while length < KEY_BYTES {
        masks[length] = masks[length - 1] << 8 | 0xff;
        length += 1;
    }
    masks
};

/// The index of the spelling that hashes to each slot; any index where none does.
const SLOTS: [u8; 1 << SLOT_BITS] = {
    let mut slots = [0; 1 << SLOT_BITS];
    let mut taken = [false; 1 << SLOT_BITS];
    let mut index = 0;
    while index < KEYS.len() {
        let slot = slot(KEYS[index]);
        if KEYS[index] != NO_KEY {
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
    let folded = key as u64 ^ (key >> u64::BITS) as u64;
    (folded.wrapping_mul(SLOT_MULTIPLIER) >> (u64::BITS - SLOT_BITS)) as usize
}

/// One header field's place: its first byte, its value without white space around it, the line after it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Field {
    pub(crate) line: u16,
    pub(crate) value: u16,
    pub(crate) end: u16,
    pub(crate) next: u16,
}

/// A header field with all its continuation lines.
pub(crate) struct Line {
    pub(crate) known: Option<HeaderName>,
    /// How long its name is, if it has a name and a colon after it.
    pub(crate) name: Option<usize>,
    pub(crate) field: Field,
}

/// The header fields from a position on, without end: what follows the headers is read as if it were one.
pub(crate) struct Lines<'a> {
    length: usize,
    rest: &'a [u8],
}

impl<'a> Lines<'a> {
    /// The header fields from `at` on of a text of at most 65,535 bytes.
    pub(crate) fn new(text: &'a [u8], at: usize) -> Self {
        Self {
            length: text.len(),
            rest: &text[at..],
        }
    }

    /// What is not read yet.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Passes over the next header field without reading it; none when its line does not end.
    #[inline(always)]
    pub(crate) fn pass_over(&mut self) -> Option<()> {
        (_, self.rest) = split_line(self.rest)?;
        Some(())
    }

    /// Where the next line begins.
    pub(crate) const fn at(&self) -> usize {
        self.length - self.rest.len()
    }
}

impl Iterator for Lines<'_> {
    type Item = Line;

    /// The next header field; none when its line does not end.
    #[inline(always)]
    fn next(&mut self) -> Option<Line> {
        let at = self.at();
        let (line, rest) = split_line(self.rest)?;
        let (known, name) = short_name(self.rest).unwrap_or_else(|| any_name(line));
        let (value, end) = trimmed(line, name.map_or(0, |name| name + 1));
        self.rest = rest;
        let [line, value, end, next] = [at, at + value, at + end, self.at()].map(|at| at as u16);
        let field = Field {
            line,
            value,
            end,
            next,
        };
        Some(Line { known, name, field })
    }
}

/// The line that the text begins with, continuation lines and line ends included, and what follows.
#[inline(always)]
fn split_line(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut next = find(text, b'\n')? + 1;
    while let Some(b' ' | b'\t') = text.get(next) {
        next += find(&text[next..], b'\n')? + 1;
    }
    text.split_at_checked(next)
}

/// The text from `start` on without white space around it, which is mostly one space and one line end.
#[inline(always)]
fn trimmed(line: &[u8], start: usize) -> (usize, usize) {
    if let [b' ', first, .., last, b'\r', b'\n'] = line[start..]
        && first > b' '
        && last > b' '
    {
        return (start + 1, line.len() - 2);
    }
    let end = trimmed_end(line, start, line.len());
    (skip_lws(&line[..end], start), end)
}

/// A name shorter than a key with the colon right after it: the usual case, without a loop.
#[inline(always)]
fn short_name(line: &[u8]) -> Option<(Option<HeaderName>, Option<usize>)> {
    let &start = line.first_chunk()?;
    let length = Block::new(start).is(b':').before_first();
    if !(1..KEY_BYTES).contains(&length) {
        return None;
    }
    let known = HeaderName::from_key(key(start, length));
    let is_name = known.is_some() || is_token_text(&line[..length]);
    is_name.then_some((known, Some(length)))
}

/// A name of any length, with white space before the colon (RFC 3261 §25.1, HCOLON), or none.
#[cold]
fn any_name(line: &[u8]) -> (Option<HeaderName>, Option<usize>) {
    let length = seek(line, |block| block.is(b':') | block.is(b'\n'));
    let name = line[..length].trim_ascii_end();
    if line.get(length) == Some(&b':') && is_token_text(name) {
        (HeaderName::from_bytes(name), Some(length))
    } else {
        (None, None)
    }
}
