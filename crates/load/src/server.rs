mod calls;
mod config;
mod processor;
mod reply;
mod requests;

use std::{net::SocketAddr, time::Duration};

use fastrand::Rng;
use sip::{Message, StartLine};

pub(crate) use self::reply::put_reply;
use self::{
    calls::{Calls, Found, Handle, Phase, Tag},
    reply::{NO_BODY, NORMAL_CLEARING, put_status_line, write_bye},
    requests::Request,
};
pub use self::{
    config::{ServerConfig, ServerStats, Service, Stall},
    processor::{Discipline, Processor},
};
use crate::{
    HEADERS_MAX, Outbox,
    template::session_description,
    timers::{Retransmission, T1, T2, Timers},
};

/// A user agent server that takes calls. It sends 180, 200 and the response to BYE, each after its
/// queue.
///
/// Responses go to the source of the request (RFC 3581), so the last hop must send from the address
/// in its Via.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    rng: Rng,
    contact: Vec<u8>,
    /// The To tag of responses that open no dialog. It is always the same, as RFC 3261 §8.2.7
    /// wants it for copies of one request.
    tag: String,
    /// The end of every 200 to an INVITE: the body and the fields about it.
    answer: Vec<u8>,
    calls: Calls,
    timers: Timers,
    processor: Processor<Job>,
    /// Replies' memory, used again and again.
    spare: Vec<Vec<u8>>,
    /// INVITEs that the processor is done with.
    served: u64,
    /// The next one, with what comes after it.
    stall: Option<Stall>,
    stats: ServerStats,
}

/// What waits for the processor.
#[derive(Debug)]
struct Job {
    /// What is sent when it is done.
    reply: Option<(SocketAddr, Vec<u8>)>,
    then: Then,
}

/// What becomes of a call when a request for it has been worked on.
#[derive(Clone, Copy, Debug)]
enum Then {
    Nothing,
    /// The INVITE is answered.
    Answer(Handle),
    /// The INVITE has come again.
    Repeat(Handle),
    /// The call is cancelled.
    Refuse(Handle),
    /// The call is over.
    End(Handle),
}

impl Server {
    /// A server without calls that starts at `now`; `rng` draws its times and its tags.
    #[must_use]
    pub fn new(config: ServerConfig, mut rng: Rng, now: Duration) -> Self {
        let body = session_description(config.address);
        let answer = format!(
            "Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stall = config.stall;
        if let Some(Stall::Periodic { first, .. }) = &mut stall {
            *first = first.saturating_add(now);
        }
        Self {
            calls: Calls::new(&mut rng),
            contact: format!("<sip:{}>", config.address).into_bytes(),
            tag: format!("{:08x}", rng.u32(..)),
            answer: answer.into_bytes(),
            rng,
            timers: Timers::default(),
            processor: Processor::new(config.discipline),
            spare: Vec::new(),
            served: 0,
            stall,
            config,
            stats: ServerStats::default(),
        }
    }

    /// Takes a datagram.
    pub fn handle_input(
        &mut self,
        now: Duration,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.run_processor(now, out);
        let Ok(message) = Message::parse(bytes, HEADERS_MAX) else {
            return;
        };
        match message.start_line() {
            StartLine::Request { method, .. } => {
                let message = &message;
                self.on_request(method, Request { now, from, message }, out);
            }
            StartLine::Response { status, .. } => self.on_response(now, status, &message),
        }
    }

    /// Does the work that is due.
    pub fn handle_timeout(&mut self, now: Duration, out: &mut Outbox) {
        self.run_processor(now, out);
        if self.processor.resumes_at() > now {
            return;
        }
        while let Some((_, slot)) = self
            .timers
            .pop(now, &mut self.calls.slots, |call| &mut call.alarm)
        {
            self.on_alarm(now, slot, out);
        }
    }

    /// The next time to call [`Self::handle_timeout`].
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let alarm = self.timers.deadline();
        let alarm = alarm.map(|due| due.max(self.processor.resumes_at()));
        [alarm, self.processor.deadline(), self.stall_due()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Stalls the server for this long, after any stall in progress.
    pub fn stall(&mut self, now: Duration, lasting: Duration) {
        self.stats.stalls += 1;
        self.processor.stall(now, lasting);
    }

    /// Sets the processor's speed to `speed` times its first speed, also for work in progress. The
    /// caller must have called [`Self::handle_timeout`] for everything due by `now`.
    ///
    /// # Panics
    /// If `speed` is not a positive number.
    pub fn set_speed(&mut self, now: Duration, speed: f64) {
        assert!(speed > 0.0 && speed.is_finite(), "a speed is positive");
        self.processor.set_speed(now, speed);
    }

    /// How long a request that arrives now waits with first come, first served: the rest of the
    /// work at the present speed, and the rest of a stall.
    #[must_use]
    pub fn backlog(&self, now: Duration) -> Duration {
        self.processor.backlog(now)
    }

    /// Requests that wait or are in service.
    #[must_use]
    pub fn occupancy(&self) -> usize {
        self.processor.jobs()
    }

    /// The time that the processor was busy with requests, up to its last event.
    #[must_use]
    pub fn busy(&self) -> Duration {
        self.processor.busy()
    }

    /// What was counted since the start.
    #[must_use]
    pub fn stats(&self) -> &ServerStats {
        &self.stats
    }

    /// Calls from their INVITE to their BYE.
    #[must_use]
    pub fn open_calls(&self) -> usize {
        self.calls.open()
    }

    /// Whether a request is done with as soon as it comes.
    fn is_prompt(&self, now: Duration, work: Duration) -> bool {
        work.is_zero() && self.processor.jobs() == 0 && self.processor.resumes_at() <= now
    }

    fn work(&mut self, now: Duration, work: Duration, then: Then, out: &mut Outbox) {
        if self.is_prompt(now, work) {
            self.follow(now, then, out);
        } else {
            self.processor.begin(now, work, Job { reply: None, then });
        }
    }

    /// Sends what the processor is done with, and lets it stall in time.
    fn run_processor(&mut self, now: Duration, out: &mut Outbox) {
        loop {
            let stall_due = self.stall_due().filter(|due| *due <= now);
            while let Some((at, job)) = self.processor.pop(stall_due.unwrap_or(now)) {
                self.finish_job(at, job, out);
            }
            let Some(due) = stall_due else { return };
            self.stall_at(due);
        }
    }

    fn finish_job(&mut self, now: Duration, job: Job, out: &mut Outbox) {
        if let Some((to, mut bytes)) = job.reply {
            out.send(0, to, |out| out.extend_from_slice(&bytes));
            bytes.clear();
            self.spare.push(bytes);
        }
        self.follow(now, job.then, out);
    }

    fn follow(&mut self, now: Duration, then: Then, out: &mut Outbox) {
        let is_open = |handle: &Handle| self.calls.is_open(*handle);
        match then {
            Then::Nothing => {}
            Then::Answer(handle) => self.answer(now, handle, out),
            Then::Repeat(handle) if is_open(&handle) => self.repeat_response(handle.slot, out),
            Then::Refuse(handle) if is_open(&handle) => self.refuse(now, handle.slot, out),
            Then::End(handle) if is_open(&handle) => self.end(now, handle.slot, out),
            Then::Repeat(_) | Then::Refuse(_) | Then::End(_) => {}
        }
    }

    fn answer(&mut self, now: Duration, handle: Handle, out: &mut Outbox) {
        if self.calls.is_open(handle) {
            match self.calls.slots[handle.slot as usize].phase {
                Phase::Queued => self.ring(now, handle.slot, out),
                Phase::Renewing => {
                    self.stats.reinvites += 1;
                    self.finish(now, handle.slot, Phase::Answered, out);
                }
                _ => {}
            }
        }
        self.served += 1;
        if let Some(Stall::Calls { first, .. }) = self.stall
            && self.served == first
        {
            self.stall_at(now);
        }
    }

    fn ring(&mut self, now: Duration, slot: u32, out: &mut Outbox) {
        self.calls.slots[slot as usize].phase = Phase::Ringing;
        self.send_response(slot, out);
        let ringing = self.config.ringing.sample(&mut self.rng);
        if ringing.is_zero() {
            return self.on_alarm(now, slot, out);
        }
        let alarm = &mut self.calls.slots[slot as usize].alarm;
        self.timers.set(slot, alarm, now.saturating_add(ringing));
    }

    fn stall_due(&self) -> Option<Duration> {
        match self.stall {
            Some(Stall::Periodic { first, .. }) => Some(first),
            Some(Stall::Calls { .. }) | None => None,
        }
    }

    /// Stalls as configured, and puts down when to do so next.
    fn stall_at(&mut self, now: Duration) {
        let lasting = match &mut self.stall {
            Some(Stall::Calls {
                first,
                every,
                lasting,
            }) => {
                *first += *every;
                *lasting
            }
            Some(Stall::Periodic {
                first,
                every,
                lasting,
            }) => {
                *first = first.saturating_add(*every);
                *lasting
            }
            None => return,
        };
        self.stall(now, lasting);
    }

    fn on_alarm(&mut self, now: Duration, slot: u32, out: &mut Outbox) {
        let call = &mut self.calls.slots[slot as usize];
        let over = now >= call.give_up;
        match call.phase {
            Phase::Ringing => {
                self.stats.answered += 1;
                self.finish(now, slot, Phase::Answered, out);
            }
            Phase::Answered if over => {
                self.stats.unconfirmed += 1;
                match self.config.retransmission {
                    Retransmission::Rfc3261 => self.finish(now, slot, Phase::Leaving, out),
                    Retransmission::Never | Retransmission::Sipstone => {
                        self.calls.remove(now, slot)
                    }
                }
            }
            Phase::Confirmed if self.config.hang_up.is_some() => {
                self.finish(now, slot, Phase::HangingUp, out);
            }
            Phase::Refused | Phase::Leaving if over => self.calls.remove(now, slot),
            Phase::HangingUp if over => {
                self.stats.unheard += 1;
                self.calls.remove(now, slot);
            }
            Phase::Answered | Phase::Refused | Phase::Leaving | Phase::HangingUp => {
                call.interval = (call.interval * 2).min(T2);
                self.timers
                    .set(slot, &mut call.alarm, call.give_up.min(now + call.interval));
                self.repeat_response(slot, out);
            }
            Phase::Vacant | Phase::Queued | Phase::Renewing | Phase::Confirmed => {}
        }
    }

    /// Sends what `phase` sends until it is acknowledged.
    fn finish(&mut self, now: Duration, slot: u32, phase: Phase, out: &mut Outbox) {
        let call = &mut self.calls.slots[slot as usize];
        call.phase = phase;
        call.interval = T1;
        call.give_up = now + self.config.retransmission.patience();
        let due = self.config.retransmission.first_alarm(now);
        self.timers.set(slot, &mut call.alarm, due);
        self.send_response(slot, out);
    }

    fn repeat_response(&mut self, slot: u32, out: &mut Outbox) {
        if !matches!(
            self.calls.slots[slot as usize].phase,
            Phase::Queued | Phase::Renewing | Phase::Confirmed
        ) {
            self.stats.retransmissions += 1;
            self.send_response(slot, out);
        }
    }

    /// Sends the last response of the INVITE, or the BYE of a call that is being left.
    fn send_response(&self, slot: u32, out: &mut Outbox) {
        let call = &self.calls.slots[slot as usize];
        let (status, end) = match call.phase {
            Phase::Ringing => (180, NO_BODY),
            Phase::Answered => (200, &*self.answer),
            Phase::Refused => (487, NO_BODY),
            Phase::Leaving => return self.send_bye(slot, b"", out),
            Phase::HangingUp => return self.send_bye(slot, NORMAL_CLEARING, out),
            Phase::Vacant | Phase::Queued | Phase::Renewing | Phase::Confirmed => return,
        };
        out.send(0, call.peer, |out| {
            put_status_line(out, status);
            out.extend_from_slice(&call.headers);
            out.extend_from_slice(end);
        });
    }

    /// Answers an INVITE that has no final response yet with 487.
    fn refuse(&mut self, now: Duration, slot: u32, out: &mut Outbox) {
        if matches!(
            self.calls.slots[slot as usize].phase,
            Phase::Queued | Phase::Ringing
        ) {
            self.stats.cancelled += 1;
            self.finish(now, slot, Phase::Refused, out);
        }
    }

    /// Works on a copy of a request that has come before.
    fn on_repeated(&mut self, now: Duration, then: Then, out: &mut Outbox) {
        self.stats.repeated += 1;
        let work = self.config.repeated.sample(&mut self.rng);
        self.work(now, work, then, out);
    }

    fn end(&mut self, now: Duration, slot: u32, out: &mut Outbox) {
        match self.calls.slots[slot as usize].phase {
            Phase::Answered | Phase::Renewing | Phase::Confirmed => {
                self.stats.byes += 1;
                self.calls.remove(now, slot);
            }
            _ => self.refuse(now, slot, out),
        }
    }

    /// Responds when the processor is done, and goes on from there.
    fn reply(
        &mut self,
        work: Duration,
        status: u16,
        then: Then,
        request: Request<'_>,
        out: &mut Outbox,
    ) {
        let Request { now, from, message } = request;
        self.stats.strangers += u64::from(status == 481);
        // Responses for a call carry its tag (RFC 3261 §9.2).
        let tag = match then {
            Then::Refuse(handle) => Some(self.calls.tag(handle.slot)),
            _ => None,
        };
        let tag = tag.as_ref().map_or(&*self.tag, Tag::as_str);
        if self.is_prompt(now, work) {
            out.send(0, from, |out| put_reply(message, from, status, tag, out));
            return self.follow(now, then, out);
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        put_reply(message, from, status, tag, &mut bytes);
        let reply = Some((from, bytes));
        self.processor.begin(now, work, Job { reply, then });
    }

    /// Ends a call, for example one that was never acknowledged (RFC 3261 §13.3.1.4).
    fn send_bye(&self, slot: u32, reason: &[u8], out: &mut Outbox) {
        let call = &self.calls.slots[slot as usize];
        let branch = self.calls.tag(slot);
        let mut bytes = Vec::new();
        let headers = match &*call.first_headers {
            [] => &call.headers,
            first => first,
        };
        if let Some(to) = write_bye(
            headers,
            &call.contact,
            self.config.address,
            branch.as_str(),
            reason,
            &mut bytes,
        ) {
            out.send(0, to, |out| out.extend_from_slice(&bytes));
        }
    }

    /// Only BYEs of this server have responses.
    fn on_response(&mut self, now: Duration, status: u16, message: &Message<'_>) {
        let Ok(call_id) = message.call_id() else {
            return;
        };
        if let Found::Open(handle) = self.calls.by_call_id(call_id)
            && status >= 200
        {
            let phase = self.calls.slots[handle.slot as usize].phase;
            self.stats.hung_up += u64::from(phase == Phase::HangingUp);
            if matches!(phase, Phase::Leaving | Phase::HangingUp) {
                self.calls.remove(now, handle.slot);
            }
        }
    }
}
