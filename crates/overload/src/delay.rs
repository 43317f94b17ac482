//! How long what is read has waited.

use std::{mem, time::Duration};

use crate::Read;

/// What waits for longer is late: a queue is there.
pub const BEHIND: Duration = Duration::from_millis(20);

/// How long requests of one kind wait from when the system received them until they are read. It also says in how long that
/// came which was read since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delay {
    read_at: Duration,
    waited: Duration,
    /// What came until then has been read.
    until: Duration,
    /// In how long what was read lately had come.
    came_in: Duration,
}

impl Delay {
    /// From now on it waits in a queue of its own.
    pub fn begin_lane(&mut self, now: Duration) {
        self.until = now;
    }

    /// What was read from its own queue had waited for so long.
    pub fn note(&mut self, now: Duration, waited: Duration) {
        (self.read_at, self.waited) = (now, waited);
        let time = now.saturating_sub(waited).saturating_sub(self.until);
        self.until += time;
        self.came_in += time;
    }

    /// What was read from a queue of all kinds had waited for so long, and had come in this time.
    pub fn note_among_others(&mut self, now: Duration, waited: Duration, came_in: Duration) {
        (self.read_at, self.waited) = (now, waited);
        self.came_in += came_in;
    }

    /// What was read since this was asked last. If the last of it had waited for long, more waits since then.
    pub fn take(&mut self, now: Duration) -> Read {
        let delay = match self.waited > BEHIND {
            true => self.waited + now.saturating_sub(self.read_at),
            false => self.waited,
        };
        let came_in = mem::take(&mut self.came_in);
        Read { delay, came_in }
    }
}
