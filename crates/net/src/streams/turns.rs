//! Which of the connections that have something to read is read next.

use std::{collections::VecDeque, time::Duration};

use node::ConnectionId;

/// A connection that has waited for so long is behind all that have something new: what is read of it may be too late, and
/// then costs time for nothing.
const LATE: Duration = Duration::from_millis(100);
/// One of those that are behind is read so often in a row until nothing is left of it. What it sends then is new again.
const IN_A_ROW: u32 = 1024;
/// The worker rests for so long before it spares some time for those who are behind.
const REST: Duration = Duration::from_millis(1);
/// The most time that is spared.
const SPARE_MAX: Duration = Duration::from_millis(10);

/// A connection that waits for its turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) id: ConnectionId,
    /// Since when there is something to read in it. If that is long ago, what came later had to wait at its peer.
    pub(super) since: Duration,
}

/// Connections that wait for their turn.
///
/// While there is time for all, the order makes no difference. Otherwise those that were ready last come first, so that some
/// callers are served in time, and not all of them late. What those who are behind have sent is refused. That takes no
/// more time than refusals may take, and half of the time in which there is nothing else to do.
#[derive(Debug, Default)]
pub(super) struct Turns {
    new: VecDeque<Turn>,
    behind: VecDeque<Turn>,
    /// Reads of the first that is behind.
    in_a_row: u32,
    /// Whether those who are behind are left unread.
    are_left: bool,
    /// The time that they may take.
    spare: Duration,
}

impl Turn {
    /// Whether it has waited for too long.
    pub(super) fn is_behind(&self, now: Duration) -> bool {
        self.since + LATE < now
    }
}

impl Turns {
    pub(super) fn len(&self) -> usize {
        self.new.len() + self.behind.len()
    }

    /// A connection is ready.
    pub(super) fn push(&mut self, now: Duration, id: ConnectionId) {
        self.new.push_back(Turn { id, since: now });
    }

    /// There is more to read in a connection than was read. What was read last of it came so long ago.
    pub(super) fn push_again(&mut self, now: Duration, turn: Turn, waited: Duration) {
        if !turn.is_behind(now) {
            let since = turn.since.max(now.saturating_sub(waited));
            return self.new.push_front(Turn { since, ..turn });
        }
        self.in_a_row += 1;
        if self.in_a_row < IN_A_ROW {
            self.behind.push_front(turn);
        } else {
            self.behind.push_back(turn);
            self.in_a_row = 0;
        }
    }

    /// The newest of those who are not behind. Else one who is, as [`Self::next_behind`].
    pub(super) fn next(&mut self, now: Duration, may_be_late: bool) -> Option<Turn> {
        while let Some(turn) = self.new.pop_front_if(|turn| turn.is_behind(now)) {
            self.behind.push_back(turn);
        }
        let newest = self.new.pop_back();
        newest.or_else(|| self.next_behind(may_be_late))
    }

    /// The next of those who are behind, if there is time for what may be late, or time is spared for it.
    pub(super) fn next_behind(&mut self, may_be_late: bool) -> Option<Turn> {
        self.are_left = !may_be_late && self.spare.is_zero();
        match self.are_left {
            true => None,
            false => self.behind.pop_front(),
        }
    }

    /// To serve one who is behind took so long.
    pub(super) fn spend(&mut self, took: Duration) {
        self.spare = self.spare.saturating_sub(took);
    }

    /// How long to wait until somebody is ready.
    pub(super) fn timeout(&self, timeout: Duration) -> Duration {
        if !self.new.is_empty() || !(self.behind.is_empty() || self.are_left) {
            Duration::ZERO
        } else if self.behind.is_empty() {
            timeout
        } else {
            timeout.min(REST)
        }
    }

    /// There was nothing else to do for so long.
    pub(super) fn rested(&mut self, time: Duration) {
        if !self.behind.is_empty() {
            self.spare = (self.spare + time / 2).min(SPARE_MAX);
        }
    }
}
