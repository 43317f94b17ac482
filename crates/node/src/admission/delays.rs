//! How far behind the worker is with new requests.

use std::time::Duration;

use super::{lane::Lane, lobby::BEHIND};

/// How far behind it is with INVITEs, and with REGISTERs.
#[derive(Debug, Default)]
pub(super) struct Delays {
    calls: Delay,
    registers: Delay,
}

impl Delays {
    /// What was read from a lane, or with all others, had waited for so long.
    pub(super) fn note(&mut self, now: Duration, lane: Option<Lane>, waited: Duration) {
        let seen = Delay {
            read_at: now,
            waited,
        };
        match lane {
            Some(Lane::Calls) => self.calls = seen,
            Some(Lane::Registers) => self.registers = seen,
            None => (self.calls, self.registers) = (seen, seen),
            Some(Lane::Others | Lane::Urgent | Lane::OfCalls) => {}
        }
    }

    /// Nothing waits in a lane.
    pub(super) fn note_empty(&mut self, now: Duration, lane: Lane) {
        self.note(now, Some(lane), Duration::ZERO);
    }

    /// How long the INVITE that comes next has waited.
    pub(super) fn of_calls(&self, now: Duration) -> Duration {
        self.calls.at(now)
    }

    /// How long the REGISTER that comes next has waited.
    pub(super) fn of_registers(&self, now: Duration) -> Duration {
        self.registers.at(now)
    }
}

/// When something was read last, and how long it had waited.
#[derive(Clone, Copy, Debug, Default)]
struct Delay {
    read_at: Duration,
    waited: Duration,
}

impl Delay {
    /// If what was read last had waited for long, more waits since then.
    fn at(self, now: Duration) -> Duration {
        match self.waited > BEHIND {
            true => self.waited + now.saturating_sub(self.read_at),
            false => self.waited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// While BYEs were read first, nothing told that the INVITEs waited longer and longer. Once they were read, it looked as if
    /// five times as many had come.
    #[test]
    fn what_is_not_read_waits_longer() {
        let mut delays = Delays::default();
        delays.note(100 * MS, None, 30 * MS);
        assert_eq!(delays.of_calls(150 * MS), 80 * MS);
        delays.note(160 * MS, Some(Lane::Registers), MS);
        assert_eq!(delays.of_registers(200 * MS), MS);
        assert_eq!(delays.of_calls(200 * MS), 130 * MS);
        delays.note_empty(210 * MS, Lane::Calls);
        assert_eq!(delays.of_calls(300 * MS), Duration::ZERO);
    }
}
