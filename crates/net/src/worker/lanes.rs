//! How a worker reads what strangers send while too much comes.

use std::{sync::Arc, time::Duration};

use node::{Lane, Sieve};
use socket::udp::{BATCH, RecvBatch, Socket, Wait};

use super::{READS, Worker, give};
use crate::lanes::{Change, Group, OwnLanes};

/// The most batches that are read in a row from one lane, as they have waited too long.
const LATE_READS: usize = 64;

/// The longest sleep while there are lanes: nothing in them wakes a worker.
const SLEEP_MAX: Duration = Duration::from_millis(1);

impl Worker {
    /// Opens and closes lanes as the node needs them, and has the kernel sift what comes in them.
    pub(super) fn keep_lanes(&mut self, now: Duration) {
        let team = Arc::clone(&self.team);
        if team.seats[self.number].sockets.is_empty() {
            return;
        }
        let state = [self.node.wants_lanes(now), self.lanes.is_some()];
        let group = Group {
            sockets: &team.seats[0].sockets,
            workers: team.seats.len(),
        };
        match team
            .lanes
            .keep(now, group, self.number, state, &self.shared)
        {
            Some(Change::Opened(lanes)) => {
                let bytes = self.shared.snapshot().config().limits.message_bytes;
                self.lanes = Some((lanes, RecvBatch::dated(BATCH, bytes)));
                self.node.set_lanes(now, true);
            }
            Some(Change::Refused) => self.node.note_filter_refused(),
            Some(Change::Closed) => {
                self.lanes = None;
                self.node.set_lanes(now, false);
            }
            None => {}
        }
        if let Some(sieve) = self.node.take_sieve() {
            self.set_filters(&sieve);
        }
    }

    /// Tells the node what lanes had no room for, and what their filters dropped.
    pub(super) fn notice_stopped(&mut self, now: Duration) {
        let Some((lanes, _)) = &mut self.lanes else {
            return;
        };
        for lane in Lane::ALL {
            let [missed, filtered] = lanes.take_dropped(lane);
            if missed > 0 {
                self.node.handle_missed(now, lane, missed);
            }
            if filtered > 0 {
                self.node.handle_filtered(lane, filtered);
            }
        }
    }

    /// Lets the kernel drop what the node would. If it refuses that, the node does it alone.
    fn set_filters(&mut self, sieve: &Sieve) {
        let Some((lanes, _)) = &self.lanes else {
            return;
        };
        let is_set = lanes.sift(sieve).is_ok();
        if !is_set {
            self.node.note_filter_refused();
        }
        self.node.set_filtered(is_set && !sieve.is_open());
    }

    /// How long the worker may sleep.
    pub(super) fn lanes_wait(&self) -> Duration {
        match self.lanes {
            Some(_) if self.has_more => Duration::ZERO,
            Some(_) => SLEEP_MAX,
            None => Duration::MAX,
        }
    }

    /// Waits until something comes at the listener's own socket, for a worker that does not poll otherwise.
    pub(super) fn wait_beside_lanes(&mut self) {
        let wait = self.lanes_wait();
        if self.node.has_waiting() || wait.is_zero() {
            return;
        }
        let began = self.clock.now();
        let seat = &self.team.seats[self.number];
        self.poll.wait(seat.descriptors(), Some(wait));
        self.hours.wait(began, self.clock.now(), wait);
    }

    /// Reads a batch from each lane that the node has room for, and all that is there of what may belong to calls.
    pub(super) fn read_lanes(&mut self) {
        self.has_more = false;
        let Some((lanes, mut batch)) = self.lanes.take() else {
            return;
        };
        for listener in 0..self.team.seats[self.number].sockets.len() {
            self.read_of_calls(listener, &lanes, &mut batch);
            for lane in Lane::ALL.into_iter().filter(|&lane| lane != Lane::OfCalls) {
                let socket = lanes.socket(listener, lane);
                for _ in 0..LATE_READS {
                    let is_full = self.read_lane(listener, lane, socket, &mut batch);
                    self.has_more |= is_full == Some(true);
                    if is_full.is_some() {
                        break;
                    }
                }
            }
        }
        self.lanes = Some((lanes, batch));
        // What other workers hand over comes from no lane.
        let now = self.clock.now();
        self.node.handle_delay(now, None, Duration::ZERO);
    }

    /// Reads what may belong to calls. However much of it strangers send, what known hosts send is read meanwhile.
    fn read_of_calls(&mut self, listener: usize, lanes: &OwnLanes, batch: &mut RecvBatch) {
        let socket = lanes.socket(listener, Lane::OfCalls);
        for _ in 0..READS {
            if self.read_lane(listener, Lane::OfCalls, socket, batch) == Some(false) {
                return;
            }
            let now = self.clock.now();
            self.flush(now);
            self.read(listener, Wait::Poll);
        }
        self.has_more = true;
    }

    /// Reads a batch; whether it was a full one. None: all of it had waited too long.
    fn read_lane(
        &mut self,
        listener: usize,
        lane: Lane,
        socket: &Socket,
        batch: &mut RecvBatch,
    ) -> Option<bool> {
        if !self.node.has_room(self.clock.now(), lane) {
            return Some(false);
        }
        // What an ICMP error is about, the listener's own socket has sent.
        let count = socket.recv(batch, Wait::Poll).unwrap_or(0);
        let now = self.clock.now();
        let seat = &self.team.seats[self.number];
        let number = seat.listeners[listener];
        seat.counters.count_received(count);
        self.taken += count;
        if count == 0 {
            self.node.handle_empty(now, lane);
        }
        let mut late = 0;
        for (datagram, waited) in batch.dated_datagrams() {
            self.node.handle_delay(now, Some(lane), waited);
            if self.node.is_too_late(now) {
                late += 1;
                self.node.handle_too_late(now, lane, datagram.bytes);
                continue;
            }
            give(&mut self.node, &mut self.out, now, number, datagram);
        }
        (late == 0 || late < count).then_some(count == BATCH)
    }
}
