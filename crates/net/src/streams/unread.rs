//! How much may wait unread in a connection: what waits there, its peer does not see. Paper 002 §VI-B, buffer minimization

use std::{mem, time::Duration};

use socket::tcp;
use stream::READ_BYTES;

/// A new connection has so much of the system's memory, in bytes: enough for ten messages. The system makes it more while
/// they are read in time and fill it.
pub(super) const AT_FIRST: usize = 32 * 1024;

/// One that has filled that, while few others have something to read, has so much at once.
const MUCH: usize = 128 * 1024;

/// More than so much is no limit.
const MOST: usize = 384 * 1024;

/// What those that are behind may leave unread, all together, is what is read in so long.
const WINDOW: Duration = Duration::from_millis(100);

/// The system's memory for each byte of a message, as each message has some of its own.
const MEMORY_OF_BYTE: usize = 3;

/// As long as no more than so many have something to read: more can't have little, as each needs [`AT_FIRST`].
const FEW: usize = 16;

/// What was not behind for so long has no limit.
const CALM: Duration = Duration::from_secs(2);

/// How much of the system's memory is for what waits unread in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// [`AT_FIRST`], and more when the system finds that of use.
    AtFirst,
    /// [`MUCH`], and more when the system finds that of use.
    Free,
    /// So many bytes, as it was behind then.
    Limited { memory: usize, behind_at: Duration },
}

/// What was seen when a connection was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) is_behind: bool,
    /// Bytes that were read.
    pub(super) length: usize,
    /// The part of all that may wait unread that a connection has; none: there is no limit.
    pub(super) share: Option<usize>,
}

/// How much is read of all connections.
#[derive(Debug, Default)]
pub(super) struct Pace {
    ends_at: Duration,
    bytes: usize,
    /// Bytes in the last window.
    last: usize,
}

impl Pace {
    pub(super) fn note(&mut self, now: Duration, length: usize) {
        if now >= self.ends_at {
            let is_next = now < self.ends_at + WINDOW;
            let bytes = mem::take(&mut self.bytes);
            self.last = if is_next { bytes } else { 0 };
            self.ends_at = now + WINDOW;
        }
        self.bytes += length;
    }

    /// The memory that one of so many connections may have, as far as it can be little.
    pub(super) fn share(&self, ready: usize) -> Option<usize> {
        let share = MEMORY_OF_BYTE * self.last.max(self.bytes) / ready.max(1);
        (ready <= FEW && share <= MOST).then_some(share.max(AT_FIRST))
    }
}

impl Unread {
    /// A connection was read: its socket keeps as much as it may from now on.
    pub(super) fn adjust(&mut self, now: Duration, seen: Seen, socket: &tcp::Stream) {
        let next = self.after(now, seen);
        match next {
            Self::Limited { memory, .. } if !self.is_limited_to(memory) => {
                socket.limit_unread(memory);
            }
            Self::Free if *self != Self::Free => socket.allow_unread(MUCH),
            Self::AtFirst | Self::Free | Self::Limited { .. } => {}
        }
        *self = next;
    }

    fn after(self, now: Duration, seen: Seen) -> Self {
        let before = match self {
            Self::Limited { memory, .. } => memory,
            Self::AtFirst | Self::Free => usize::MAX,
        };
        let is_large = seen.length * 2 >= READ_BYTES;
        let Some(share) = seen.share else {
            return Self::Free;
        };
        match self {
            _ if seen.is_behind => Self::Limited {
                memory: share.min(before),
                behind_at: now,
            },
            Self::AtFirst if is_large && share > AT_FIRST => Self::Free,
            Self::Limited { memory, .. } if is_large && share > memory => Self::Free,
            Self::Limited { behind_at, .. } if behind_at + CALM < now => Self::Free,
            Self::AtFirst | Self::Free | Self::Limited { .. } => self,
        }
    }

    fn is_limited_to(self, most: usize) -> bool {
        matches!(self, Self::Limited { memory, .. } if memory == most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEHIND: bool = true;
    const IN_TIME: bool = false;
    const LITTLE: Option<usize> = Some(AT_FIRST);

    fn limited(memory: usize, behind_at: u64) -> Unread {
        Unread::Limited {
            memory,
            behind_at: Duration::from_secs(behind_at),
        }
    }

    /// After so much of a connection was read at this second.
    fn after(
        before: Unread,
        second: u64,
        is_behind: bool,
        length: usize,
        share: Option<usize>,
    ) -> Unread {
        let seen = Seen {
            is_behind,
            length,
            share,
        };
        before.after(Duration::from_secs(second), seen)
    }

    /// Ten senders that keep new calls back while their peer does not read had filled the system's buffers before they saw that.
    /// Their calls were answered seconds later.
    #[test]
    fn few_connections_that_are_behind_leave_little_unread() {
        for share in [AT_FIRST, MUCH] {
            for before in [Unread::AtFirst, Unread::Free, limited(MUCH, 5)] {
                let after = after(before, 7, BEHIND, 2_048, Some(share));
                assert_eq!(after, limited(share, 7));
            }
        }
        let less = after(limited(AT_FIRST, 5), 7, BEHIND, 2_048, Some(MUCH));
        assert_eq!(less, limited(AT_FIRST, 7));
    }

    /// With a limit for each of 64 connections of callers who don't see it, what came next was taken for new, though it had waited
    /// for seconds at its caller.
    #[test]
    fn where_there_are_many_none_has_a_limit() {
        for before in [Unread::AtFirst, Unread::Free, limited(AT_FIRST, 5)] {
            for is_behind in [BEHIND, IN_TIME] {
                assert_eq!(after(before, 6, is_behind, 700, None), Unread::Free);
            }
        }
    }

    /// A single sender was limited to what the node could read in a part of its quota's period, and the connection ran dry.
    #[test]
    fn a_connection_that_fills_its_room_has_more_if_its_share_is_more() {
        for before in [Unread::AtFirst, limited(AT_FIRST, 5)] {
            let more = Some(MUCH);
            assert_eq!(after(before, 6, IN_TIME, READ_BYTES, more), Unread::Free);
            assert_eq!(after(before, 6, IN_TIME, 700, more), before);
            assert_eq!(after(before, 6, IN_TIME, READ_BYTES, LITTLE), before);
        }
    }

    #[test]
    fn a_limit_ends_when_nothing_was_behind_for_long() {
        let before = limited(AT_FIRST, 5);
        assert_eq!(after(before, 7, IN_TIME, 700, LITTLE), before);
        assert_eq!(after(before, 8, IN_TIME, 700, LITTLE), Unread::Free);
        assert_eq!(after(Unread::Free, 99, IN_TIME, 700, LITTLE), Unread::Free);
    }

    /// A limit of the same bytes for all nodes would have one that is fast read from a far sender for a small part of the time.
    #[test]
    fn a_share_is_what_is_read_in_a_tenth_of_a_second() {
        let mut pace = Pace::default();
        for at in 0..300 {
            pace.note(Duration::from_millis(at), 1_000);
        }
        let shares = [1, 2, 4, FEW, FEW + 1].map(|ready| pace.share(ready));
        let least = Some(AT_FIRST);
        assert_eq!(
            shares,
            [Some(300_000), Some(150_000), Some(75_000), least, None]
        );
        pace.note(Duration::from_millis(300), 200_000);
        assert_eq!(pace.share(1), None);
        pace.note(Duration::from_secs(9), 1_000);
        assert_eq!(pace.share(1), least);
    }
}
