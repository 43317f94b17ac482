//! The policies by name.

use std::fmt;
use std::str::FromStr;

/// The policy that chooses a server for an arrival.
///
/// `tlwl`, `tjsq`, `cjsq`, `p2c` and `prequal` divide the values that they compare by the capacity.
/// `round-robin`, `maglev`, `bounded-hash` and `user-hash`, and the draws of `jiq`, use the
/// capacity as a share. `hash` and `fnv-hash` ignore it; policies that compare response times use
/// it only during a slow start. A server without response times counts as the fastest.
///
/// `tlwl`, `tjsq`, `cjsq`, `rwma`, `hash`, `fnv-hash` and `round-robin` are as in Jiang et al., "Load
/// balancing algorithms for the Session Initiation Protocol", IBM Research, 2009.
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
    /// Of two drawn at random, the one with less work. Mitzenmacher, "The power of two choices in
    /// randomized load balancing", IEEE TPDS 12(10), 2001.
    P2c,
    /// Rendezvous hash of the key, passing over servers that hold over 1.25 times their fair share
    /// of the calls and one more.
    UserHash,
    /// The same by the arrival's own key: a rendezvous form of Mirrokni et al., "Consistent hashing
    /// with bounded loads", SODA 2018.
    BoundedHash,
    /// Maglev's table by key; a key whose server is not eligible is hashed again. Eisenbud et al.,
    /// "Maglev", NSDI 2016. Capacities count as they were when the pool was made.
    Maglev,
    /// Of two drawn at random, the one with the lower product of peak-sensitive mean time to the
    /// first response and open transactions. Finagle, `PeakEwma`, 2014.
    PeakEwma,
    /// The same by the time to the final response.
    PeakEwma200,
    /// Hot servers, with more open transactions than five in six, are passed over; of the others the
    /// one with the lowest weighted mean time to the first response. Wydrowski et al., "Load is not
    /// what you should balance: introducing Prequal", NSDI 2024, its probes replaced by what the
    /// balancer has counted itself.
    Prequal,
    /// Any idle server, or any at all when none is idle. Lu et al., "Join-Idle-Queue", Performance
    /// Evaluation 68(11), 2011.
    Jiq,
    /// The least true backlog, which only simulated servers report: the bound of what can be had.
    Oracle,
}

impl Policy {
    /// Every policy, in the order in which they are documented.
    pub const ALL: [Self; 17] = [
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
        Self::BoundedHash,
        Self::Maglev,
        Self::PeakEwma,
        Self::PeakEwma200,
        Self::Prequal,
        Self::Jiq,
        Self::Oracle,
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
            Self::BoundedHash => "bounded-hash",
            Self::Maglev => "maglev",
            Self::PeakEwma => "peak-ewma",
            Self::PeakEwma200 => "peak-ewma-200",
            Self::Prequal => "prequal",
            Self::Jiq => "jiq",
            Self::Oracle => "oracle",
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

/// No policy has this name. The message lists the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPolicy;

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown policy; choose one of")?;
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
            "unknown policy; choose one of tlwl, tjsq, cjsq, rwma, rwma-200, hash, fnv-hash, \
             round-robin, p2c, user-hash, bounded-hash, maglev, peak-ewma, peak-ewma-200, prequal, \
             jiq, oracle"
        );
    }
}
