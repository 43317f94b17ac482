mod wire;

use std::{net::SocketAddr, time::Duration};

use fastrand::Rng;
use sip::{Message, Method, StartLine};

use self::wire::{CallName, Dialog, Requests};
use crate::{
    HEADERS_MAX, Law, Outbox,
    server::put_reply,
    stats::{Failure, Stats, record},
    template::Template,
    timers::{Alarm, PATIENCE, T1, T2, Timers},
};

/// Which calls a [`Caller`] makes.
#[derive(Clone, Debug)]
pub struct CallerConfig {
    /// The addresses to call from, in turn; they stand in Via and Contact.
    pub sockets: Vec<SocketAddr>,
    /// The outbound proxy: where INVITEs go, and all that follows unless a route set says
    /// otherwise.
    pub proxy: SocketAddr,
    /// When calls begin.
    pub arrivals: Arrivals,
    /// The time from the 2xx to the BYE.
    pub holding: Law,
    /// How many calls to make before stopping.
    pub calls_max: u64,
}

/// When calls begin.
#[derive(Clone, Copy, Debug)]
pub enum Arrivals {
    /// Open loop: with this time between two calls, whatever becomes of them. Latencies count
    /// from the scheduled time, so that a late caller does not hide a slow server.
    Every(Law),
    /// Closed loop: this many calls are always in progress.
    Window(usize),
}

/// A user agent client that makes many calls: INVITE, ACK, a holding time, BYE.
#[derive(Debug)]
pub struct Caller {
    config: CallerConfig,
    rng: Rng,
    requests: Vec<Requests>,
    calls: Vec<Call>,
    free: Vec<u32>,
    timers: Timers,
    next_arrival: Duration,
    calls_left: u64,
    stats: Stats,
}

#[derive(Debug)]
struct Call {
    nonce: u64,
    state: State,
    socket: usize,
    /// When the INVITE was scheduled or the BYE sent: what latencies count from.
    began: Duration,
    /// The retransmission interval.
    interval: Duration,
    give_up: Duration,
    alarm: Alarm,
    dialog: Dialog,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No call uses the slot.
    Vacant,
    /// INVITE sent, nothing heard (RFC 3261 §17.1.1).
    Calling,
    /// A provisional response has come.
    Proceeding,
    /// Answered; the ACK is sent again for each 2xx that comes again.
    Holding,
    /// BYE sent.
    Closing,
}

impl Caller {
    /// A caller that begins at `now`; `rng` draws the arrivals, holding times and identifiers.
    #[must_use]
    pub fn new(config: CallerConfig, rng: Rng, now: Duration) -> Self {
        let requests = config
            .sockets
            .iter()
            .map(|&socket| Requests::new(socket))
            .collect();
        let (arrivals, calls_left) = (config.arrivals, config.calls_max);
        let mut caller = Self {
            config,
            rng,
            requests,
            calls: Vec::new(),
            free: Vec::new(),
            timers: Timers::default(),
            next_arrival: now,
            calls_left,
            stats: Stats::default(),
        };
        caller.set_arrivals(now, arrivals);
        caller
    }

    /// Lets calls begin in another way from `now` on.
    pub fn set_arrivals(&mut self, now: Duration, arrivals: Arrivals) {
        self.config.arrivals = arrivals;
        self.next_arrival = match arrivals {
            Arrivals::Every(law) => now.saturating_add(law.sample(&mut self.rng)),
            Arrivals::Window(_) => now,
        };
    }

    /// Takes a datagram that came to a socket.
    pub fn handle_input(
        &mut self,
        now: Duration,
        socket: usize,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let Ok(message) = Message::parse(bytes, HEADERS_MAX) else {
            self.stats.strays += 1;
            return;
        };
        match message.start_line() {
            StartLine::Response { status, .. } => {
                self.on_response(now, socket, status, &message, out)
            }
            StartLine::Request { method, .. } => {
                self.on_request(socket, method, from, &message, out)
            }
        }
        self.fill_window(now, out);
    }

    /// Begins, repeats and ends what is due.
    pub fn handle_timeout(&mut self, now: Duration, out: &mut Outbox) {
        while let Some(slot) = self
            .timers
            .pop(now, &mut self.calls, |call| &mut call.alarm)
        {
            self.on_alarm(now, slot, out);
        }
        match self.config.arrivals {
            Arrivals::Every(law) => self.begin_scheduled(law, now, out),
            Arrivals::Window(_) => self.fill_window(now, out),
        }
    }

    /// When [`Self::handle_timeout`] wants to be called next.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let arrival =
            (self.calls_left > 0 && self.next_arrival < Duration::MAX).then_some(self.next_arrival);
        [arrival, self.timers.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Begins no more calls; those in progress go on to their end.
    pub fn stop(&mut self) {
        self.calls_left = 0;
    }

    /// Calls in progress.
    #[must_use]
    pub fn open_calls(&self) -> usize {
        self.calls.len() - self.free.len()
    }

    /// No call is in progress and none will begin.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.calls_left == 0 && self.open_calls() == 0
    }

    /// What became of the calls.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// To take the counts of an interval.
    pub fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
    }

    fn begin_scheduled(&mut self, law: Law, now: Duration, out: &mut Outbox) {
        while self.calls_left > 0 && self.next_arrival <= now {
            let scheduled = self.next_arrival;
            self.begin(scheduled, now, out);
            self.next_arrival = scheduled.saturating_add(law.sample(&mut self.rng));
        }
    }

    fn fill_window(&mut self, now: Duration, out: &mut Outbox) {
        let Arrivals::Window(window) = self.config.arrivals else {
            return;
        };
        while self.calls_left > 0 && self.open_calls() < window {
            self.begin(now, now, out);
        }
        // From here on calls begin when others end.
        self.next_arrival = Duration::MAX;
    }

    fn begin(&mut self, scheduled: Duration, now: Duration, out: &mut Outbox) {
        let slot = self.free.pop().unwrap_or_else(|| self.add_slot());
        let call = &mut self.calls[slot as usize];
        call.nonce = self.rng.u64(..);
        call.state = State::Calling;
        call.socket = (self.stats.offered % self.requests.len() as u64) as usize;
        call.began = scheduled;
        call.interval = T1;
        call.give_up = now + PATIENCE;
        self.timers.set(slot, &mut call.alarm, now + T1);
        self.calls_left -= 1;
        self.stats.offered += 1;
        self.send_invite(slot, out);
    }

    fn add_slot(&mut self) -> u32 {
        let slot = u32::try_from(self.calls.len()).expect("fewer than 2^32 calls are in progress");
        self.calls.push(Call {
            nonce: 0,
            state: State::Vacant,
            socket: 0,
            began: Duration::ZERO,
            interval: T1,
            give_up: Duration::ZERO,
            alarm: Alarm::OFF,
            dialog: Dialog::new(self.config.proxy),
        });
        slot
    }

    fn on_response(
        &mut self,
        now: Duration,
        socket: usize,
        status: u16,
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        let (Some(name), Ok(cseq)) = (CallName::of(message), message.cseq()) else {
            self.stats.strays += 1;
            return;
        };
        let invite = cseq.method == Method::Invite;
        if invite && status >= 300 {
            self.acknowledge_refusal(socket, name, message, out);
        }
        match self.state_of(name) {
            State::Calling | State::Proceeding if invite => {
                self.on_invite_response(now, name.slot, status, message, out);
            }
            State::Holding | State::Closing if invite && (200..300).contains(&status) => {
                self.stats.strays += 1;
                self.send_in_dialog(name.slot, |requests| &requests.ack, out);
            }
            State::Closing if cseq.method == Method::Bye => {
                self.on_bye_response(now, name.slot, status)
            }
            _ if status < 200 => {}
            _ => self.stats.strays += 1,
        }
    }

    fn on_invite_response(
        &mut self,
        now: Duration,
        slot: u32,
        status: u16,
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        let call = &mut self.calls[slot as usize];
        let elapsed = now.saturating_sub(call.began);
        if call.state == State::Calling {
            record(&mut self.stats.first_response_ns, elapsed);
        }
        match status {
            ..200 => {
                call.state = State::Proceeding;
                self.timers.set(slot, &mut call.alarm, now + PATIENCE);
            }
            200..300 => {
                record(&mut self.stats.answer_ns, elapsed);
                call.state = State::Holding;
                call.dialog.confirm(message, self.config.proxy);
                self.send_in_dialog(slot, |requests| &requests.ack, out);
                self.hold(now, slot, out);
            }
            300.. => self.fail(slot, Failure::Rejected(status)),
        }
    }

    fn hold(&mut self, now: Duration, slot: u32, out: &mut Outbox) {
        let holding = self.config.holding.sample(&mut self.rng);
        if holding.is_zero() {
            return self.hang_up(now, slot, out);
        }
        let alarm = &mut self.calls[slot as usize].alarm;
        self.timers.set(slot, alarm, now.saturating_add(holding));
    }

    fn hang_up(&mut self, now: Duration, slot: u32, out: &mut Outbox) {
        let call = &mut self.calls[slot as usize];
        call.state = State::Closing;
        call.began = now;
        call.interval = T1;
        call.give_up = now + PATIENCE;
        self.timers.set(slot, &mut call.alarm, now + T1);
        self.send_in_dialog(slot, |requests| &requests.bye, out);
    }

    fn on_bye_response(&mut self, now: Duration, slot: u32, status: u16) {
        match status {
            ..200 => {}
            200..300 => {
                let began = self.calls[slot as usize].began;
                record(&mut self.stats.bye_ns, now.saturating_sub(began));
                self.stats.carried += 1;
                self.vacate(slot);
            }
            300.. => self.fail(slot, Failure::ByeRejected(status)),
        }
    }

    fn on_request(
        &mut self,
        socket: usize,
        method: Method<'_>,
        from: SocketAddr,
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        if method == Method::Ack {
            return;
        }
        let name = CallName::of(message).filter(|name| self.state_of(*name) != State::Vacant);
        out.send(socket, from, |out| {
            put_reply(
                message,
                from,
                if name.is_some() { 200 } else { 481 },
                "none",
                out,
            );
        });
        if let Some(name) = name
            && method == Method::Bye
        {
            self.fail(name.slot, Failure::HungUp);
        }
    }

    fn on_alarm(&mut self, now: Duration, slot: u32, out: &mut Outbox) {
        let call = &mut self.calls[slot as usize];
        let over = now >= call.give_up;
        match call.state {
            State::Vacant => {}
            State::Calling if over => self.fail(slot, Failure::Silence),
            State::Calling => {
                self.repeat(now, slot, Duration::MAX);
                self.send_invite(slot, out);
            }
            State::Proceeding => self.fail(slot, Failure::NoAnswer),
            State::Holding => self.hang_up(now, slot, out),
            State::Closing if over => self.fail(slot, Failure::ByeSilence),
            State::Closing => {
                self.repeat(now, slot, T2);
                self.send_in_dialog(slot, |requests| &requests.bye, out);
            }
        }
    }

    /// Doubles the interval (RFC 3261 §17.1.1.2 and §17.1.2.2).
    fn repeat(&mut self, now: Duration, slot: u32, interval_max: Duration) {
        let call = &mut self.calls[slot as usize];
        call.interval = (call.interval * 2).min(interval_max);
        self.timers
            .set(slot, &mut call.alarm, call.give_up.min(now + call.interval));
        self.stats.retransmissions += 1;
    }

    fn send_invite(&self, slot: u32, out: &mut Outbox) {
        let call = &self.calls[slot as usize];
        let name = CallName {
            slot,
            nonce: call.nonce,
        };
        out.send(call.socket, self.config.proxy, |out| {
            self.requests[call.socket]
                .invite
                .write(&name.fill(b"", b""), out);
        });
    }

    fn send_in_dialog(&self, slot: u32, kind: impl Fn(&Requests) -> &Template, out: &mut Outbox) {
        let call = &self.calls[slot as usize];
        let name = CallName {
            slot,
            nonce: call.nonce,
        };
        out.send(call.socket, call.dialog.next_hop, |out| {
            kind(&self.requests[call.socket]).write(&call.dialog.fill(name), out);
        });
    }

    /// Needs no call: a refusal that comes again after its call is gone gets its ACK as well.
    fn acknowledge_refusal(
        &self,
        socket: usize,
        name: CallName,
        refusal: &Message<'_>,
        out: &mut Outbox,
    ) {
        let mut to = Vec::new();
        wire::put_to(&mut to, refusal);
        out.send(socket, self.config.proxy, |out| {
            self.requests[socket]
                .ack_of_refusal
                .write(&name.fill(b"", &to), out);
        });
    }

    fn state_of(&self, name: CallName) -> State {
        match self.calls.get(name.slot as usize) {
            Some(call) if call.nonce == name.nonce => call.state,
            _ => State::Vacant,
        }
    }

    fn fail(&mut self, slot: u32, failure: Failure) {
        self.stats.fail(failure);
        self.vacate(slot);
    }

    fn vacate(&mut self, slot: u32) {
        let call = &mut self.calls[slot as usize];
        call.state = State::Vacant;
        call.alarm.stop();
        self.free.push(slot);
    }
}
