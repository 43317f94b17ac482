//! One connection.

use std::time::Duration;

use sip::Framer;
use slots::Id;
use transaction::{ConnectionId, Flow};

use crate::{Layer, Limits, Why, backlog::Backlog, queue::Queue};

/// What is known of a connection.
#[derive(Debug)]
pub(crate) struct Connection<L> {
    pub(crate) number: ConnectionId,
    /// With its number.
    pub(crate) flow: Flow,
    pub(crate) layer: L,
    pub(crate) phase: Phase,
    pub(crate) opener: Opener,
    /// Whether its source has it counted.
    pub(crate) is_counted: bool,
    /// Whether the driver has been told that there is something to write.
    pub(crate) is_told: bool,
    /// The connection to the same peer that was there before.
    pub(crate) before: Option<Id<Self>>,
    pub(crate) framer: Framer,
    /// The beginning of a message.
    pub(crate) inbound: Vec<u8>,
    pub(crate) queue: Queue,
    pub(crate) backlog: Backlog,
    /// What it was last counted with, in bytes.
    pub(crate) held: usize,
    /// Since when it carries nothing; at first, since when it is there.
    pub(crate) quiet_since: Duration,
    /// Since when a message is incomplete.
    pub(crate) within_since: Option<Duration>,
    /// Since when something waits to be read that the driver leaves: the peer is not to blame for that time.
    pub(crate) unread_since: Option<Duration>,
    /// Since when the peer reads nothing of what can be written.
    pub(crate) stalled_since: Option<Duration>,
    /// When its timer runs out.
    pub(crate) armed: Option<Duration>,
}

/// Who opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Opener {
    Us,
    Known,
    Stranger,
}

impl Opener {
    pub(crate) const ALL: [Self; 3] = [Self::Us, Self::Known, Self::Stranger];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// We are opening it.
    Connecting,
    /// The layer is not open yet.
    Handshaking,
    Open,
    /// It is closed when nothing waits to be written any more.
    Closing {
        why: Why,
        since: Duration,
        /// Until then, an answer may come.
        open_until: Duration,
        /// Whether it said farewell, so that nothing can be sent any more.
        has_ended: bool,
    },
}

impl<L: Layer> Connection<L> {
    /// The peer has taken it.
    pub(crate) fn connect(&mut self) {
        if self.phase == Phase::Connecting {
            self.phase = Phase::Handshaking;
        }
    }

    /// Something was read after it may have waited.
    pub(crate) fn read(&mut self, now: Duration) {
        if let Some(since) = self.unread_since.take() {
            let waited = now.saturating_sub(since);
            self.within_since = self.within_since.map(|since| since + waited);
        }
    }

    /// Bytes came in. They ended a message, or were another sign of life, if it `is_alive`.
    pub(crate) fn heard(&mut self, now: Duration, is_alive: bool) {
        if is_alive && !self.is_opening() {
            self.quiet_since = now;
        }
        let is_within = self.framer.is_within() || self.layer.held_bytes() > 0;
        if is_alive || !is_within {
            self.within_since = None;
        }
        if is_within {
            self.within_since.get_or_insert(now);
        }
    }

    /// Whether the peer opened it.
    pub(crate) fn is_of_peer(&self) -> bool {
        self.opener != Opener::Us
    }

    pub(crate) const fn is_opening(&self) -> bool {
        matches!(self.phase, Phase::Connecting | Phase::Handshaking)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    pub(crate) const fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing { .. })
    }

    /// Whether something can still be sent: it is not being closed, or waits for an answer before that.
    pub(crate) const fn takes_answers(&self) -> bool {
        let has_ended = matches!(
            self.phase,
            Phase::Closing {
                has_ended: true,
                ..
            }
        );
        !has_ended
    }

    /// The memory of its buffers, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.inbound.capacity() + self.queue.capacity() + self.layer.held_bytes()
    }

    /// When it has to end, and why, if nothing happens until then.
    pub(crate) fn due(&self, limits: &Limits) -> (Duration, Why) {
        let end = match self.phase {
            Phase::Connecting => (self.quiet_since + limits.handshake, Why::ConnectTimeout),
            Phase::Handshaking => (self.quiet_since + limits.handshake, Why::HandshakeTimeout),
            Phase::Open => {
                let since = self.unread_since.unwrap_or(self.quiet_since);
                (since + limits.idle, Why::Idle)
            }
            Phase::Closing {
                why, open_until, ..
            } if self.queue.is_empty() => (open_until, why),
            Phase::Closing { why, since, .. } => (since + limits.linger, why),
        };
        let within_since = self.within_since.filter(|_| self.unread_since.is_none());
        let slow = within_since.map(|since| since + limits.message);
        let stalled = self.stalled_since.map(|since| since + limits.stall);
        let ends = [
            Some(end),
            slow.map(|at| (at, Why::SlowMessage)),
            stalled.map(|at| (at, Why::Stalled)),
        ];
        let ends = ends.into_iter().flatten();
        ends.min_by_key(|&(at, _)| at).unwrap_or(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plain;

    #[test]
    fn an_idle_connection_is_small() {
        assert!(
            size_of::<Connection<Plain>>() <= 448,
            "{}",
            size_of::<Connection<Plain>>()
        );
    }
}
