//! What the connections of a worker may take.

use std::time::Duration;

use node::Config;
use sip::FrameLimits;
use stream::Limits;

/// How long a message may take from its first byte to its last.
const MESSAGE_TIME: Duration = Duration::from_secs(10);

/// How long a peer may read nothing of what waits for it: 64*T1, as its transactions are over then.
const STALL_TIME: Duration = Duration::from_secs(32);

/// How long a connection that is being closed may take to send what waits.
const LINGER_TIME: Duration = Duration::from_secs(5);

/// What the connections of one of so many workers may take.
pub(super) fn limits_of(config: &Config, workers: usize) -> Limits {
    let limits = &config.connections;
    let share = |limit: usize| limit.div_ceil(workers);
    let message_bytes = config.limits.message_bytes;
    Limits {
        total: share(limits.total),
        per_source: limits.per_source,
        connecting: share(limits.handshakes),
        handshaking: share(limits.handshakes),
        handshake: limits.handshake,
        idle: limits.idle,
        message: MESSAGE_TIME,
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
