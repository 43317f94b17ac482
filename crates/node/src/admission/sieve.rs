//! The rule that stops surplus requests before the node reads them.
//!
//! It looks at one datagram and has no memory, so a kernel can apply it as a socket filter. It errs on one
//! side: what belongs to a call in progress passes, and some requests that begin a call pass as well.

mod program;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

/// No shorter datagram is stopped.
const BYTES_MIN: usize = 64;

/// The beginning of an INVITE that is looked at, in bytes. More would not fit in a socket filter.
const SCANNED_BYTES: usize = 768;

/// What is looked at in one step, in words of 4 bytes.
const GROUP_WORDS: usize = 4;
const GROUP_BYTES: usize = 4 * GROUP_WORDS;

/// One step of the hash multiplies with it: odd, so that no bit is lost.
const MULTIPLIER: u32 = 0x9e37_79b1;

/// The multipliers of MurmurHash3's finalizer.
const FINAL_MULTIPLIERS: [u32; 2] = [0x85eb_ca6b, 0xc2b2_ae35];

/// The draws of requests, from 0.
const DRAWS: u32 = 1 << 16;

const INVITE: u32 = u32::from_be_bytes(*b"INVI");
const REGISTER: u32 = u32::from_be_bytes(*b"REGI");
const URN: [u8; 4] = *b"urn:";

/// Where the Request-URI of an INVITE begins, in bytes.
const URI_AT: usize = "INVITE ".len();

/// Makes the letters of a word small, and leaves digits, ':', ';' and '=' as they are.
const LOWERED: u32 = 0x2020_2020;

/// Stops a share of the requests that begin something: INVITEs without a To tag, and REGISTERs.
///
/// The bytes of an INVITE decide, so all retransmissions of a request have one fate. The address and port of
/// a REGISTER's sender decide, so the two REGISTERs of a digest login have one fate.
///
/// These always pass: other methods, responses, INVITEs of a `urn:` such as `urn:service:sos` (RFC 5031), and
/// datagrams under 64 bytes. An INVITE has a To tag if two `;tag=` are among its first 768 bytes, and may have one if
/// none is there and it is longer. White space in `;tag=` hides it, and another parameter whose name ends in `tag` may
/// count as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sieve {
    salt: u32,
    /// Requests that draw less pass; 0 to [`DRAWS`].
    threshold: u32,
}

impl Sieve {
    /// Lets a `share` of the requests pass, from 0 to 1, in steps of 1/65,536. Another `salt` lets others pass.
    #[must_use]
    pub fn new(salt: u32, share: f64) -> Self {
        let threshold = (share.clamp(0.0, 1.0) * f64::from(DRAWS)).round() as u32;
        Self { salt, threshold }
    }

    /// Whether a datagram from `source` passes. A caller that knows the source does not ask.
    #[must_use]
    pub fn passes(&self, bytes: &[u8], source: SocketAddr) -> bool {
        let method = match bytes {
            [a, b, c, d, ..] if bytes.len() >= BYTES_MIN => u32::from_be_bytes([*a, *b, *c, *d]),
            _ => return true,
        };
        match method {
            INVITE => self.passes_invite(bytes),
            REGISTER => self.draw(sender(source)) < self.threshold,
            _ => true,
        }
    }

    /// Whether it lets all pass.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.threshold == DRAWS
    }

    /// The rule as a program of a UDP socket's filter, which the Linux kernel runs on each datagram from the
    /// UDP header on: the number of bytes to keep, 0 to drop the datagram. Sources in `known` networks always
    /// pass.
    ///
    /// None if there are more known networks than a program has room for: over 256, or fewer if they are of IPv6.
    #[must_use]
    pub fn program(&self, known: &[IpNet]) -> Option<Vec<Instruction>> {
        program::write(self, known)
    }

    fn passes_invite(&self, bytes: &[u8]) -> bool {
        let (groups, _) = bytes[..bytes.len().min(SCANNED_BYTES)].as_chunks::<GROUP_BYTES>();
        let words = groups.as_flattened().as_chunks().0;
        let words = words.iter().map(|word| u32::from_be_bytes(*word) | LOWERED);
        let has_to_tag = match words.clone().filter(|&word| has_tag(word)).count() {
            0 => bytes.len() >= SCANNED_BYTES,
            tags => tags >= 2,
        };
        has_to_tag
            || bytes[URI_AT..][..4].eq_ignore_ascii_case(&URN)
            || self.draw(words) < self.threshold
    }

    /// A number below [`DRAWS`].
    fn draw(&self, words: impl IntoIterator<Item = u32>) -> u32 {
        let hash = words.into_iter().fold(self.salt, |hash, word| {
            (hash ^ word).wrapping_mul(MULTIPLIER)
        });
        let [first, second] = FINAL_MULTIPLIERS;
        let hash = (hash ^ (hash >> 15)).wrapping_mul(first);
        (hash ^ (hash >> 13)).wrapping_mul(second) >> 16
    }
}

/// One instruction of the kernel's classic BPF: the operation, how many instructions to skip if its condition holds and
/// if not, and a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are named as the kernel names them")]
pub struct Instruction {
    pub code: u16,
    pub jt: u8,
    pub jf: u8,
    pub k: u32,
}

/// Words in which `;tag=` is noticed: exactly one of them for each place where it may begin in a word.
#[derive(Clone, Copy)]
struct TagPart {
    mask: u32,
    word: u32,
}

const TAG_PARTS: [TagPart; 4] = [
    TagPart::new(0xffff_ffff, *b";tag"),
    TagPart::new(0xffff_ffff, *b"tag="),
    TagPart::new(0xffff_ff00, *b"ag=\0"),
    TagPart::new(0x00ff_ffff, *b"\0;ta"),
];

impl TagPart {
    const fn new(mask: u32, word: [u8; 4]) -> Self {
        Self {
            mask,
            word: u32::from_be_bytes(word),
        }
    }
}

/// Of a word in small letters.
fn has_tag(word: u32) -> bool {
    TAG_PARTS.iter().any(|part| word & part.mask == part.word)
}

/// The words of a source address, then its port.
fn sender(source: SocketAddr) -> impl Iterator<Item = u32> {
    let (words, count) = address_words(source.ip());
    words
        .into_iter()
        .take(count)
        .chain([u32::from(source.port())])
}

/// An address in big-endian words, and their number.
fn address_words(ip: IpAddr) -> ([u32; 4], usize) {
    match ip {
        IpAddr::V4(ip) => ([ip.to_bits(), 0, 0, 0], 1),
        IpAddr::V6(ip) => {
            let bits = ip.to_bits();
            ([96, 64, 32, 0].map(|shift| (bits >> shift) as u32), 4)
        }
    }
}
