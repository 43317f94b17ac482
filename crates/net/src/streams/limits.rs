//! What the connections of a worker may take.

use std::time::Duration;

use node::Config;
use sip::FrameLimits;
use stream::Limits;

/// How long a peer may read nothing of what waits for it: 64*T1, as its transactions are over then.
const STALL_TIME: Duration = Duration::from_secs(32);

/// How long a connection that is being closed may take to send what waits.
const LINGER_TIME: Duration = Duration::from_secs(5);

/// A source may have so many connections with a worker, whatever its share is.
const PER_SOURCE_MIN: usize = 16;

/// What the connections of one of so many workers may take.
pub(super) fn limits_of(config: &Config, workers: usize) -> Limits {
    let limits = &config.connections;
    let share = |limit: usize| limit.div_ceil(workers);
    let message_bytes = config.limits.message_bytes;
    Limits {
        total: share(limits.total),
        per_source: per_source(limits.per_source, workers),
        connecting: share(limits.handshakes),
        handshaking: share(limits.handshakes),
        handshake: limits.handshake,
        idle: limits.idle,
        message: limits.message,
        stall: STALL_TIME,
        linger: LINGER_TIME,
        queue_bytes: limits.queue_bytes,
        total_bytes: share(limits.total_bytes),
        frame: FrameLimits {
            head_bytes: message_bytes,
            message_bytes,
        },
    }
}

/// What one source may open to one of so many workers. The kernel divides connections by chance, so a share is a
/// quarter larger than its part.
fn per_source(limit: usize, workers: usize) -> usize {
    let part = limit.div_ceil(workers);
    let share = part + part / 4;
    share.max(PER_SOURCE_MIN).min(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source could have the whole number of connections with each worker: 65,536 with 64 workers, which are all.
    #[test]
    fn workers_share_what_a_source_may_open() {
        let shares = [
            (1_024, 1, 1_024),
            (1_024, 2, 640),
            (1_024, 4, 320),
            (1_024, 64, 20),
            (100, 64, 16),
            (3, 4, 3),
        ];
        for (limit, workers, share) in shares {
            assert_eq!(per_source(limit, workers), share, "{limit} of {workers}");
        }
    }
}
