mod config;
mod responses;
mod wire;

use std::{net::SocketAddr, time::Duration};

use fastrand::Rng;
use sip::{Message, Method, StartLine};

pub use self::config::{CallerConfig, Habits};
pub(crate) use self::wire::CallName;
use self::{
    config::Plan,
    wire::{Dialog, INVITE_CSEQ, Opening, PROVEN_CSEQ, Requests},
};
use crate::{
    Arrivals, HEADERS_MAX, Outbox,
    arrivals::Schedule,
    cohorts::{Cohort, Cohorts, Member},
    login::{Challenge, Login},
    server::put_reply,
    stats::{Failure, Stats, record},
    template::Template,
    timers::{Alarm, T1, T2, Timers},
};

/// A user agent client that makes many calls: INVITE, ACK, a holding time, BYE.
#[derive(Debug)]
pub struct Caller {
    config: CallerConfig,
    rng: Rng,
    requests: Vec<Requests>,
    calls: Vec<Call>,
    free: Vec<u32>,
    timers: Timers,
    source: Source,
    calls_left: u64,
    /// When the next keep-alives are due.
    keep_alive: Option<Duration>,
    stats: Stats,
    cohorts: Cohorts,
}

/// Where calls come from.
#[derive(Debug)]
enum Source {
    Open { schedule: Schedule, next: Duration },
    Window { calls: usize, is_filled: bool },
}

#[derive(Debug)]
struct Call {
    nonce: u64,
    member: Member,
    state: Phase,
    plan: Plan,
    socket: usize,
    /// When the request in progress was scheduled: what latencies count from.
    began: Duration,
    /// The rest of the holding time after the re-INVITE.
    rest: Duration,
    /// The CSeq of the last request but ACK and CANCEL.
    cseq: u32,
    /// A response but 100 came.
    is_heard: bool,
    /// Why the call counts as failed although it continues.
    failure: Option<Failure>,
    /// The retransmission interval.
    interval: Duration,
    give_up: Duration,
    alarm: Alarm,
    dialog: Dialog,
    /// It was challenged, and its INVITE is the second one.
    login: Option<Box<Login>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No call uses the slot.
    Vacant,
    /// INVITE sent, nothing heard (RFC 3261 §17.1.1).
    Calling,
    /// A provisional response has come.
    Proceeding,
    /// CANCEL sent.
    Cancelling,
    /// Answered; the ACK is sent again for each 2xx that comes again.
    Holding,
    /// Re-INVITE sent.
    Renewing,
    /// BYE sent.
    Closing,
}

impl Call {
    /// The CSeq of its INVITE.
    fn opening(&self) -> u32 {
        match self.login {
            None => INVITE_CSEQ,
            Some(_) => PROVEN_CSEQ,
        }
    }
}

impl Caller {
    /// A caller that starts at `now`; `rng` draws the arrivals, holding times and identifiers.
    #[must_use]
    pub fn new(config: CallerConfig, mut rng: Rng, now: Duration) -> Self {
        let requests =
            |&socket: &SocketAddr| Requests::new(socket, config.transport, &config.domain);
        Self {
            requests: config.sockets.iter().map(requests).collect(),
            source: Source::new(config.arrivals, now, &mut rng),
            calls_left: config.calls_max,
            keep_alive: config.keep_alive.map(|every| now + every),
            config,
            rng,
            calls: Vec::new(),
            free: Vec::new(),
            timers: Timers::default(),
            stats: Stats::default(),
            cohorts: Cohorts::default(),
        }
    }

    /// Changes the arrivals from `now` on.
    pub fn set_arrivals(&mut self, now: Duration, arrivals: Arrivals) {
        self.source = Source::new(arrivals, now, &mut self.rng);
    }

    /// Takes a datagram that arrived at a socket.
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
        if let Source::Window { calls, .. } = self.source {
            self.fill_window(calls, now, out);
        }
    }

    /// Starts, retransmits and ends what is due.
    pub fn handle_timeout(&mut self, now: Duration, out: &mut Outbox) {
        while let Some((due, slot)) = self
            .timers
            .pop(now, &mut self.calls, |call| &mut call.alarm)
        {
            self.on_alarm(due, now, slot, out);
        }
        self.keep_alive(now, out);
        match self.source {
            Source::Open { .. } => self.begin_scheduled(now, out),
            Source::Window { calls, .. } => self.fill_window(calls, now, out),
        }
    }

    /// The next time to call [`Self::handle_timeout`].
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let arrival = match self.source {
            _ if self.calls_left == 0 => None,
            Source::Open { next, .. } => (next < Duration::MAX).then_some(next),
            // Calls begin when others end.
            Source::Window { is_filled, .. } => (!is_filled).then_some(Duration::ZERO),
        };
        [arrival, self.timers.deadline(), self.keep_alive]
            .into_iter()
            .flatten()
            .min()
    }

    /// Starts no more calls; those in progress continue to their end.
    pub fn stop(&mut self) {
        self.calls_left = 0;
    }

    /// Calls that are still to start.
    #[must_use]
    pub fn calls_left(&self) -> u64 {
        self.calls_left
    }

    /// Calls in progress.
    #[must_use]
    pub fn open_calls(&self) -> usize {
        self.calls.len() - self.free.len()
    }

    /// Calls of which a request is in progress.
    #[must_use]
    pub fn pending_calls(&self) -> usize {
        let is_pending = |call: &&Call| !matches!(call.state, Phase::Vacant | Phase::Holding);
        self.calls.iter().filter(is_pending).count()
    }

    /// Whether no call is in progress and none will start.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.calls_left == 0 && self.open_calls() == 0
    }

    /// The counters and latencies of the calls.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The counters, so that the owner can take those of an interval.
    pub fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
    }

    /// Counts the calls that begin from here on in a cohort of their own.
    pub fn begin_cohort(&mut self) {
        self.cohorts.begin();
    }

    /// The cohorts so far, in the order in which they began.
    #[must_use]
    pub fn cohorts(&self) -> &[Cohort] {
        self.cohorts.all()
    }

    /// Keeps NATs' mappings alive: a double CRLF from each socket.
    fn keep_alive(&mut self, now: Duration, out: &mut Outbox) {
        let due = self.keep_alive.filter(|due| *due <= now);
        if due.is_none() {
            return;
        }
        for socket in 0..self.config.sockets.len() {
            out.send(socket, self.config.proxy, |out| {
                out.extend_from_slice(b"\r\n\r\n");
            });
        }
        self.keep_alive = self.config.keep_alive.map(|every| now + every);
    }

    fn begin_scheduled(&mut self, now: Duration, out: &mut Outbox) {
        while self.calls_left > 0
            && let Source::Open { schedule, next } = &mut self.source
            && *next <= now
        {
            let scheduled = *next;
            *next = schedule.next(&mut self.rng);
            self.begin(scheduled, now, out);
        }
    }

    fn fill_window(&mut self, window: usize, now: Duration, out: &mut Outbox) {
        while self.calls_left > 0 && self.open_calls() < window {
            self.begin(now, now, out);
        }
        self.source = Source::Window {
            calls: window,
            is_filled: true,
        };
    }

    fn begin(&mut self, scheduled: Duration, now: Duration, out: &mut Outbox) {
        let slot = self.free.pop().unwrap_or_else(|| self.add_slot());
        let call = &mut self.calls[slot as usize];
        call.nonce = self.rng.u64(..);
        call.member = self.cohorts.join();
        call.plan = self.config.habits.draw(&mut self.rng);
        call.socket = (self.stats.offered % self.requests.len() as u64) as usize;
        call.cseq = self.config.last_opening();
        call.login = None;
        call.is_heard = false;
        call.failure = None;
        self.calls_left -= 1;
        self.stats.offered += 1;
        record(&mut self.stats.late_ns, now.saturating_sub(scheduled));
        self.request(slot, Phase::Calling, scheduled, now, out);
    }

    fn add_slot(&mut self) -> u32 {
        let slot = u32::try_from(self.calls.len()).expect("fewer than 2^32 calls are in progress");
        self.calls.push(Call {
            nonce: 0,
            member: Member::default(),
            state: Phase::Vacant,
            plan: Plan::Talk,
            socket: 0,
            began: Duration::ZERO,
            rest: Duration::ZERO,
            cseq: 0,
            is_heard: false,
            failure: None,
            interval: T1,
            give_up: Duration::ZERO,
            alarm: Alarm::OFF,
            dialog: Dialog::new(self.config.proxy),
            login: None,
        });
        slot
    }

    /// Begins the transaction that `state` stands for.
    fn request(
        &mut self,
        slot: u32,
        state: Phase,
        scheduled: Duration,
        now: Duration,
        out: &mut Outbox,
    ) {
        let call = &mut self.calls[slot as usize];
        call.state = state;
        call.began = scheduled;
        call.interval = T1;
        call.give_up = now + self.config.retransmission.patience();
        let due = self.config.retransmission.first_alarm(now);
        self.timers.set(slot, &mut call.alarm, due);
        self.send_request(slot, out);
    }

    fn send_request(&self, slot: u32, out: &mut Outbox) {
        let cseq = self.calls[slot as usize].cseq;
        match self.calls[slot as usize].state {
            Phase::Calling => self.send_invite(slot, |opening| &opening.invite, out),
            Phase::Cancelling => self.send_invite(slot, |opening| &opening.cancel, out),
            Phase::Renewing => self.send_in_dialog(slot, cseq, |requests| &requests.reinvite, out),
            Phase::Closing => self.send_in_dialog(slot, cseq, |requests| &requests.bye, out),
            Phase::Vacant | Phase::Proceeding | Phase::Holding => {}
        }
    }

    fn hold(&mut self, now: Duration, slot: u32, holding: Duration, out: &mut Outbox) {
        let call = &mut self.calls[slot as usize];
        call.state = Phase::Holding;
        if holding.is_zero() {
            return self.end_holding(now, now, slot, out);
        }
        self.timers
            .set(slot, &mut call.alarm, now.saturating_add(holding));
    }

    fn end_holding(&mut self, scheduled: Duration, now: Duration, slot: u32, out: &mut Outbox) {
        match self.calls[slot as usize].plan {
            Plan::Renew => {
                self.calls[slot as usize].cseq += 1;
                self.request(slot, Phase::Renewing, scheduled, now, out);
            }
            Plan::Vanish => {
                self.stats.abandoned += 1;
                self.vacate(slot);
            }
            Plan::Talk | Plan::Cancel => self.hang_up(scheduled, now, slot, out),
        }
    }

    fn hang_up(&mut self, scheduled: Duration, now: Duration, slot: u32, out: &mut Outbox) {
        self.calls[slot as usize].cseq += 1;
        self.request(slot, Phase::Closing, scheduled, now, out);
    }

    /// The dialog goes on without what the re-INVITE asked for; this caller ends it.
    fn fail_reinvite(&mut self, now: Duration, slot: u32, failure: Failure, out: &mut Outbox) {
        self.calls[slot as usize].failure = Some(failure);
        self.hang_up(now, now, slot, out);
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
        let name = CallName::of(message).filter(|name| self.state_of(*name) != Phase::Vacant);
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
            if is_normal_clearing(message) {
                self.carry(name.slot);
            } else {
                self.fail(name.slot, Failure::HungUp);
            }
        }
    }

    fn on_alarm(&mut self, due: Duration, now: Duration, slot: u32, out: &mut Outbox) {
        let call = &self.calls[slot as usize];
        let is_over = now >= call.give_up;
        match call.state {
            Phase::Vacant => {}
            Phase::Holding => self.end_holding(due, now, slot, out),
            Phase::Proceeding => self.fail(slot, Failure::NoAnswer),
            Phase::Calling if is_over => self.fail(slot, Failure::Silence),
            Phase::Cancelling if is_over => self.fail(slot, Failure::CancelSilence),
            Phase::Renewing if is_over => {
                self.fail_reinvite(now, slot, Failure::ReinviteSilence, out);
            }
            Phase::Closing if is_over => {
                let failure = call.failure.unwrap_or(Failure::ByeSilence);
                self.fail(slot, failure);
            }
            // RFC 3261 §17.1.1.2 and §17.1.2.2.
            Phase::Calling | Phase::Renewing => self.repeat(now, slot, Duration::MAX, out),
            Phase::Cancelling | Phase::Closing => self.repeat(now, slot, T2, out),
        }
    }

    /// Sends the request again and doubles the interval.
    fn repeat(&mut self, now: Duration, slot: u32, interval_max: Duration, out: &mut Outbox) {
        let call = &mut self.calls[slot as usize];
        call.interval = (call.interval * 2).min(interval_max);
        self.timers
            .set(slot, &mut call.alarm, call.give_up.min(now + call.interval));
        self.stats.retransmissions += 1;
        self.send_request(slot, out);
    }

    fn send_invite(&self, slot: u32, kind: impl Fn(&Opening) -> &Template, out: &mut Outbox) {
        let call = &self.calls[slot as usize];
        let name = self.name(slot);
        let mut fill = name.fill(self.config.users, call.opening());
        let credentials = call.login.as_ref().map(|login| {
            let callee = name.called(self.config.users);
            let uri = format!("sip:{callee}@{}", self.config.domain);
            login.line("INVITE", &uri, name.nonce)
        });
        fill.lines = credentials.as_ref().map_or(&[], |line| line.as_bytes());
        let opening = self.requests[call.socket].opening(call.opening());
        out.send(call.socket, self.config.proxy, |out| {
            kind(opening).write(&fill, out);
        });
    }

    /// Sends the INVITE anew with credentials. False: the challenge can't be met.
    fn meet(
        &mut self,
        now: Duration,
        slot: u32,
        challenge: &Message<'_>,
        status: u16,
        out: &mut Outbox,
    ) -> bool {
        let call = &mut self.calls[slot as usize];
        let password = self.config.password.as_ref();
        let password = password.filter(|_| call.login.is_none());
        let met = Challenge::of(challenge, status).zip(password);
        let Some((challenge, password)) = met else {
            return false;
        };
        let mut login = challenge.meet("caller", password);
        login.count();
        call.login = Some(Box::new(login));
        self.stats.challenges += 1;
        let began = call.began;
        self.request(slot, Phase::Calling, began, now, out);
        true
    }

    fn send_in_dialog(
        &self,
        slot: u32,
        cseq: u32,
        kind: impl Fn(&Requests) -> &Template,
        out: &mut Outbox,
    ) {
        let call = &self.calls[slot as usize];
        let fill = call.dialog.fill(self.name(slot), cseq);
        out.send(call.socket, call.dialog.next_hop, |out| {
            kind(&self.requests[call.socket]).write(&fill, out);
        });
    }

    fn name(&self, slot: u32) -> CallName {
        let nonce = self.calls[slot as usize].nonce;
        CallName { slot, nonce }
    }

    fn state_of(&self, name: CallName) -> Phase {
        match self.calls.get(name.slot as usize) {
            Some(call) if call.nonce == name.nonce => call.state,
            _ => Phase::Vacant,
        }
    }

    fn carry(&mut self, slot: u32) {
        self.stats.carried += 1;
        self.cohorts.carry(self.calls[slot as usize].member);
        self.vacate(slot);
    }

    fn fail(&mut self, slot: u32, failure: Failure) {
        self.stats.fail(failure);
        self.cohorts.fail(self.calls[slot as usize].member, failure);
        self.vacate(slot);
    }

    fn vacate(&mut self, slot: u32) {
        let call = &mut self.calls[slot as usize];
        call.state = Phase::Vacant;
        call.alarm.stop();
        self.free.push(slot);
    }
}

/// Whether a BYE ends its call as planned. RFC 3326
fn is_normal_clearing(bye: &Message<'_>) -> bool {
    let mut headers = bye.headers();
    headers.any(|(name, value)| {
        name.eq_ignore_ascii_case(b"Reason") && value.starts_with(b"Q.850;cause=16")
    })
}

impl Source {
    fn new(arrivals: Arrivals, now: Duration, rng: &mut Rng) -> Self {
        match arrivals {
            Arrivals::Open(rate, stream) => {
                let mut schedule = Schedule::new(rate, stream, now, rng);
                let next = schedule.next(rng);
                Self::Open { schedule, next }
            }
            Arrivals::Window(calls) => Self::Window {
                calls,
                is_filled: false,
            },
        }
    }
}
