use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

/// RFC 3261 §17.1.1.1: the round-trip time estimate.
pub(crate) const T1: Duration = Duration::from_millis(500);
/// RFC 3261 §17.1.2.2: the longest retransmission interval.
pub(crate) const T2: Duration = Duration::from_secs(4);
/// RFC 3261 §17.1.2.2: how long a message may stay in the network.
pub(crate) const T4: Duration = Duration::from_secs(5);
/// 64*T1: when a transaction gives up.
const PATIENCE: Duration = Duration::from_secs(32);

/// SIPstone: a test whose answer takes longer has failed.
const SIPSTONE_PATIENCE: Duration = Duration::from_secs(2);

/// Whether messages without an answer are retransmitted, and how long to wait for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retransmission {
    /// As RFC 3261 §17.1 and §13.3.1.4 have it for UDP; given up after 64*T1.
    Rfc3261,
    /// Never: what is lost is lost. Given up after 64*T1.
    Never,
    /// Never, and what has no final response after 2 s has failed, ringing or not. Calls that are not
    /// acknowledged within that time are forgotten.
    Sipstone,
}

impl Retransmission {
    /// How long after its beginning a transaction is given up.
    pub(crate) fn patience(self) -> Duration {
        match self {
            Self::Rfc3261 | Self::Never => PATIENCE,
            Self::Sipstone => SIPSTONE_PATIENCE,
        }
    }

    /// When an INVITE is given up that gets a provisional response.
    pub(crate) fn rings_until(self, now: Duration, give_up: Duration) -> Duration {
        match self {
            Self::Rfc3261 | Self::Never => now + PATIENCE,
            Self::Sipstone => give_up,
        }
    }

    /// When something is to be done about a message that is sent now and gets no answer.
    pub(crate) fn first_alarm(self, now: Duration) -> Duration {
        match self {
            Self::Rfc3261 => now + T1,
            Self::Never | Self::Sipstone => now + self.patience(),
        }
    }
}

/// One alarm for each call, in a heap.
///
/// An alarm that moves to a later time keeps its place in the heap and is put back when that
/// place comes up, so that calls of a few milliseconds cost no heap operation at all.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Duration, u32)>>,
}

/// The alarm of one call. It stays with the slot that the next call takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    due: Duration,
    queued: Duration,
}

impl Alarm {
    pub(crate) const OFF: Self = Self {
        due: Duration::MAX,
        queued: Duration::MAX,
    };

    pub(crate) fn stop(&mut self) {
        self.due = Duration::MAX;
    }
}

impl Timers {
    pub(crate) fn set(&mut self, slot: u32, alarm: &mut Alarm, due: Duration) {
        alarm.due = due;
        if due < alarm.queued {
            alarm.queued = due;
            self.heap.push(Reverse((due, slot)));
        }
    }

    /// Takes the next slot whose alarm is due, with the time that it was set to, and turns that alarm
    /// off.
    pub(crate) fn pop<T>(
        &mut self,
        now: Duration,
        calls: &mut [T],
        alarm_of: impl Fn(&mut T) -> &mut Alarm,
    ) -> Option<(Duration, u32)> {
        while let Some(&Reverse((at, slot))) = self.heap.peek()
            && at <= now
        {
            self.heap.pop();
            let alarm = alarm_of(&mut calls[slot as usize]);
            if alarm.queued != at {
                continue;
            }
            alarm.queued = Duration::MAX;
            if alarm.due <= now {
                let due = alarm.due;
                alarm.stop();
                return Some((due, slot));
            }
            let due = alarm.due;
            self.set(slot, alarm, due);
        }
        None
    }

    /// No alarm is due before this.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_go_off_in_time_and_once() {
        let s = Duration::from_secs;
        let mut timers = Timers::default();
        let mut alarms = [Alarm::OFF; 3];
        timers.set(0, &mut alarms[0], s(5));
        timers.set(1, &mut alarms[1], s(4));
        timers.set(1, &mut alarms[1], s(6));
        timers.set(2, &mut alarms[2], s(9));
        timers.set(2, &mut alarms[2], s(7));
        let mut pop = |now| timers.pop(s(now), &mut alarms, |alarm| alarm);
        assert_eq!(pop(3), None);
        assert_eq!(pop(5), Some((s(5), 0)));
        assert_eq!(pop(5), None);
        assert_eq!(pop(10), Some((s(6), 1)));
        assert_eq!(pop(10), Some((s(7), 2)));
        assert_eq!(pop(100), None);
        assert_eq!(timers.deadline(), None);
    }

    #[test]
    fn a_stopped_alarm_is_silent_and_its_slot_can_be_set_again() {
        let s = Duration::from_secs;
        let mut timers = Timers::default();
        let mut alarms = [Alarm::OFF];
        timers.set(0, &mut alarms[0], s(1));
        alarms[0].stop();
        assert_eq!(timers.pop(s(2), &mut alarms, |alarm| alarm), None);
        timers.set(0, &mut alarms[0], s(3));
        assert_eq!(
            timers.pop(s(3), &mut alarms, |alarm| alarm),
            Some((s(3), 0))
        );
    }
}
