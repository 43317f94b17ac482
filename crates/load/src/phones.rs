use std::{net::SocketAddr, time::Duration};

use fastrand::Rng;
use sip::{Message, Method, StartLine};

use crate::{
    HEADERS_MAX, Outbox, Rate, Retransmission, Stream,
    arrivals::Schedule,
    caller::CallName,
    server::put_reply,
    stats::{Failure, Stats, record},
    template::{Fill, Template},
    timers::{Alarm, PATIENCE, T1, T2, Timers},
};

/// After a failure a phone tries again so much later, or half of it, or something in between
/// (RFC 5626 §4.5).
const RETRY: Duration = Duration::from_secs(30);

/// Which phones register.
#[derive(Clone, Debug)]
pub struct PhonesConfig {
    /// The addresses to register from, in turn; they stand in Via.
    pub sockets: Vec<SocketAddr>,
    /// Where calls to the phones are to go, in turn: what their Contacts name.
    pub contacts: Vec<SocketAddr>,
    /// Where REGISTERs go.
    pub registrar: SocketAddr,
    /// The domain of the users.
    pub domain: String,
    /// How many phones there are, each of a user of its own: `user-0` and so on.
    pub users: u32,
    /// How many phones come up in a second, and later leave.
    pub rate: Rate,
    /// How regularly they do so.
    pub stream: Stream,
    /// How long a registration is to last, to the second.
    pub expires: Duration,
    /// The share of the granted time after which a phone registers again.
    pub refresh: f64,
    /// Whether requests are sent again.
    pub retransmission: Retransmission,
}

/// Phones that register, keep their registrations, and remove them when they leave.
///
/// They are in nobody's dialogs: an OPTIONS is answered with 200, anything else with 480.
#[derive(Debug)]
pub struct Phones {
    config: PhonesConfig,
    rng: Rng,
    /// By socket and contact, in turn.
    requests: Vec<Template>,
    phones: Vec<Phone>,
    timers: Timers,
    stage: Stage,
    schedule: Schedule,
    /// When the next phone comes or leaves.
    next: Duration,
    /// The phone whose turn it is then.
    turn: u32,
    in_progress: usize,
    registered: usize,
    stats: Stats,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Phones come up and refresh.
    Open,
    /// Phones that come to the end of their time do no more.
    Stopped,
    /// Phones remove their registrations, one after another.
    Leaving,
}

#[derive(Debug)]
struct Phone {
    nonce: u64,
    state: State,
    is_registered: bool,
    /// It removes its registration when the REGISTER in progress has its response.
    is_leaving: bool,
    cseq: u32,
    expires_s: u32,
    /// When the REGISTER in progress was scheduled.
    began: Duration,
    interval: Duration,
    give_up: Duration,
    alarm: Alarm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for its turn, or does no more.
    Idle,
    /// REGISTER sent.
    Registering,
    /// REGISTER of no duration sent.
    Leaving,
    /// Registers again when the alarm goes off.
    Waiting,
}

impl Phones {
    /// Phones that come up from `now` on; `rng` draws when, and identifiers.
    ///
    /// # Panics
    /// Without a socket or a contact.
    #[must_use]
    pub fn new(config: PhonesConfig, mut rng: Rng, now: Duration) -> Self {
        let expires_s = u32::try_from(config.expires.as_secs()).unwrap_or(u32::MAX);
        let mut schedule = Schedule::new(config.rate, config.stream, now, &mut rng);
        let next = schedule.next(&mut rng);
        let phone = |_| Phone {
            nonce: rng.u64(..),
            state: State::Idle,
            is_registered: false,
            is_leaving: false,
            cseq: 0,
            expires_s,
            began: Duration::ZERO,
            interval: T1,
            give_up: Duration::ZERO,
            alarm: Alarm::OFF,
        };
        Self {
            phones: (0..config.users).map(phone).collect(),
            requests: requests(&config),
            config,
            rng,
            timers: Timers::default(),
            stage: Stage::Open,
            schedule,
            next,
            turn: 0,
            in_progress: 0,
            registered: 0,
            stats: Stats::default(),
        }
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
            StartLine::Response { status, .. } => self.on_response(now, status, &message, out),
            StartLine::Request {
                method: Method::Ack,
                ..
            } => {}
            StartLine::Request { method, .. } => {
                let status = if method == Method::Options { 200 } else { 480 };
                out.send(socket, from, |out| {
                    put_reply(&message, from, status, "none", out)
                });
            }
        }
    }

    /// Sends what is due.
    pub fn handle_timeout(&mut self, now: Duration, out: &mut Outbox) {
        while let Some((due, number)) = self
            .timers
            .pop(now, &mut self.phones, |phone| &mut phone.alarm)
        {
            self.on_alarm(due, now, number, out);
        }
        while self.deadline_of_turns().is_some_and(|due| due <= now) {
            let due = self.next;
            self.next = self.schedule.next(&mut self.rng);
            self.turn += 1;
            self.take_turn(due, now, self.turn - 1, out);
        }
    }

    /// When [`Self::handle_timeout`] wants to be called next.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        [self.deadline_of_turns(), self.timers.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// No phone begins anything more; their registrations stay until they expire.
    pub fn stop(&mut self) {
        self.stage = Stage::Stopped;
    }

    /// The phones leave from `now` on, as regularly as they came, and remove their registrations.
    pub fn leave(&mut self, now: Duration) {
        self.stage = Stage::Leaving;
        self.turn = 0;
        self.schedule = Schedule::new(self.config.rate, self.config.stream, now, &mut self.rng);
        self.next = self.schedule.next(&mut self.rng);
    }

    /// Phones that have come up, or that have left, in this stage.
    #[must_use]
    pub fn turned(&self) -> u32 {
        self.turn
    }

    /// Phones whose last REGISTER was granted.
    #[must_use]
    pub fn registered(&self) -> usize {
        self.registered
    }

    /// REGISTERs without a final response.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.in_progress
    }

    /// The phones were stopped or have left, and nothing is in progress.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.in_progress == 0 && self.stage != Stage::Open && self.deadline_of_turns().is_none()
    }

    /// What became of the REGISTERs.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// To take the counts of an interval.
    pub fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
    }

    fn deadline_of_turns(&self) -> Option<Duration> {
        let has_turns = self.stage != Stage::Stopped && self.turn < self.config.users;
        (has_turns && self.next < Duration::MAX).then_some(self.next)
    }

    fn take_turn(&mut self, due: Duration, now: Duration, number: u32, out: &mut Outbox) {
        let phone = &mut self.phones[number as usize];
        match (self.stage, phone.state) {
            (Stage::Open, _) => self.register(State::Registering, due, now, number, out),
            (_, State::Registering) => phone.is_leaving = true,
            _ if phone.is_registered => self.register(State::Leaving, due, now, number, out),
            _ => phone.state = State::Idle,
        }
    }

    fn register(
        &mut self,
        state: State,
        scheduled: Duration,
        now: Duration,
        number: u32,
        out: &mut Outbox,
    ) {
        let phone = &mut self.phones[number as usize];
        phone.state = state;
        phone.cseq += 1;
        phone.began = scheduled;
        phone.interval = T1;
        phone.give_up = now + PATIENCE;
        let due = match self.config.retransmission {
            Retransmission::Rfc3261 => now + T1,
            Retransmission::Never => phone.give_up,
        };
        self.timers.set(number, &mut phone.alarm, due);
        self.in_progress += 1;
        self.stats.offered += 1;
        record(&mut self.stats.late_ns, now.saturating_sub(scheduled));
        self.send(number, out);
    }

    fn send(&self, number: u32, out: &mut Outbox) {
        let phone = &self.phones[number as usize];
        let expires = match phone.state {
            State::Leaving => 0,
            _ => phone.expires_s,
        };
        let fill = Fill {
            slot: number,
            nonce: phone.nonce,
            user: number,
            cseq: phone.cseq,
            expires,
            ..Fill::default()
        };
        let socket = number as usize % self.config.sockets.len();
        let request = &self.requests[number as usize % self.requests.len()];
        out.send(socket, self.config.registrar, |out| {
            request.write(&fill, out)
        });
    }

    fn on_alarm(&mut self, due: Duration, now: Duration, number: u32, out: &mut Outbox) {
        let phone = &mut self.phones[number as usize];
        match phone.state {
            State::Idle => {}
            State::Waiting if self.stage == Stage::Open => {
                self.register(State::Registering, due, now, number, out);
            }
            State::Waiting => phone.state = State::Idle,
            _ if now >= phone.give_up => {
                self.fail(now, number, Failure::RegisterSilence, RETRY);
            }
            State::Registering | State::Leaving => {
                phone.interval = (phone.interval * 2).min(T2);
                let due = phone.give_up.min(now + phone.interval);
                self.timers.set(number, &mut phone.alarm, due);
                self.stats.retransmissions += 1;
                self.send(number, out);
            }
        }
    }

    fn on_response(&mut self, now: Duration, status: u16, message: &Message<'_>, out: &mut Outbox) {
        let Some(number) = self.phone_of(message) else {
            self.stats.strays += u64::from(status >= 200);
            return;
        };
        match status {
            ..200 => {}
            200..300 => self.on_granted(now, number, message, out),
            423 if self.raise(number, message) => {
                self.in_progress -= 1;
                let began = self.phones[number as usize].began;
                self.register(State::Registering, began, now, number, out);
                // It is the same registration (RFC 3261 §10.2.8).
                self.stats.offered -= 1;
            }
            300.. => {
                let retry_after = message.retry_after().map(u64::from);
                let retry = retry_after.map_or(RETRY, Duration::from_secs);
                self.fail(now, number, Failure::RegisterRejected(status), retry);
            }
        }
    }

    /// The phone whose REGISTER in progress this is the response to.
    fn phone_of(&self, response: &Message<'_>) -> Option<u32> {
        let name = CallName::of(response)?;
        let phone = self.phones.get(name.slot as usize)?;
        let is_awaited = matches!(phone.state, State::Registering | State::Leaving);
        let is_last = response.cseq().ok()?.number == phone.cseq;
        (is_awaited && is_last && phone.nonce == name.nonce).then_some(name.slot)
    }

    fn on_granted(&mut self, now: Duration, number: u32, message: &Message<'_>, out: &mut Outbox) {
        let phone = &self.phones[number as usize];
        let (leaves, leaves_next) = (phone.state == State::Leaving, phone.is_leaving);
        let elapsed = now.saturating_sub(phone.began);
        record(&mut self.stats.register_ns, elapsed);
        self.stats.carried += 1;
        self.end(number, !leaves);
        if leaves_next && !leaves {
            return self.register(State::Leaving, now, now, number, out);
        }
        if !leaves {
            let granted = Duration::from_secs(u64::from(self.granted_s(number, message)));
            self.wait(number, now + granted.mul_f64(self.config.refresh));
        }
    }

    /// RFC 3261 §10.2.4.
    fn granted_s(&self, number: u32, response: &Message<'_>) -> u32 {
        let contact = self.config.contacts[number as usize % self.config.contacts.len()];
        let contact = format!("sip:user-{number}@{contact}");
        let mut contacts = response.contacts().flatten();
        let own = contacts.find(|granted| granted.uri == contact.as_bytes());
        let expires = own.and_then(|own| own.param(b"expires").flatten());
        let expires = expires.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        let asked_s = self.phones[number as usize].expires_s;
        expires.or_else(|| response.expires()).unwrap_or(asked_s)
    }

    /// Asks for the least time that the registrar takes, if that is more than was asked for.
    fn raise(&mut self, number: u32, response: &Message<'_>) -> bool {
        let phone = &mut self.phones[number as usize];
        let least = response
            .headers()
            .find(|(name, _)| name.eq_ignore_ascii_case(b"Min-Expires"));
        let least = least.and_then(|(_, text)| std::str::from_utf8(text).ok()?.parse().ok());
        let is_more = phone.state == State::Registering && least > Some(phone.expires_s);
        phone.expires_s = least.filter(|_| is_more).unwrap_or(phone.expires_s);
        is_more
    }

    fn fail(&mut self, now: Duration, number: u32, failure: Failure, retry: Duration) {
        self.stats.fail(failure);
        self.end(number, false);
        if self.stage == Stage::Open {
            let later = retry.mul_f64(1.0 - self.rng.f64() / 2.0);
            self.wait(number, now + later);
        }
    }

    /// The REGISTER in progress is over.
    fn end(&mut self, number: u32, is_registered: bool) {
        let phone = &mut self.phones[number as usize];
        phone.state = State::Idle;
        phone.alarm.stop();
        self.in_progress -= 1;
        self.registered += usize::from(is_registered);
        self.registered -= usize::from(phone.is_registered);
        phone.is_registered = is_registered;
    }

    fn wait(&mut self, number: u32, until: Duration) {
        let phone = &mut self.phones[number as usize];
        phone.state = State::Waiting;
        self.timers.set(number, &mut phone.alarm, until);
    }
}

/// A REGISTER for each pair of a socket and a contact that some phone has.
fn requests(config: &PhonesConfig) -> Vec<Template> {
    let PhonesConfig {
        sockets,
        contacts,
        domain,
        ..
    } = config;
    let pairs = sockets.len() * contacts.len();
    let pairs = (0..pairs).map(|i| (sockets[i % sockets.len()], contacts[i % contacts.len()]));
    pairs
        .map(|(socket, contact)| {
            Template::new(&format!(
                "REGISTER sip:{domain} SIP/2.0\r\n\
                 Via: SIP/2.0/UDP {socket};rport;branch=z9hG4bK{{nonce}}r{{cseq}}\r\n\
                 Max-Forwards: 70\r\n\
                 From: <sip:user-{{user}}@{domain}>;tag={{nonce}}\r\n\
                 To: <sip:user-{{user}}@{domain}>\r\n\
                 Call-ID: {{slot}}{{nonce}}\r\n\
                 CSeq: {{cseq}} REGISTER\r\n\
                 Contact: <sip:user-{{user}}@{contact}>;expires={{expires}}\r\n\
                 User-Agent: sipyard-load\r\n\
                 Content-Length: 0\r\n\r\n"
            ))
        })
        .collect()
}
