//! A worker's loop: receive a batch, feed the node, send a batch, wait.

mod hours;
mod lanes;
mod mail;
mod pace;

use std::{
    io, mem,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use node::{Answer, Datagram, Flow, Input, Node, Outbox, Question, Quotation, Shared};
use socket::{
    Clock, Poll, own_processor_time,
    udp::{self, BATCH, RecvBatch, SendBatch, Wait},
    wall,
};

use self::{hours::Hours, pace::Pace};
use crate::{
    answerer::Reply,
    lanes::OwnLanes,
    seat::{Seat, Team},
    streams::{Ground, Streams, tell_unsent},
};

/// The interval of a node's timers while there is traffic.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// The longest sleep, so that a node learns soon what other threads changed.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// How long peers may take to read what waits for them when the worker stops.
const FAREWELL: Duration = Duration::from_millis(500);

/// How often a worker that stops looks for what others have left to it.
const LAST_ROUNDS: usize = 256;
const LAST_PAUSE: Duration = Duration::from_micros(200);

/// The most batches that are read in a row from one socket while the node is behind.
const READS: usize = 8;

/// How long requests that had to wait are served before it looks again what has come.
const SERVED_FOR: Duration = Duration::from_millis(1);

/// The most rounds in a row of sending and reading ICMP errors.
const FLUSHES: usize = 4;

/// The node, sockets and memory of one thread.
pub(crate) struct Worker {
    number: usize,
    team: Arc<Team>,
    shared: Arc<Shared>,
    clock: Clock,
    node: Node,
    received: RecvBatch,
    to_send: SendBatch,
    out: Outbox,
    /// Without it, the only worker blocks in the receive call of its only socket, which saves a
    /// system call per wake-up.
    polls: bool,
    /// What it waits with when it has no connections.
    poll: Poll,
    /// The next time of the node's timers.
    tick: Duration,
    hours: Hours,
    /// The kernel's count of drops at the last tick.
    dropped: u64,
    /// New requests come there while there are too many.
    lanes: Option<(OwnLanes, RecvBatch)>,
    /// Whether a batch from a lane was full, so that more may be there.
    has_more: bool,
    /// Datagrams received since it woke up, and when the first of them came.
    taken: usize,
    came: Duration,
    pace: Pace,
    /// None: no listener carries streams.
    streams: Option<Streams>,
}

impl Worker {
    pub(crate) fn new(
        number: usize,
        team: Arc<Team>,
        shared: Arc<Shared>,
        clock: Clock,
        seed: u64,
        streams: Option<Streams>,
    ) -> Self {
        let now = clock.now();
        let tap = team.witness.as_ref().map(|witness| witness.tap());
        let message_bytes = shared.snapshot().config().limits.message_bytes;
        Self {
            number,
            node: Node::new(Arc::clone(&shared), number, seed, now),
            received: RecvBatch::new(BATCH, message_bytes),
            to_send: SendBatch::new(),
            out: Outbox {
                tap,
                ..Outbox::default()
            },
            polls: team.seats[number].mailbox.waker().is_some(),
            poll: Poll::default(),
            tick: now,
            hours: Hours::new(now),
            dropped: 0,
            lanes: None,
            has_more: false,
            taken: 0,
            came: Duration::MAX,
            pace: Pace::new(now),
            team,
            shared,
            clock,
            streams,
        }
    }

    /// Runs until the team stops.
    pub(crate) fn run(mut self) {
        while !self.team.stopping.load(Ordering::Relaxed) {
            self.rest();
            (self.taken, self.came) = (0, Duration::MAX);
            let now = if self.polls {
                self.wait()
            } else {
                self.block()
            };
            self.end_wait(now);
            self.pace.wake(now);
            self.read_mail(now);
            self.read_lanes();
            if self.tick <= now {
                if self.number == 0 {
                    self.shared.set_wall(now, wall());
                }
                self.notice_losses(now);
                self.look_at_pace(now);
                self.tell_work(now);
                self.notice_stopped(now);
                self.node.handle_timeout(now, &mut self.out);
                self.keep_streams(now);
                self.keep_lanes(now);
                self.tick = now + TICK;
            }
            self.serve_waiting(now);
            self.flush(now);
        }
        self.leave();
    }

    fn look_at_pace(&mut self, now: Duration) {
        let by_streams = self.streams.as_ref().map_or(0, Streams::received);
        let received = self.team.seats[self.number].counters.received() + by_streams;
        self.pace.look(now, received, self.node.utilisation());
    }

    /// Lets some messages gather, if nothing is left to do. In an overload there always is, and rest would look like room for
    /// more.
    fn rest(&mut self) {
        let now = self.clock.now();
        let streams = self.streams.as_ref();
        let has_work = self.taken >= BATCH
            || self.lanes.is_some() && self.node.is_behind(now)
            || self.node.has_waiting()
            || !self.team.seats[self.number].mailbox.is_empty()
            || streams.is_some_and(Streams::has_more);
        let time = self.pace.rest(now);
        if !has_work && !time.is_zero() {
            nap(time);
            self.hours.rest(time);
        }
    }

    /// Serves requests that had to wait, for a moment: what has come meanwhile goes first.
    fn serve_waiting(&mut self, now: Duration) {
        let until = self.clock.now() + SERVED_FOR;
        while self.node.has_waiting() {
            self.node.handle_waiting(now, &mut self.out);
            if self.clock.now() >= until {
                break;
            }
        }
    }

    /// Deals with what the workers have read and left to each other. What nobody has read waits in the
    /// sockets, for the next process if there is one.
    fn leave(&mut self) {
        let team = Arc::clone(&self.team);
        team.left.fetch_add(1, Ordering::SeqCst);
        let mut idle = 0;
        for _ in 0..LAST_ROUNDS {
            let now = self.clock.now();
            self.read_mail(now);
            if self.node.has_waiting() {
                self.node.handle_waiting(now, &mut self.out);
            }
            self.flush(now);
            let all_left = team.left.load(Ordering::SeqCst) == team.seats.len();
            let is_idle = all_left && team.seats.iter().all(|seat| seat.mailbox.is_empty());
            idle = if is_idle && !self.node.has_waiting() {
                idle + 1
            } else {
                0
            };
            if idle == 2 {
                break;
            }
            nap(LAST_PAUSE);
        }
        self.close_streams();
    }

    /// Closes all connections in peace, as far as their peers read on.
    fn close_streams(&mut self) {
        let now = self.clock.now();
        let until = now + FAREWELL;
        let mut is_closed = self.on_streams(now, Streams::close);
        while is_closed == Some(false) && self.clock.now() < until {
            let now = self.clock.now();
            is_closed = self.on_streams(now, |streams, ground| {
                streams.wait(TICK);
                streams.turn(ground, false);
                streams.close(ground)
            });
        }
    }

    /// Tells the node how long it has worked.
    fn tell_work(&mut self, now: Duration) {
        let mut work = self.hours.take(now, own_processor_time());
        if let Some(streams) = &mut self.streams {
            work.for_strangers = streams.take_strangers_took();
            work.while_idle = streams.take_idle_took();
        }
        self.node.handle_work(now, work);
    }

    /// Tells the node how many datagrams the kernel dropped.
    fn notice_losses(&mut self, now: Duration) {
        let dropped = self.team.seats[self.number].receive_dropped();
        // The kernel's numbers wrap.
        let lost = dropped.saturating_sub(mem::replace(&mut self.dropped, dropped));
        if lost > 0 {
            self.shared.lose(now);
            self.node.handle_unread(now, lost as u32);
        }
    }

    /// Waits in the receive call, for at most a tick.
    fn block(&mut self) -> Duration {
        let wait = if self.lanes.is_some() {
            self.wait_beside_lanes();
            Wait::Poll
        } else if self.node.has_waiting() {
            Wait::Poll
        } else {
            Wait::Block
        };
        self.read(0, wait)
    }

    /// Waits for a socket, another worker or a timer, then takes one batch from each socket that
    /// has one.
    fn wait(&mut self) -> Duration {
        self.sleep();
        let mut now = self.clock.now();
        let sockets = self.team.seats[self.number].sockets.len();
        for socket in 0..sockets {
            let (is_ready, has_error) = self.found(1 + socket);
            if is_ready {
                now = self.read(socket, Wait::Poll);
            }
            if has_error {
                self.report_unreachable(socket, now);
            }
        }
        if self.streams.as_ref().is_some_and(Streams::has_ready) {
            now = self.clock.now();
            self.end_wait(now);
            let has_other_work = self.taken > 0 || self.has_more || self.node.has_waiting();
            self.on_streams(now, |streams, ground| streams.turn(ground, has_other_work));
        }
        now
    }

    /// Whether a descriptor is ready, and has an error: the waker, then the UDP sockets.
    fn found(&self, place: usize) -> (bool, bool) {
        match &self.streams {
            Some(streams) => streams.own(place),
            None => (self.poll.is_ready(place), self.poll.has_error(place)),
        }
    }

    /// Has the connections do something.
    fn on_streams<T>(
        &mut self,
        now: Duration,
        work: impl FnOnce(&mut Streams, &mut Ground<'_>) -> T,
    ) -> Option<T> {
        let (node, out) = (&mut self.node, &mut self.out);
        let streams = self.streams.as_mut()?;
        Some(work(streams, &mut Ground { now, node, out }))
    }

    fn keep_streams(&mut self, now: Duration) {
        if let Some(streams) = &mut self.streams {
            streams.set_security(self.team.security());
        }
        self.on_streams(now, Streams::handle_timeout);
        if let Some(streams) = &self.streams {
            self.team.seats[self.number].show_connections(streams.stats());
        }
    }

    /// Reads a batch from a socket, and all that is there while the node is behind; returns the moment.
    fn read(&mut self, listener: usize, wait: Wait) -> Duration {
        let began = self.clock.now();
        let (mut now, mut wait) = (began, wait);
        for _ in 0..READS {
            let socket = &self.team.seats[self.number].sockets[listener];
            let result = socket.recv(&mut self.received, wait);
            now = self.clock.now();
            if wait == Wait::Block {
                // The kernel rounds up to its own tick.
                self.hours.wait(began, now, 2 * TICK);
            }
            let is_empty = result.as_ref().is_ok_and(|&count| count < BATCH);
            let delay = self.received.waited().unwrap_or_default();
            self.came = self.came.min(now.saturating_sub(delay));
            self.end_wait(now);
            self.node.handle_delay(now, None, delay);
            self.feed(listener, now, result);
            if is_empty || !self.node.is_behind(now) {
                break;
            }
            // A quota may have the thread stand still between any two batches.
            self.flush(now);
            wait = Wait::Poll;
        }
        now
    }

    fn sleep(&mut self) {
        let seat = &self.team.seats[self.number];
        let mailbox = &seat.mailbox;
        let waker = mailbox.waker().expect("a worker that polls has a waker");
        let now = self.clock.now();
        let due = self
            .node
            .deadline(now)
            .map_or(SLEEP_MAX, |due| due.saturating_sub(now));
        let timeout = due.max(self.tick.saturating_sub(now)).min(SLEEP_MAX);
        // Whole milliseconds: what falls due within one of them shares a wake-up.
        let mut timeout = Duration::from_millis(timeout.as_micros().div_ceil(1000) as u64);
        timeout = timeout.min(self.lanes_wait());
        waker.arm();
        if self.node.has_waiting()
            || !mailbox.is_empty()
            || self.team.stopping.load(Ordering::Relaxed)
        {
            timeout = Duration::ZERO;
        }
        match &mut self.streams {
            Some(streams) => streams.wait(timeout),
            None => self.poll.wait(seat.descriptors(), Some(timeout)),
        }
        waker.disarm(self.found(0).0);
        self.hours.wait(now, self.clock.now(), timeout);
    }

    /// Tells the node what was done, if it is time: before it learns for how long messages have waited, as the worker may have stood
    /// still.
    fn end_wait(&mut self, now: Duration) {
        self.hours.end_wait(self.came);
        if now >= self.hours.told_at() + TICK {
            self.tell_work(now);
        }
    }

    /// Gives the received datagrams to the node.
    fn feed(&mut self, listener: usize, now: Duration, result: io::Result<usize>) {
        let Seat {
            counters,
            listeners,
            ..
        } = &self.team.seats[self.number];
        let number = listeners[listener];
        match result {
            Ok(count) => {
                counters.count_received(count);
                self.taken += count;
            }
            Err(_) => {
                counters.count_receive_error();
                return self.report_unreachable(listener, now);
            }
        }
        for datagram in self.received.datagrams() {
            give(&mut self.node, &mut self.out, now, number, datagram);
        }
    }

    fn report_unreachable(&mut self, listener: usize, now: Duration) {
        let seat = &self.team.seats[self.number];
        let number = seat.listeners[listener];
        seat.sockets[listener].unreachable(|peer, bytes| {
            let flow = Flow::udp(number, peer);
            let input = Input::Unreachable(Quotation { flow, bytes });
            self.node.handle_input(now, input, &mut self.out);
        });
    }

    /// Tells the witness what has passed.
    fn show_news(&mut self) {
        if let (Some(witness), Some(tap)) = (&self.team.witness, &mut self.out.tap) {
            witness.see(self.number, tap);
        }
    }

    /// Asks the node's questions. An immediate answer may cause the next question.
    fn ask(&mut self, now: Duration) {
        while let Some(Question { id, ask }) = self.out.questions.pop() {
            let reply = Reply {
                team: Arc::clone(&self.team),
                worker: self.number,
                question: id,
            };
            let answer = match &self.team.answerer {
                Some(answerer) => answerer.answer(ask, reply),
                None => Some(Answer::Failed),
            };
            if let Some(answer) = answer {
                let input = Input::Answer {
                    question: id,
                    answer,
                };
                self.node.handle_input(now, input, &mut self.out);
            }
        }
    }

    /// Asks the node's questions, sends its datagrams, and tells the node at once which of them failed. What it wants done
    /// then goes out in the next round, or with the next batch.
    fn flush(&mut self, now: Duration) {
        for _ in 0..FLUSHES {
            self.ask(now);
            if self.out.transmits.is_empty() && self.out.handovers.is_empty() {
                break;
            }
            self.show_news();
            let failed = self.send();
            let unsent = self.send_streams(now);
            self.hand_over(now);
            self.out.clear();
            for socket in failed {
                self.report_unreachable(socket, now);
            }
            self.on_streams(now, |streams, ground| {
                for (flow, message) in &unsent {
                    tell_unsent(ground, *flow, message);
                }
                streams.settle(ground);
            });
        }
    }

    /// Queues all messages for connections, those of other workers there. Returns what can't be sent.
    fn send_streams(&mut self, now: Duration) -> Vec<(Flow, Vec<u8>)> {
        let mut unsent = Vec::new();
        let Some(streams) = &mut self.streams else {
            return unsent;
        };
        let out = &self.out;
        for transmit in out
            .transmits
            .iter()
            .filter(|t| t.flow.transport.is_stream())
        {
            let (flow, message) = (streams.through(transmit.flow), out.payload(transmit));
            let owner = flow
                .connection
                .map(|connection| usize::from(connection.worker()));
            let is_sent = match owner.filter(|&owner| owner != self.number) {
                None => streams.send(now, flow, message),
                Some(owner) => {
                    let seat = self.team.seats.get(owner);
                    seat.is_some_and(|seat| seat.mailbox.send(flow, message))
                }
            };
            if !is_sent {
                unsent.push((flow, message.to_vec()));
            }
        }
        unsent
    }

    /// Sends all datagrams, and returns the sockets that met an error.
    fn send(&mut self) -> Vec<usize> {
        let Seat {
            sockets,
            listeners,
            counters,
            ..
        } = &self.team.seats[self.number];
        let out = &self.out;
        let mut failed = Vec::new();
        for (place, socket) in sockets.iter().enumerate() {
            let listener = listeners[place];
            let mine = out.transmits.iter().filter(|t| t.flow.listener == listener);
            let sent = socket.send(
                &mut self.to_send,
                mine.map(|t| (t.flow.remote, out.payload(t))),
            );
            counters.count_sent(&sent);
            if sent.error {
                failed.push(place);
            }
        }
        failed
    }
}

/// Gives a datagram that a listener has received to the node.
fn give(
    node: &mut Node,
    out: &mut Outbox,
    now: Duration,
    listener: u8,
    datagram: udp::Datagram<'_>,
) {
    let datagram = Datagram {
        flow: Flow::udp(listener, datagram.from),
        bytes: datagram.bytes,
        truncated: datagram.truncated,
    };
    node.handle_input(now, Input::Datagram(datagram), out);
}

#[expect(
    clippy::disallowed_methods,
    reason = "there is nothing to wait for, and poll counts in milliseconds"
)]
fn nap(time: Duration) {
    thread::sleep(time);
}
