//! Queues of their own for what strangers send, in the kernel.
//!
//! While too much comes, each kind of new request waits in a socket of its own, and what may belong to calls in another. So
//! calls in progress never wait behind new calls, a flood of one kind does not delay the others, and what the node has no
//! time for costs it nothing: the kernel drops it. What hosts send that the node knows waits behind none of it.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use ipnet::IpNet;

use super::{
    program::{self, Instruction},
    urgent,
};

/// No shorter datagram is a new request.
pub(super) const BYTES_MIN: usize = 64;

/// The beginning of a request that is looked at, in bytes. More would not fit in a program.
pub(super) const SCANNED_BYTES: usize = 768;

/// What is looked at in one step, in words of 4 bytes. A shorter rest is not looked at.
pub(super) const GROUP_WORDS: usize = 4;
pub(super) const GROUP_BYTES: usize = 4 * GROUP_WORDS;

pub(super) const INVITE: u32 = u32::from_be_bytes(*b"INVI");
pub(super) const REGISTER: u32 = u32::from_be_bytes(*b"REGI");

/// How responses begin, and requests that belong to calls whatever else they say.
pub(super) const OF_CALLS: [u32; 8] = [
    u32::from_be_bytes(*b"SIP/"),
    u32::from_be_bytes(*b"ACK "),
    u32::from_be_bytes(*b"BYE "),
    u32::from_be_bytes(*b"CANC"),
    u32::from_be_bytes(*b"PRAC"),
    u32::from_be_bytes(*b"UPDA"),
    u32::from_be_bytes(*b"INFO"),
    u32::from_be_bytes(*b"NOTI"),
];

/// Makes the letters of a word small, and leaves digits, ':', ';' and '=' as they are.
pub(super) const LOWERED: u32 = 0x2020_2020;

/// What waits in a socket of its own while too much comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// INVITEs outside dialogs.
    Calls,
    /// REGISTERs.
    Registers,
    /// All other requests outside dialogs, and whatever else nobody knows.
    Others,
    /// INVITEs outside dialogs that call for help (RFC 5031), or to users that are listed.
    Urgent,
    /// Whatever may belong to a call or to a request of the node.
    OfCalls,
}

impl Lane {
    /// All, in the order in which their sockets join the listener's own.
    pub const ALL: [Self; 5] = [
        Self::Calls,
        Self::Registers,
        Self::Others,
        Self::Urgent,
        Self::OfCalls,
    ];

    /// The lane of a datagram from a source that the node does not know.
    ///
    /// These may belong to calls: responses, methods that only calls have, and datagrams under 64 bytes. So may a request with
    /// a To tag: it has one if two `;tag=` are among its first 768 bytes, and may have one if none is there and it is longer.
    /// Another parameter whose name ends in `tag` may count as one. A To tag is missed if there is white space in its
    /// `;tag=`, or if only the From tag is among those bytes.
    #[must_use]
    pub fn of(bytes: &[u8], urgent: &[String]) -> Self {
        if bytes.len() < BYTES_MIN {
            return Self::OfCalls;
        }
        let first = word(&bytes[..4]);
        match first {
            REGISTER => Self::Registers,
            first if OF_CALLS.contains(&first) => Self::OfCalls,
            _ if has_to_tag(bytes) => Self::OfCalls,
            INVITE if urgent::begins(bytes, urgent) => Self::Urgent,
            INVITE => Self::Calls,
            _ => Self::Others,
        }
    }

    /// The place of the lane's first socket in the group of those that share a listener's address, with so many workers.
    #[must_use]
    pub fn place(self, workers: u32) -> u32 {
        (1 + self as u32) * workers
    }
}

/// Whom the rule that leads requests into lanes treats apart.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steering<'a> {
    /// Networks whose hosts have no lane.
    pub known: &'a [IpNet],
    /// Hosts in them whose new requests have lanes all the same.
    pub unruly: &'a [IpAddr],
    /// Users to whom calls are urgent.
    pub urgent: &'a [String],
}

impl Steering<'_> {
    /// The rule as a program that chooses among sockets which share an address. The Linux kernel runs it on each datagram,
    /// from its first byte on. It returns the place of a socket: first come the own ones of each worker, then those of each
    /// lane. What comes from one source goes to one worker.
    ///
    /// The kernel translates a program to about 48 KB. It allows `net.core.optmem_max`, which is 128 KB by default, but only
    /// 20 KB in older kernels.
    ///
    /// None if there are more known networks and users than a program has room for: over 256, or over 60 hosts of IPv6.
    #[must_use]
    pub fn program(&self, workers: u32) -> Option<Vec<Instruction>> {
        program::steer(self, workers)
    }
}

/// The program that leaves the lanes empty.
#[must_use]
pub fn steering_past_lanes(workers: u32) -> Vec<Instruction> {
    program::spread(workers)
}

fn has_to_tag(bytes: &[u8]) -> bool {
    let scanned = bytes.len().min(SCANNED_BYTES) / GROUP_BYTES * GROUP_BYTES;
    let words = bytes[..scanned].chunks_exact(4);
    let words = words.map(|bytes| word(bytes) | LOWERED);
    match words.filter(|&word| has_tag(word)).count() {
        0 => bytes.len() >= SCANNED_BYTES,
        tags => tags >= 2,
    }
}

/// Words in which `;tag=` is noticed: exactly one of them for each place where it may begin in a word.
#[derive(Clone, Copy)]
pub(super) struct TagPart {
    pub(super) mask: u32,
    pub(super) word: u32,
}

pub(super) const TAG_PARTS: [TagPart; 4] = [
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

/// A number from 4 bytes.
pub(super) fn word(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |word, &byte| (word << 8) | u32::from(byte))
}
