//! Which of the connections that have something to read is read next, and how much of it.

use std::{collections::VecDeque, ops::RangeInclusive, time::Duration};

use transaction::ConnectionId;

use crate::unread::{Pace, Seen};

/// Bytes that are read in all, as far as the number of connections allows it.
const TURN_BYTES: usize = 32 * 1024;

/// Bytes that are read from one: a few messages, so that the next one does not wait for long.
const BYTES: RangeInclusive<usize> = 2 * 1024..=16 * 1024;

/// The most bytes that are read at once.
pub const READ_BYTES: usize = *BYTES.end();

/// While none has waited for so long, they have their turns in order. A burst of one delays the others for no longer.
const LONG: Duration = Duration::from_millis(20);
/// A connection that has waited for so long is behind all that have something new: what is read of it may be too late, and
/// then costs time for nothing.
const LATE: Duration = Duration::from_millis(100);
/// What has waited for so long is refused, which takes little time.
const TOO_LATE: Duration = Duration::from_millis(400);
/// One of those that are behind is read so often in a row until nothing is left of it. What it sends then is new again.
const IN_A_ROW: u32 = 1024;
/// The others who are behind have turns at this interval.
const PAUSE: Duration = Duration::from_millis(10);
/// The worker rests for so long before it spares some time for those who are behind.
const REST: Duration = Duration::from_millis(1);
/// The most time that is spared.
const SPARE_MAX: Duration = Duration::from_millis(10);

/// A connection that waits for its turn.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Whose turn it is.
    pub id: ConnectionId,
    /// Since when what is read next may be there. If that is long ago, what came later had to wait at its peer.
    pub since: Duration,
    /// A later moment, and what is left to read of what was there then. All after that came later.
    mark: Duration,
    left: usize,
}

/// Connections that wait for their turn.
///
/// While there is time for all, they come in order. Otherwise those that were ready last come first, so that some callers are
/// served in time, and not all of them late. What those who are behind have sent is refused. That takes no more time
/// than refusals may take, and half of the time in which there is nothing else to do.
#[derive(Debug, Default)]
pub struct Turns {
    /// By the time since when they wait.
    new: VecDeque<Turn>,
    behind: VecDeque<Turn>,
    /// One of those who are behind: it is read until nothing is left of it, and this often so far.
    first: Option<Turn>,
    in_a_row: u32,
    /// When the next of the others was asked for.
    asked_at: Duration,
    /// Whether those who are behind are left unread.
    are_left: bool,
    /// The time that they may take.
    spare: Duration,
    pace: Pace,
}

/// How many bytes to read from each of so many connections.
#[must_use]
pub fn read_bytes(ready: usize) -> usize {
    (TURN_BYTES / ready.max(1)).clamp(*BYTES.start(), *BYTES.end())
}

impl Turn {
    /// Whether it has waited for too long.
    #[must_use]
    pub fn is_behind(&self, now: Duration) -> bool {
        self.since + LATE < now
    }
}

impl Turns {
    /// How many connections wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.new.len() + self.behind.len() + usize::from(self.first.is_some())
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn are_behind(&self) -> bool {
        self.first.is_some() || !self.behind.is_empty()
    }

    /// A connection is ready.
    pub fn push(&mut self, now: Duration, id: ConnectionId) {
        self.insert(Turn {
            id,
            since: now,
            mark: now,
            left: 0,
        });
    }

    fn insert(&mut self, turn: Turn) {
        let place = self.new.partition_point(|other| other.since <= turn.since);
        self.new.insert(place, turn);
    }

    /// So many bytes were read of a connection whose turn it was.
    pub fn note_read(&mut self, now: Duration, turn: Turn, length: usize) -> Seen {
        self.pace.note(now, length);
        Seen {
            is_behind: turn.is_behind(now),
            length,
            share: self.pace.share(self.len() + 1),
        }
    }

    /// So many bytes were read of a connection, and there is more: `unread` bytes, if that has to be known.
    pub fn push_again(
        &mut self,
        now: Duration,
        mut turn: Turn,
        read: usize,
        unread: impl FnOnce() -> usize,
    ) {
        if !turn.is_behind(now) {
            turn.left = turn.left.saturating_sub(read);
            if turn.left == 0 {
                (turn.since, turn.mark, turn.left) = (turn.mark, now, unread());
            }
            return self.insert(turn);
        }
        self.in_a_row += 1;
        let is_next = turn.since + TOO_LATE < now && self.in_a_row < IN_A_ROW;
        match self.first {
            None if is_next => self.first = Some(turn),
            _ => self.push_behind(turn),
        }
    }

    /// The same of one who is behind, and has had a turn before the others.
    pub fn push_behind(&mut self, turn: Turn) {
        self.behind.push_back(turn);
    }

    /// The next of those who are behind, if none was asked for lately: each has such a turn now and then.
    pub fn next_behind(&mut self, now: Duration) -> Option<Turn> {
        if now < self.asked_at + PAUSE {
            return None;
        }
        self.asked_at = now;
        self.behind.pop_front()
    }

    /// The newest of those who are not behind, or the first while none of them has waited for long. Else one who is behind, if
    /// there is time for what may be late, or time is spared for it.
    pub fn next(&mut self, now: Duration, may_be_late: bool) -> Option<Turn> {
        while let Some(turn) = self.new.pop_front_if(|turn| turn.is_behind(now)) {
            self.behind.push_back(turn);
        }
        if let Some(turn) = self.next_of_new(now) {
            return Some(turn);
        }
        self.are_left = !may_be_late && self.spare.is_zero();
        if self.are_left {
            return None;
        }
        self.first.take().or_else(|| {
            self.in_a_row = 0;
            self.behind.pop_front()
        })
    }

    fn next_of_new(&mut self, now: Duration) -> Option<Turn> {
        let first = self.new.front()?;
        match now < first.since + LONG {
            true => self.new.pop_front(),
            false => self.new.pop_back(),
        }
    }

    /// To serve one who is behind took so long.
    pub fn spend(&mut self, took: Duration) {
        self.spare = self.spare.saturating_sub(took);
    }

    /// How long to wait until somebody is ready.
    #[must_use]
    pub fn timeout(&self, timeout: Duration) -> Duration {
        if !self.new.is_empty() || self.are_behind() && !self.are_left {
            Duration::ZERO
        } else if self.are_behind() {
            timeout.min(REST)
        } else {
            timeout
        }
    }

    /// There was nothing else to do for so long.
    pub fn rested(&mut self, time: Duration) {
        if self.are_behind() {
            self.spare = (self.spare + time / 2).min(SPARE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn the_more_connections_the_less_is_read_of_each() {
        for (ready, bytes) in [
            (0, 16_384),
            (1, 16_384),
            (2, 16_384),
            (8, 4_096),
            (500, 2_048),
        ] {
            assert_eq!(read_bytes(ready), bytes, "{ready}");
        }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn id(number: u32) -> ConnectionId {
        ConnectionId(NonZeroU32::new(number).expect("numbers begin with 1"))
    }

    /// Turns of these connections, each ready at its time.
    fn ready(at: &[(u32, u64)]) -> Turns {
        let mut turns = Turns::default();
        for &(number, at) in at {
            turns.push(ms(at), id(number));
        }
        turns
    }

    /// Whose turn it is, one after the other, with nothing left in any.
    fn order(turns: &mut Turns, now: u64, may_be_late: bool) -> Vec<u32> {
        let next = std::iter::from_fn(|| turns.next(ms(now), may_be_late));
        next.map(|turn| turn.id.0.get()).collect()
    }

    /// Connections were read in turn. At ten times the capacity all were read too late, and the node did nothing but refuse.
    #[test]
    fn the_newest_come_first_and_those_who_are_behind_last() {
        let ready = || ready(&[(1, 0), (2, 40), (3, 80), (4, 150), (5, 160)]);
        let order = |now, may_be_late| order(&mut ready(), now, may_be_late);
        assert_eq!(order(90, true), [5, 4, 3, 2, 1]);
        assert_eq!(order(170, true), [5, 4, 3, 1, 2]);
        assert_eq!(order(170, false), [5, 4, 3]);
    }

    #[test]
    fn they_come_in_order_while_none_has_waited_for_long() {
        let ready = || ready(&[(1, 0), (2, 5), (3, 10)]);
        assert_eq!(order(&mut ready(), 10, false), [1, 2, 3]);
        assert_eq!(order(&mut ready(), 20, false), [3, 2, 1]);
    }

    #[test]
    fn those_who_are_behind_have_half_of_the_time_in_which_there_is_nothing_else_to_do() {
        let mut turns = ready(&[(1, 0), (2, 0), (3, 0)]);
        assert_eq!(turns.timeout(ms(20)), ms(0));
        assert_eq!(order(&mut turns, 200, false), []);
        assert_eq!(turns.timeout(ms(20)), REST);
        turns.rested(REST);
        assert_eq!(turns.next(ms(201), false).map(|turn| turn.id), Some(id(1)));
        turns.spend(REST / 2);
        assert_eq!(order(&mut turns, 202, false), []);
        turns.rested(ms(100));
        assert_eq!(order(&mut turns, 203, false), [2, 3]);
        assert_eq!(turns.timeout(ms(20)), ms(20));
    }

    /// Reads a turn of which more is left.
    fn read(turns: &mut Turns, now: u64) -> u32 {
        let turn = turns.next(ms(now), true).expect("one waits");
        turns.push_again(ms(now), turn, 1, || 1);
        turn.id.0.get()
    }

    /// While all that are behind were read in turn, none of them was ever read to its end.
    #[test]
    fn what_is_too_late_is_read_to_its_end() {
        let mut turns = ready(&[(1, 0), (2, 0), (3, 0)]);
        let late: Vec<_> = (0..4).map(|at| read(&mut turns, 200 + at)).collect();
        assert_eq!(late, [1, 2, 3, 1]);
        let too_late: Vec<_> = (0..4).map(|at| read(&mut turns, 500 + at)).collect();
        assert_eq!(too_late, [2, 2, 2, 2]);
        for at in 4..u64::from(IN_A_ROW) {
            assert_eq!(read(&mut turns, 500 + at), 2, "{at}");
        }
        assert_eq!(read(&mut turns, 9_000), 3, "it never ends");
        let next = turns.next_behind(ms(9_000));
        assert_eq!(next.map(|turn| turn.id), Some(id(1)));
        assert!(turns.next_behind(ms(9_009)).is_none());
        assert_eq!(turns.len(), 2);
    }

    /// A connection that was read, with more left in it, came after all others, though those had waited for longer.
    #[test]
    fn what_is_left_of_a_connection_waits_since_it_came() {
        let mut turns = ready(&[(1, 0), (2, 10), (3, 20)]);
        let turn = turns.next(ms(60), false).expect("one waits");
        assert_eq!(turn.id, id(3));
        turns.push_again(ms(60), turn, 1, || 1);
        assert_eq!(order(&mut turns, 60, false), [3, 2, 1]);
    }

    /// Whether a connection is behind after 5 s in which so many bytes of it were read each 50 ms, and so many are left each time.
    fn gets_behind(read: usize, unread: usize) -> bool {
        let mut turns = ready(&[(1, 0)]);
        for now in (0..5_000).step_by(50) {
            let Some(turn) = turns.next(ms(now), false) else {
                return true;
            };
            turns.push_again(ms(now), turn, read, || unread);
        }
        false
    }

    /// A busy connection was taken for one that is behind, as there always was more of it to read. Then one in which much
    /// waited was taken for new: the system dates what it has put together by what came last.
    #[test]
    fn a_connection_is_behind_if_what_is_read_of_it_came_long_ago() {
        assert!(!gets_behind(2_048, 2_000));
        assert!(gets_behind(2_048, 9_000));
    }
}
