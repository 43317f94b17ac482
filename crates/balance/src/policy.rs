//! The policies by name.

use std::fmt;
use std::str::FromStr;

/// How a server is chosen for an arrival.
///
/// Capacity divides what `tlwl`, `tjsq`, `cjsq` and `p2c` compare and sets the shares of
/// `round-robin` and `user-hash`; `hash` and `fnv-hash` ignore it, and `rwma` and `rwma-200` but
/// for a slow start. A server without response times counts as the fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Transaction-least-work-left: the least cost of open transactions.
    Tlwl,
    /// Transaction-join-shortest-queue: the fewest open transactions.
    Tjsq,
    /// Call-join-shortest-queue: the fewest open calls.
    Cjsq,
    /// The lowest weighted mean of the times to the first response.
    Rwma,
    /// The lowest weighted mean of the times to the final response.
    Rwma200,
    /// OpenSER's string hash of the key, modulo the number of servers; the next in order takes the
    /// place of one that is not eligible.
    Hash,
    /// 64-bit FNV-1a of the key, modulo the number of servers, and on like `hash`.
    FnvHash,
    /// Each in turn; smoothly interleaved where capacities differ.
    RoundRobin,
    /// Of two drawn at random, the one with less work.
    P2c,
    /// Rendezvous hash of the key, passing over servers that hold over 1.25 times their fair share
    /// of the calls and one more.
    UserHash,
}

impl Policy {
    /// Every policy, in the order in which they are documented.
    pub const ALL: [Self; 10] = [
        Self::Tlwl,
        Self::Tjsq,
        Self::Cjsq,
        Self::Rwma,
        Self::Rwma200,
        Self::Hash,
        Self::FnvHash,
        Self::RoundRobin,
        Self::P2c,
        Self::UserHash,
    ];

    /// The name used in configuration and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tlwl => "tlwl",
            Self::Tjsq => "tjsq",
            Self::Cjsq => "cjsq",
            Self::Rwma => "rwma",
            Self::Rwma200 => "rwma-200",
            Self::Hash => "hash",
            Self::FnvHash => "fnv-hash",
            Self::RoundRobin => "round-robin",
            Self::P2c => "p2c",
            Self::UserHash => "user-hash",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL
            .into_iter()
            .find(|policy| policy.name() == name)
            .ok_or(UnknownPolicy)
    }
}

/// No policy has that name; the message lists those there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPolicy;

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown policy, expected one of")?;
        for (i, policy) in Policy::ALL.iter().enumerate() {
            write!(f, "{} {policy}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownPolicy {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!("TLWL".parse::<Policy>(), Err(UnknownPolicy));
        assert_eq!(
            UnknownPolicy.to_string(),
            "unknown policy, expected one of tlwl, tjsq, cjsq, rwma, rwma-200, hash, fnv-hash, \
             round-robin, p2c, user-hash"
        );
    }
}
