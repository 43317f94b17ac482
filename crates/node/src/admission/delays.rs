//! How far behind the worker is with new requests.

use std::time::Duration;

use overload::{Delay, Read};

use super::lane::Lane;

/// How far behind it is with INVITEs, and with REGISTERs.
#[derive(Debug, Default)]
pub(super) struct Delays {
    calls: Delay,
    registers: Delay,
    /// What came until then with all others has been read.
    of_all: Duration,
    /// Since when new requests come in lanes. Those from before that still wait with all others.
    lanes_since: Option<Duration>,
}

impl Delays {
    /// New requests come in lanes from now on, or do no longer.
    pub(super) fn set_lanes(&mut self, now: Duration, has_lanes: bool) {
        self.lanes_since = has_lanes.then_some(now);
        for delay in [&mut self.calls, &mut self.registers] {
            delay.begin_lane(now);
        }
        if !has_lanes {
            self.of_all = now;
        }
    }

    /// What was read from a lane, or with all others, had waited for so long.
    pub(super) fn note(&mut self, now: Duration, lane: Option<Lane>, waited: Duration) {
        let came = now.saturating_sub(waited);
        match lane {
            Some(Lane::Calls) => self.calls.note(now, waited),
            Some(Lane::Registers) => self.registers.note(now, waited),
            None if self.lanes_since.is_none_or(|since| came < since) => {
                let time = came.saturating_sub(self.of_all);
                self.of_all += time;
                for delay in [&mut self.calls, &mut self.registers] {
                    delay.note_among_others(now, waited, time);
                }
            }
            None | Some(Lane::Others | Lane::Urgent | Lane::OfCalls) => {}
        }
    }

    /// Nothing waits in a lane.
    pub(super) fn note_empty(&mut self, now: Duration, lane: Lane) {
        self.note(now, Some(lane), Duration::ZERO);
    }

    /// What was read of INVITEs and of REGISTERs since this was asked last.
    pub(super) fn take(&mut self, now: Duration) -> [Read; 2] {
        [&mut self.calls, &mut self.registers].map(|delay| delay.take(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Of calls: how long the next one has waited, and in how long those came that were read.
    fn calls(delays: &mut Delays, now: Duration) -> [Duration; 2] {
        let [Read { delay, came_in }, _] = delays.take(now);
        [delay, came_in]
    }

    /// INVITEs from before there were lanes waited beside them, and only the lanes told how long. All of them seemed to have come
    /// within 6 ms, so that of 28,000 calls/s one in 80 was let in, where one in 11 could be served.
    #[test]
    fn what_came_before_the_lanes_waits_beside_them() {
        let mut delays = Delays::default();
        delays.note(90 * MS, None, MS);
        assert_eq!(calls(&mut delays, 90 * MS), [MS, 89 * MS]);
        delays.set_lanes(200 * MS, true);
        delays.note(250 * MS, None, 60 * MS);
        delays.note(250 * MS, Some(Lane::Calls), 20 * MS);
        assert_eq!(calls(&mut delays, 250 * MS), [20 * MS, (101 + 30) * MS]);
        delays.note(260 * MS, None, MS);
        assert_eq!(calls(&mut delays, 260 * MS), [20 * MS, Duration::ZERO]);
        delays.note_empty(300 * MS, Lane::Calls);
        assert_eq!(calls(&mut delays, 300 * MS), [Duration::ZERO, 70 * MS]);
    }

    /// While BYEs were read first, nothing told that the INVITEs waited longer and longer. Once they were read, it looked as if
    /// five times as many had come.
    #[test]
    fn what_is_not_read_waits_longer() {
        let mut delays = Delays::default();
        delays.note(100 * MS, None, 30 * MS);
        assert_eq!(delays.take(150 * MS)[0].delay, 80 * MS);
        delays.note(160 * MS, Some(Lane::Registers), MS);
        let [calls, registers] = delays.take(200 * MS).map(|read| read.delay);
        assert_eq!([calls, registers], [130 * MS, MS]);
        delays.note_empty(210 * MS, Lane::Calls);
        assert_eq!(delays.take(300 * MS)[0].delay, Duration::ZERO);
    }
}
