//! The rule that stops surplus requests before the node reads them.
//!
//! It looks at one datagram and has no memory, so a kernel can apply it as a socket filter.

use std::net::{IpAddr, SocketAddr};

use super::{
    lane::{GROUP_BYTES, Lane, word},
    program::{self, Instruction},
};

/// The beginning of an INVITE whose bytes decide. Those of another call differ there, as a topmost Via's branch does.
pub(super) const HASHED_BYTES: usize = 384;

/// One step of the hash multiplies with it: odd, so that no bit is lost.
pub(super) const MULTIPLIER: u32 = 0x9e37_79b1;

/// The multipliers of MurmurHash3's finalizer.
pub(super) const FINAL_MULTIPLIERS: [u32; 2] = [0x85eb_ca6b, 0xc2b2_ae35];

/// The draws of requests, from 0.
const DRAWS: u32 = 1 << 16;

/// Stops a share of the requests in the lanes of calls and of REGISTERs.
///
/// The first 384 bytes of an INVITE decide, so all retransmissions of a request have one fate. The address and port of
/// a REGISTER's sender decide, so the two REGISTERs of a digest login have one fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sieve {
    pub(super) salt: u32,
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

    /// Whether a datagram from `source` passes, if nobody is urgent by name. A caller that knows the source does not ask.
    #[must_use]
    pub fn passes(&self, bytes: &[u8], source: SocketAddr) -> bool {
        self.is_open() || self.passes_in(Lane::of(bytes, &[]), bytes, source)
    }

    /// Whether a datagram from `source` passes in a lane.
    #[must_use]
    pub fn passes_in(&self, lane: Lane, bytes: &[u8], source: SocketAddr) -> bool {
        match lane {
            Lane::Calls => self.draw(words(bytes)) < self.calls,
            Lane::Registers => self.draw(sender(source)) < self.registers,
            Lane::Others | Lane::Urgent | Lane::OfCalls => true,
        }
    }

    /// Whether it lets all pass.
    #[must_use]
    pub fn is_open(&self) -> bool {
        Lane::ALL.iter().all(|&lane| self.threshold(lane) == DRAWS)
    }

    /// The rule as a program of the filter of a lane's UDP socket, which the Linux kernel runs on each datagram from the
    /// UDP header on: the number of bytes to keep, 0 to drop the datagram. None: all pass.
    #[must_use]
    pub fn program(&self, lane: Lane) -> Option<Vec<Instruction>> {
        let sifts = self.threshold(lane) < DRAWS;
        sifts.then(|| program::sift(self, lane)).flatten()
    }

    pub(super) fn threshold(&self, lane: Lane) -> u32 {
        match lane {
            Lane::Calls => self.calls,
            Lane::Registers => self.registers,
            Lane::Others | Lane::Urgent | Lane::OfCalls => DRAWS,
        }
    }

    /// A hash of an INVITE that its retransmissions share, and hardly any other.
    pub(super) fn name(&self, invite: &[u8]) -> u64 {
        let [first, second] = [self.salt, !self.salt].map(|salt| hash(salt, words(invite)));
        u64::from(first) << 32 | u64::from(second)
    }

    /// A number below [`DRAWS`].
    fn draw(&self, words: impl IntoIterator<Item = u32>) -> u32 {
        hash(self.salt, words) >> 16
    }
}

/// MurmurHash3's finalizer over a sum of words.
fn hash(salt: u32, words: impl IntoIterator<Item = u32>) -> u32 {
    let hash = words
        .into_iter()
        .fold(salt, |hash, word| (hash ^ word).wrapping_mul(MULTIPLIER));
    let [first, second] = FINAL_MULTIPLIERS;
    let hash = (hash ^ (hash >> 15)).wrapping_mul(first);
    (hash ^ (hash >> 13)).wrapping_mul(second)
}

/// The words of an INVITE that decide.
fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let hashed = bytes.len().min(HASHED_BYTES) / GROUP_BYTES * GROUP_BYTES;
    bytes[..hashed].chunks_exact(4).map(word)
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
pub(super) fn address_words(ip: IpAddr) -> ([u32; 4], usize) {
    match ip {
        IpAddr::V4(ip) => ([ip.to_bits(), 0, 0, 0], 1),
        IpAddr::V6(ip) => {
            let bits = ip.to_bits();
            ([96, 64, 32, 0].map(|shift| (bits >> shift) as u32), 4)
        }
    }
}
