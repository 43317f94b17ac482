//! The rule that stops surplus requests before the node reads them.
//!
//! It looks at one datagram and has no memory, so a kernel can apply it as a socket filter. In doubt it lets a
//! request pass.

mod program;
#[cfg(test)]
mod tests;

use std::{
    net::{IpAddr, SocketAddr},
    ops::Range,
};

use ipnet::IpNet;

/// No shorter datagram is stopped.
const BYTES_MIN: usize = 64;

/// The beginning of an INVITE that is looked at, in bytes. More would not fit in a socket filter.
const SCANNED_BYTES: usize = 768;

/// What is looked at in one step, in words of 4 bytes. A shorter rest is not looked at.
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
const URN: u32 = u32::from_be_bytes(*b"urn:");

/// Where the scheme of an INVITE's Request-URI is, in bytes.
const SCHEME: Range<usize> = 7..11;

/// Makes the letters of a word small, and leaves digits, ':', ';' and '=' as they are.
const LOWERED: u32 = 0x2020_2020;

/// Stops a share of the requests that begin something: INVITEs without a To tag, and REGISTERs.
///
/// The bytes of an INVITE decide, so all retransmissions of a request have one fate. The address and port of
/// a REGISTER's sender decide, so the two REGISTERs of a digest login have one fate.
///
/// These always pass: other methods, responses, INVITEs of a `urn:` such as `urn:service:sos` (RFC 5031), and
/// datagrams under 64 bytes. An INVITE has a To tag if two `;tag=` are among its first 768 bytes, and may have one if
/// none is there and it is longer. Another parameter whose name ends in `tag` may count as one. A To tag is missed if
/// there is white space in its `;tag=`, or if only the From tag is among those bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sieve {
    salt: u32,
    /// INVITEs that draw less pass, and REGISTERs; 0 to [`DRAWS`].
    calls: u32,
    registers: u32,
}

impl Sieve {
    /// Lets a `share` of the requests pass, from 0 to 1, in steps of 1/65,536. Another `salt` lets others pass.
    #[must_use]
    pub fn new(salt: u32, share: f64) -> Self {
        Self::of(salt, share, share)
    }

    /// The same with a share of the INVITEs, and one of the REGISTERs.
    #[must_use]
    pub fn of(salt: u32, calls: f64, registers: f64) -> Self {
        let threshold = |share: f64| (share.clamp(0.0, 1.0) * f64::from(DRAWS)).round() as u32;
        Self {
            salt,
            calls: threshold(calls),
            registers: threshold(registers),
        }
    }

    /// Whether a datagram from `source` passes. A caller that knows the source does not ask.
    #[must_use]
    pub fn passes(&self, bytes: &[u8], source: SocketAddr) -> bool {
        if self.is_open() {
            return true;
        }
        if bytes.len() < BYTES_MIN {
            return true;
        }
        match word(&bytes[..4]) {
            INVITE => self.passes_invite(bytes),
            REGISTER => self.draw(sender(source)) < self.registers,
            _ => true,
        }
    }

    /// Whether it lets all pass.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.calls == DRAWS && self.registers == DRAWS
    }

    /// The rule as a program of a UDP socket's filter, which the Linux kernel runs on each datagram from the
    /// UDP header on: the number of bytes to keep, 0 to drop the datagram. Sources in `known` networks always
    /// pass.
    ///
    /// The kernel translates a program to about 48 KB, and needs as much again to replace it. It grants a socket
    /// `net.core.optmem_max`, which is 128 KB by default, but only 20 KB in older kernels.
    ///
    /// None if there are more known networks than a program has room for: over 256, or over 60 hosts of IPv6.
    #[must_use]
    pub fn program(&self, known: &[IpNet]) -> Option<Vec<Instruction>> {
        program::write(self, known)
    }

    fn passes_invite(&self, bytes: &[u8]) -> bool {
        let scanned = bytes.len().min(SCANNED_BYTES) / GROUP_BYTES * GROUP_BYTES;
        let words = bytes[..scanned].chunks_exact(4);
        let words = words.map(|bytes| word(bytes) | LOWERED);
        let has_to_tag = match words.clone().filter(|&word| has_tag(word)).count() {
            0 => bytes.len() >= SCANNED_BYTES,
            tags => tags >= 2,
        };
        has_to_tag || word(&bytes[SCHEME]) | LOWERED == URN || self.draw(words) < self.calls
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

/// A number from 4 bytes.
fn word(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |word, &byte| (word << 8) | u32::from(byte))
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
