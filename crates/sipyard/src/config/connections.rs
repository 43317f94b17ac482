//! The section `[connections]`.

use node::config::Connections;
use settings::{
    Section,
    value::{boolean, duration, integer},
};

use super::sections::{minutes, ms};

/// Reads `[connections]`.
pub(super) fn connections(mut section: Section<'_>) -> Connections {
    let default = Connections::default();
    let connections = Connections {
        total: section.get_or("total", default.total, integer(1..=4_000_000)),
        per_source: section.get_or("per_source", default.per_source, integer(1..=4_000_000)),
        handshakes: section.get_or("handshakes", default.handshakes, integer(1..=65_536)),
        per_server: section.get_or("per_server", default.per_server, integer(0..=64)),
        handshake: section.get_or(
            "handshake",
            default.handshake,
            duration(ms(100)..=minutes(1)),
        ),
        message: section.get_or(
            "message",
            default.message,
            duration(ms(1_000)..=minutes(10)),
        ),
        idle: section.get_or("idle", default.idle, duration(ms(1_000)..=minutes(1_440))),
        // One message of the greatest size must fit.
        queue_bytes: section.get_or(
            "queue_bytes",
            default.queue_bytes,
            integer(65_536..=1 << 30),
        ),
        total_bytes: section.get_or(
            "total_bytes",
            default.total_bytes,
            integer(1 << 20..=1 << 40),
        ),
        flow_timer: section
            .get("flow_timer", duration(ms(10_000)..=minutes(60)))
            .map(|found| found.value),
        large_by_tcp: section.get_or("large_by_tcp", false, boolean),
    };
    section.finish();
    connections
}
