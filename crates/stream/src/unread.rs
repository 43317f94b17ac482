//! How much may wait unread in a connection: what waits there, its peer does not see. Paper 002 §VI-B, buffer minimization

use std::{mem, time::Duration};

use crate::turns::READ_BYTES;

/// A new connection has so much of the system's memory, in bytes: enough for ten messages. The system makes it more while
/// they are read in time and fill it.
const AT_FIRST: usize = 32 * 1024;

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

/// What was seen is forgotten after so long.
const CALM: Duration = Duration::from_secs(2);

/// Who sends less in that time is quiet: [`AT_FIRST`] has room for what a peer sends in a tenth of a second.
const QUIET: usize = 200_000;

/// How much of the system's memory is for what waits unread in a connection. A message of 700 bytes takes 2,300.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// What a new connection has, 32 KB, and more when the system finds that of use.
    AtFirst,
    /// Much, 128 KB, and more when the system finds that of use.
    Free,
    /// So many bytes and no more, as it was behind.
    Limited(usize),
}

/// A connection's room, and what was seen of it lately.
#[derive(Clone, Copy, Debug)]
pub struct Unread {
    room: Room,
    ends_at: Duration,
    bytes: usize,
    was_behind: bool,
    was_full: bool,
}

/// What was seen when a connection was read. See [`Turns::note_read`].
///
/// [`Turns::note_read`]: crate::Turns::note_read
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub(crate) is_behind: bool,
    /// Bytes that were read.
    pub(crate) length: usize,
    /// The part of all that may wait unread that a connection has; none: there is no limit.
    pub(crate) share: Option<usize>,
}

/// How much is read of all connections of a lane.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    ends_at: Duration,
    bytes: usize,
    /// Bytes in the last window.
    last: usize,
}

impl Pace {
    pub(crate) fn note(&mut self, now: Duration, length: usize) {
        if now >= self.ends_at {
            let is_next = now < self.ends_at + WINDOW;
            let bytes = mem::take(&mut self.bytes);
            self.last = if is_next { bytes } else { 0 };
            self.ends_at = now + WINDOW;
        }
        self.bytes += length;
    }

    /// The memory that one of so many connections may have, as far as it can be little.
    pub(crate) fn share(&self, ready: usize) -> Option<usize> {
        let share = MEMORY_OF_BYTE * self.last.max(self.bytes) / ready.max(1);
        (ready <= FEW && share <= MOST).then_some(share.max(AT_FIRST))
    }
}

impl Room {
    /// The least memory that there is for it, in bytes.
    #[must_use]
    pub fn memory(self) -> usize {
        match self {
            Self::AtFirst => AT_FIRST,
            Self::Free => MUCH,
            Self::Limited(memory) => memory,
        }
    }
}

impl Unread {
    /// That of a new connection.
    #[must_use]
    pub fn new(now: Duration) -> Self {
        Self {
            room: Room::AtFirst,
            ends_at: now + CALM,
            bytes: 0,
            was_behind: false,
            was_full: false,
        }
    }

    /// A connection was read; its room from now on, if that is another one.
    pub fn see(&mut self, now: Duration, seen: Seen) -> Option<Room> {
        let before = self.room;
        if now >= self.ends_at {
            self.look_back(now);
        }
        let is_full = seen.length * 2 >= READ_BYTES;
        self.bytes += seen.length;
        self.was_behind |= seen.is_behind;
        self.was_full |= is_full;
        self.room = match (self.room, seen.share) {
            (_, None) => Room::Free,
            (Room::Limited(memory), Some(share)) if seen.is_behind => {
                Room::Limited(memory.min(share))
            }
            (_, Some(share)) if seen.is_behind => Room::Limited(share),
            (Room::AtFirst, Some(share)) if is_full && share > AT_FIRST => Room::Free,
            (Room::Limited(memory), Some(share)) if is_full && share > memory => Room::Free,
            (room, Some(_)) => room,
        };
        (self.room != before).then_some(self.room)
    }

    /// Ends a limit: there is little room, as at first, if the peer was quiet. What was offered is not taken back: more might
    /// be on its way.
    fn look_back(&mut self, now: Duration) {
        let is_recent = now < self.ends_at + CALM;
        let is_busy = is_recent && (self.was_full || self.bytes >= QUIET);
        self.room = match self.room {
            Room::Limited(_) if is_recent && self.was_behind => self.room,
            Room::Limited(_) if is_busy => Room::Free,
            Room::Limited(_) => Room::AtFirst,
            Room::AtFirst | Room::Free => self.room,
        };
        *self = Self {
            room: self.room,
            ..Self::new(now)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEHIND: bool = true;
    const IN_TIME: bool = false;
    const LITTLE: Option<usize> = Some(AT_FIRST);
    const SOME: Option<usize> = Some(MUCH);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The room after so much of a connection was read at this moment.
    fn room(
        unread: &mut Unread,
        at: u64,
        is_behind: bool,
        length: usize,
        share: Option<usize>,
    ) -> Room {
        let seen = Seen {
            is_behind,
            length,
            share,
        };
        unread.see(ms(at), seen);
        unread.room
    }

    fn with(room: Room) -> Unread {
        Unread {
            room,
            ..Unread::new(Duration::ZERO)
        }
    }

    const ROOMS: [Room; 3] = [Room::AtFirst, Room::Free, Room::Limited(MUCH)];

    /// Ten senders that keep new calls back while their peer does not read had filled the system's buffers before they saw that.
    /// Their calls were answered seconds later.
    #[test]
    fn few_connections_that_are_behind_leave_little_unread() {
        for before in ROOMS {
            for share in [AT_FIRST, MUCH] {
                let after = room(&mut with(before), 1, BEHIND, 2_048, Some(share));
                assert_eq!(after, Room::Limited(share));
            }
        }
        let less = room(
            &mut with(Room::Limited(AT_FIRST)),
            1,
            BEHIND,
            2_048,
            Some(MUCH),
        );
        assert_eq!(less, Room::Limited(AT_FIRST));
    }

    /// With a limit for each of 64 connections of callers who don't see it, what came next was taken for new, though it had waited
    /// for seconds at its caller.
    #[test]
    fn where_there_are_many_none_has_a_limit() {
        for before in ROOMS {
            for is_behind in [BEHIND, IN_TIME] {
                let after = room(&mut with(before), 1, is_behind, 700, None);
                assert_eq!(after, Room::Free);
            }
        }
    }

    /// A single sender was limited to what the node could read in a part of its quota's period, and the connection ran dry.
    #[test]
    fn a_connection_that_fills_its_room_has_more_if_its_share_is_more() {
        for before in [Room::AtFirst, Room::Limited(AT_FIRST)] {
            let after = |length, share| room(&mut with(before), 1, IN_TIME, length, share);
            assert_eq!(after(READ_BYTES, SOME), Room::Free);
            assert_eq!(after(READ_BYTES, LITTLE), before);
            assert_eq!(after(700, SOME), before);
        }
    }

    /// The first overload had a limit, and the next one found large buffers.
    #[test]
    fn a_room_is_what_it_was_at_first_if_its_peer_was_quiet_after_a_limit() {
        let mut calm = with(Room::Limited(MUCH));
        assert_eq!(room(&mut calm, 2_001, IN_TIME, 700, LITTLE), Room::AtFirst);
        let mut silent = with(Room::Limited(AT_FIRST));
        room(&mut silent, 1, BEHIND, 700, LITTLE);
        assert_eq!(
            room(&mut silent, 9_000, IN_TIME, 700, LITTLE),
            Room::AtFirst
        );
        let mut behind = with(Room::Limited(AT_FIRST));
        room(&mut behind, 1_000, BEHIND, 700, LITTLE);
        let after = room(&mut behind, 2_001, IN_TIME, 700, LITTLE);
        assert_eq!(after, Room::Limited(AT_FIRST));
    }

    /// A burst that came after two quiet seconds found less room than its sender had been offered: part of it was lost, and came
    /// again after 0.2 s.
    #[test]
    fn room_is_not_taken_back_from_who_is_in_time() {
        let mut quiet = with(Room::Free);
        assert_eq!(room(&mut quiet, 2_001, IN_TIME, 700, LITTLE), Room::Free);
        assert_eq!(room(&mut quiet, 9_000, IN_TIME, 700, LITTLE), Room::Free);
    }

    #[test]
    fn a_limit_of_a_busy_connection_ends_with_much_room() {
        let mut busy = with(Room::Limited(AT_FIRST));
        for at in 0..2_000 {
            room(&mut busy, at, IN_TIME, 700, LITTLE);
        }
        assert_eq!(room(&mut busy, 2_001, IN_TIME, 700, LITTLE), Room::Free);
    }

    /// A limit of the same bytes for all nodes would have one that is fast read from a far sender for a small part of the time.
    #[test]
    fn a_share_is_what_is_read_in_a_tenth_of_a_second() {
        let mut pace = Pace::default();
        for at in 0..300 {
            pace.note(ms(at), 1_000);
        }
        let shares = [1, 2, 4, FEW, FEW + 1].map(|ready| pace.share(ready));
        assert_eq!(
            shares,
            [Some(300_000), Some(150_000), Some(75_000), LITTLE, None]
        );
        pace.note(ms(300), 200_000);
        assert_eq!(pace.share(1), None);
        pace.note(ms(9_000), 1_000);
        assert_eq!(pace.share(1), LITTLE);
    }
}
