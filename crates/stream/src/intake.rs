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
const ROOM: Duration = Duration::from_millis(12);

/// For no longer nothing is read.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Bytes that wait for so long are too many.
const OLD: Duration = Duration::from_millis(10);

/// How often it is seen how fast connections are read.
const PERIOD: Duration = Duration::from_millis(50);

/// The room of a peer's connection at first, and the least: less than two long messages would wait for each other.
///
/// What a peer was told that it may send can't be taken back. So it gets more only when it has filled half of what it
/// has, and that was read in time.
pub const ROOM_MIN: usize = 4 * 1024;

/// The most room of a connection that a peer has opened.
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
    /// Its room; none: what systems give.
    room: Option<usize>,
}

/// How fast a worker reads while something waits.
#[derive(Debug)]
pub(crate) struct Speed {
    began: Duration,
    bytes: usize,
    /// When something was read last.
    read_at: Duration,
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

    pub(crate) fn of(is_of_peer: bool) -> Self {
        Self {
            room: is_of_peer.then_some(ROOM_MIN),
            ..Self::default()
        }
    }

    /// The room after so many bytes came that had waited for so long, if it changes.
    fn make_room(&mut self, bytes: usize, delay: Duration, share: usize) -> Option<usize> {
        let room = self.room?;
        let next = match delay > OLD {
            true if share < room => share,
            false if bytes >= room / 2 => (room * 2).min(ROOM_MAX),
            _ => room,
        };
        self.room = Some(next);
        (next != room).then_some(next)
    }
}

impl Speed {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            began: now,
            bytes: 0,
            read_at: now,
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
        self.speed.read_at = now;
        came.is_asked = intake.waits() && intake.mark.is_none();
        self.speed.read(now, bytes);
        came.room = intake.make_room(bytes, came.delay, self.speed.share());
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
        now > self.speed.read_at + PAUSE_MAX
    }

    /// Connections from which something is left to read.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.speed.waiting
    }
}
