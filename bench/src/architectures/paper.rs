//! Tables 1 and 2 of Singh and Schulzrinne, "Failover, load sharing and server architecture in SIP telephony".

use super::{Architecture, load::Mode};

/// Calls per second of an architecture, and ours that is most like it.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) ours: Option<Architecture>,
    /// On a Pentium 4 of 3 GHz, on four Pentiums of 450 MHz, on one and on two UltraSparcs.
    pub(super) per_s: [u32; 4],
}

/// Their machines.
pub(super) const MACHINES: [&str; 4] = ["1xP", "4xP", "1xS", "2xS"];

const fn row(name: &'static str, ours: Option<Architecture>, per_s: [u32; 4]) -> Row {
    Row { name, ours, per_s }
}

/// Table 1.
const STATELESS: [Row; 5] = [
    row(
        "event-based",
        Some(Architecture::EventLoop),
        [1550, 400, 150, 600],
    ),
    row(
        "thread per message",
        Some(Architecture::ThreadPerTransaction),
        [1300, 500, 100, 500],
    ),
    row("pool-thread per message", None, [1400, 850, 110, 600]),
    row(
        "thread pool",
        Some(Architecture::Shared),
        [1500, 1300, 152, 750],
    ),
    row(
        "process pool",
        Some(Architecture::Processes),
        [1600, 1350, 160, 1000],
    ),
];

/// Table 2.
const STATEFUL: [Row; 4] = [
    row(
        "event-based",
        Some(Architecture::EventLoop),
        [1150, 300, 160, 400],
    ),
    row(
        "thread per message",
        Some(Architecture::ThreadPerTransaction),
        [600, 175, 90, 300],
    ),
    row(
        "thread pool",
        Some(Architecture::Shared),
        [850, 340, 120, 300],
    ),
    row(
        "two-stage thread pool",
        Some(Architecture::TwoStage),
        [1100, 550, 155, 500],
    ),
];

/// The paper's table for a mode. It has none of REGISTERs.
pub(super) fn table(mode: Mode) -> &'static [Row] {
    match mode {
        Mode::Stateless => &STATELESS,
        Mode::Stateful => &STATEFUL,
        Mode::Registrar => &[],
    }
}
