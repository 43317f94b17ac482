//! How fast connections are read, how long their bytes have waited, and how many may wait.
//!
//! The system keeps what a peer sends until it is read. A worker that has more to do than it can must not let it
//! grow old there: its age is part of each message's delay, and is bounded by the room that a connection gets.

use std::time::Duration;

use transaction::ConnectionId;

use crate::{Connections, Layer};

/// Bytes that are read in one turn, over all connections.
const TURN_BYTES: usize = 32 * 1024;

/// Bytes that one connection may have read in each turn, however many there are: a message or two.
const READ_BYTES_MIN: usize = 2 * 1024;

/// What may wait unread over all connections, by the time that it takes to serve it.
const ROOM: Duration = Duration::from_millis(25);

/// Bytes that wait for so long are read before anything else is done.
const LATE: Duration = Duration::from_millis(100);

/// For no longer nothing is read.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Reads from one connection in one turn at most.
pub const READS: usize = 8;

/// Bytes that wait for so long are too many.
const OLD: Duration = Duration::from_millis(10);

/// A connection with nothing that old for so long may have room as before.
const CALM: Duration = Duration::from_secs(2);

/// How often it is seen how fast connections are read.
const PERIOD: Duration = Duration::from_millis(50);

/// The room of a connection that gets little: less than two long messages would wait for each other.
const ROOM_MIN: usize = 4 * 1024;

/// The room of a connection that has not grown old, as systems begin.
const ROOM_MAX: usize = 64 * 1024;

/// What is known of a connection's bytes before they are read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Intake {
    /// Bytes that were read.
    position: u64,
    /// What is read next came after this moment; none: all has been read.
    since: Option<Duration>,
    /// A moment, and the position behind what had come until then.
    mark: Option<(Duration, u64)>,
    /// The room that it was given, and when it had bytes that were old; none: what systems give.
    room: Option<(usize, Duration)>,
}

/// How fast a worker reads while something waits.
#[derive(Debug)]
pub(crate) struct Speed {
    began: Duration,
    bytes: usize,
    /// When something was read last, and whether it was late.
    read_at: Duration,
    is_late: bool,
    /// Bytes that may wait over all connections.
    room: usize,
    /// Connections from which something is left to read, and the most of this period and of the one before.
    pub(crate) waiting: usize,
    most: [usize; 2],
}

/// What the driver does after it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    /// How long the first of these bytes has waited, at most.
    pub delay: Duration,
    /// Whether that is too long, and more is left.
    pub is_old: bool,
    /// Whether it is to be read on at once, at most [`READS`] times in a turn: what belongs to something known waits
    /// behind new requests, and must not wait for these to be served.
    pub is_late: bool,
    /// Whether [`Connections::note_unread`] wants to know how many bytes are left.
    pub is_asked: bool,
    /// How many bytes may wait unread from now on, if that changes.
    pub room: Option<usize>,
}

impl Intake {
    pub(crate) const fn waits(&self) -> bool {
        self.since.is_some()
    }

    /// Notes a read at a moment; how long its bytes have waited.
    fn read(&mut self, now: Duration, empty_at: Duration, bytes: usize, is_all: bool) -> Duration {
        let since = self.since.unwrap_or(empty_at);
        self.position += bytes as u64;
        if is_all {
            (self.since, self.mark) = (None, None);
        } else {
            let passed = self
                .mark
                .take_if(|&mut (_, behind)| behind <= self.position);
            self.since = Some(passed.map_or(since, |(at, _)| at));
        }
        now.saturating_sub(since)
    }

    /// The room of a connection whose bytes waited for so long, if it changes.
    fn make_room(&mut self, now: Duration, delay: Duration, share: usize) -> Option<usize> {
        let (room, old_at) = self.room.unwrap_or((ROOM_MAX, now));
        let old_at = if delay > OLD { now } else { old_at };
        let next = match delay > OLD {
            true if share <= room / 2 || share >= room * 2 => share,
            false if now > old_at + CALM => ROOM_MAX,
            _ => room,
        };
        if self.room.is_some() || next != room {
            self.room = Some((next, old_at));
        }
        (next != room).then_some(next)
    }
}

impl Speed {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            began: now,
            bytes: 0,
            read_at: now,
            is_late: false,
            room: ROOM_MAX,
            waiting: 0,
            most: [0; 2],
        }
    }

    /// Notes a read. While something is left by all reads, they are as fast as the worker serves.
    fn read(&mut self, now: Duration, bytes: usize) {
        self.most[0] = self.most[0].max(self.waiting);
        self.bytes += bytes;
        let passed = now.saturating_sub(self.began);
        if passed < PERIOD {
            return;
        }
        let room = self.bytes as f64 * ROOM.as_secs_f64() / passed.as_secs_f64();
        self.room = room as usize;
        self.most = [self.waiting, self.most[0]];
        (self.began, self.bytes) = (now, 0);
    }

    /// The room of each connection that waits: a power of two, so that it changes seldom.
    fn share(&self) -> usize {
        let waiting = self.most[0].max(self.most[1]).max(1);
        let share = (self.room / waiting).clamp(ROOM_MIN, ROOM_MAX);
        1 << share.ilog2()
    }
}

impl<L: Layer> Connections<L> {
    /// How many bytes each of so many connections may have read in one turn.
    #[must_use]
    pub fn read_bytes(ready: usize) -> usize {
        (TURN_BYTES / ready.max(1)).max(READ_BYTES_MIN)
    }

    /// Whether a connection need not be read at once: a peer has opened it, and sends requests. What servers answer
    /// belongs to something known.
    #[must_use]
    pub fn may_wait(&self, id: ConnectionId) -> bool {
        let connection = self.index.find(id).map(|id| self.table.get(id));
        connection.is_some_and(|of| of.is_of_peer && of.is_open())
    }

    /// How many connections are read in one turn at most. A worker that is behind reads no more than it soon serves.
    #[must_use]
    pub const fn read_at_once(is_behind: bool) -> usize {
        if is_behind {
            TURN_BYTES / READ_BYTES_MIN
        } else {
            64
        }
    }

    /// So many bytes were read from a connection, which was empty at a moment unless the last read has left something;
    /// this read has left nothing if it `is_all`.
    pub fn note_read(
        &mut self,
        now: Duration,
        id: ConnectionId,
        empty_at: Duration,
        bytes: usize,
        is_all: bool,
    ) -> Came {
        let mut came = Came {
            delay: Duration::ZERO,
            is_old: false,
            is_late: false,
            is_asked: false,
            room: None,
        };
        let Some(id) = self.index.find(id) else {
            return came;
        };
        let intake = &mut self.table.get_mut(id).intake;
        self.speed.waiting -= usize::from(intake.waits());
        came.delay = intake.read(now, empty_at, bytes, is_all);
        self.speed.waiting += usize::from(intake.waits());
        came.is_old = came.delay > OLD && !is_all;
        came.is_late = came.delay > LATE && !is_all;
        (self.speed.read_at, self.speed.is_late) = (now, came.is_late);
        came.is_asked = intake.waits() && intake.mark.is_none();
        self.speed.read(now, bytes);
        came.room = intake.make_room(now, came.delay, self.speed.share());
        came
    }

    /// So many bytes are left to read.
    pub fn note_unread(&mut self, now: Duration, id: ConnectionId, bytes: usize) {
        if let Some(id) = self.index.find(id) {
            let intake = &mut self.table.get_mut(id).intake;
            intake.mark = Some((now, intake.position + bytes as u64));
            if bytes == 0 && intake.waits() {
                self.speed.waiting -= 1;
                (intake.since, intake.mark) = (None, None);
            }
        }
    }

    /// Whether nothing was read for so long that it must be, whatever else there is to do.
    #[must_use]
    pub fn is_late(&self, now: Duration) -> bool {
        now > self.speed.read_at + PAUSE_MAX || self.speed.is_late
    }

    /// Connections from which something is left to read.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.speed.waiting
    }
}
