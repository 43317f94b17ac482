mod config;

use std::{net::SocketAddr, time::Duration};

use fastrand::Rng;
use sip::{Message, Method, StartLine};

pub use self::config::{Account, Accounts, PhonesConfig, Turns};
use crate::{
    HEADERS_MAX, Outbox, Rate,
    arrivals::Schedule,
    caller::CallName,
    cohorts::{Cohort, Cohorts, Member},
    login::{Challenge, Login},
    server::put_reply,
    stats::{Failure, Stats, record},
    template::{Fill, Template, uri_param},
    timers::{Alarm, T1, T2, Timers},
};

/// After a failure, or when its connection is lost, a phone tries again so much later, or half of it, or something in
/// between (RFC 5626 §4.5).
const RETRY: Duration = Duration::from_secs(30);

/// The most challenges of one registration that a phone answers, if each says that only the nonce
/// was wrong.
const CHALLENGES_MAX: u32 = 3;

/// Phones that register, keep their registrations, and remove them when they leave.
///
/// They have no dialogs: they answer an OPTIONS with 200 and any other request with 480.
#[derive(Debug)]
pub struct Phones {
    config: PhonesConfig,
    /// The Request-URI of REGISTERs.
    uri: String,
    rng: Rng,
    /// By socket and contact, in turn.
    requests: Vec<Template>,
    phones: Vec<Phone>,
    /// Phones that are done and may be another user's: with [`Turns::Drawn`].
    free: Vec<u32>,
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
    cohorts: Cohorts,
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
    user: u32,
    nonce: u64,
    member: Member,
    state: Phase,
    is_registered: bool,
    /// It removes its registration when the REGISTER in progress has its response.
    is_leaving: bool,
    cseq: u32,
    expires_s: u32,
    /// When the registration in progress was scheduled.
    began: Duration,
    /// Challenges of the registration in progress that were answered.
    challenges: u32,
    login: Option<Box<Login>>,
    interval: Duration,
    give_up: Duration,
    alarm: Alarm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
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
    /// Phones that come up from `now` on. `rng` draws the times and identifiers.
    ///
    /// # Panics
    /// If there is no socket or no contact.
    #[must_use]
    pub fn new(config: PhonesConfig, mut rng: Rng, now: Duration) -> Self {
        let mut schedule = Schedule::new(config.rate, config.stream, now, &mut rng);
        let next = schedule.next(&mut rng);
        let phones = match config.turns {
            Turns::Once => 0..config.accounts.users(),
            Turns::Drawn => 0..0,
        };
        Self {
            phones: phones
                .map(|user| Phone::new(user, &config, &mut rng))
                .collect(),
            free: Vec::new(),
            uri: uri(&config),
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
            cohorts: Cohorts::default(),
        }
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

    /// The connection in the place of a socket is lost. Its phones register again later.
    pub fn handle_closed(&mut self, now: Duration, socket: usize) {
        let sockets = self.config.sockets.len();
        let (first, step) = match self.config.turns {
            Turns::Once => (socket, sockets),
            Turns::Drawn => (0, 1),
        };
        for place in (first..self.phones.len()).step_by(step) {
            let phone = &mut self.phones[place];
            if phone.user as usize % sockets != socket {
                continue;
            }
            let number = place as u32;
            match phone.state {
                Phase::Registering | Phase::Leaving => {
                    self.fail(now, number, Failure::RegisterClosed, RETRY);
                }
                Phase::Waiting if self.stage == Stage::Open && phone.is_registered => {
                    phone.is_registered = false;
                    self.registered -= 1;
                    self.retry(now, number, RETRY);
                }
                Phase::Waiting | Phase::Idle => {}
            }
        }
    }

    /// Sends the requests that are due.
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
            match self.config.turns {
                Turns::Once => {
                    self.turn += 1;
                    self.take_turn(due, now, self.turn - 1, out);
                }
                Turns::Drawn => {
                    let number = self.draw();
                    self.register(Phase::Registering, due, now, number, out);
                }
            }
        }
    }

    /// The next time to call [`Self::handle_timeout`].
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        [self.deadline_of_turns(), self.timers.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Stops all phones. Their registrations stay until they expire.
    pub fn stop(&mut self) {
        self.stage = Stage::Stopped;
    }

    /// Makes the phones leave from `now` on, spaced as they came, and remove their registrations.
    /// It works for phones that take turns [once](Turns::Once).
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

    /// Phones whose last REGISTER was granted, and whose connection was not lost since.
    #[must_use]
    pub fn registered(&self) -> usize {
        self.registered
    }

    /// REGISTERs without a final response.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.in_progress
    }

    /// Whether the phones were stopped or have left, and nothing is in progress.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.in_progress == 0 && self.stage != Stage::Open && self.deadline_of_turns().is_none()
    }

    /// The counters and latencies of the REGISTERs.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The counters, so that the owner can take those of an interval.
    pub fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
    }

    /// Counts the registrations that begin from here on in a cohort of their own.
    pub fn begin_cohort(&mut self) {
        self.cohorts.begin();
    }

    /// The cohorts so far, in the order in which they began.
    #[must_use]
    pub fn cohorts(&self) -> &[Cohort] {
        self.cohorts.all()
    }

    /// Changes the rate of turns from `now` on.
    pub fn set_rate(&mut self, now: Duration, rate: Rate) {
        self.config.rate = rate;
        self.schedule = Schedule::new(rate, self.config.stream, now, &mut self.rng);
        self.next = self.schedule.next(&mut self.rng);
    }

    fn deadline_of_turns(&self) -> Option<Duration> {
        let has_turns = self.stage != Stage::Stopped && self.turn < self.config.accounts.users();
        (has_turns && self.next < Duration::MAX).then_some(self.next)
    }

    fn take_turn(&mut self, due: Duration, now: Duration, number: u32, out: &mut Outbox) {
        let phone = &mut self.phones[number as usize];
        match (self.stage, phone.state) {
            (Stage::Open, _) => self.register(Phase::Registering, due, now, number, out),
            (_, Phase::Registering) => phone.is_leaving = true,
            _ if phone.is_registered => self.register(Phase::Leaving, due, now, number, out),
            _ => phone.state = Phase::Idle,
        }
    }

    /// A phone of a user that is drawn.
    fn draw(&mut self) -> u32 {
        let user = self.rng.u32(..self.config.accounts.users());
        let phone = Phone::new(user, &self.config, &mut self.rng);
        let Some(number) = self.free.pop() else {
            self.phones.push(phone);
            return u32::try_from(self.phones.len() - 1)
                .expect("fewer than 2^32 registrations are in progress");
        };
        let old = &mut self.phones[number as usize];
        // The timers may still know of it.
        let alarm = old.alarm;
        *old = Phone { alarm, ..phone };
        number
    }

    /// Begins a registration.
    fn register(
        &mut self,
        state: Phase,
        scheduled: Duration,
        now: Duration,
        number: u32,
        out: &mut Outbox,
    ) {
        let phone = &mut self.phones[number as usize];
        phone.state = state;
        phone.began = scheduled;
        phone.challenges = 0;
        phone.member = self.cohorts.join();
        self.in_progress += 1;
        self.stats.offered += 1;
        record(&mut self.stats.late_ns, now.saturating_sub(scheduled));
        self.request(now, number, out);
    }

    /// Begins a transaction of the registration.
    fn request(&mut self, now: Duration, number: u32, out: &mut Outbox) {
        let retransmission = self.config.retransmission;
        let phone = &mut self.phones[number as usize];
        phone.cseq += 1;
        phone.interval = T1;
        phone.give_up = now + retransmission.patience();
        if let Some(login) = &mut phone.login {
            login.count();
        }
        let due = retransmission.first_alarm(now);
        self.timers.set(number, &mut phone.alarm, due);
        self.send(number, out);
    }

    fn send(&self, number: u32, out: &mut Outbox) {
        let phone = &self.phones[number as usize];
        let expires = match phone.state {
            Phase::Leaving => 0,
            _ => phone.expires_s,
        };
        let login = phone.login.as_ref().map(|login| {
            let cnonce = phone.nonce.wrapping_add(phone.cseq.into());
            login.line("REGISTER", &self.uri, cnonce)
        });
        let fill = Fill {
            slot: number,
            nonce: phone.nonce,
            user: self.config.accounts.user(phone.user),
            cseq: phone.cseq,
            expires,
            lines: login.as_ref().map_or(b"", |line| line.as_bytes()),
            ..Fill::default()
        };
        let socket = phone.user as usize % self.config.sockets.len();
        let request = &self.requests[phone.user as usize % self.requests.len()];
        out.send(socket, self.config.registrar, |out| {
            request.write(&fill, out)
        });
    }

    fn on_alarm(&mut self, due: Duration, now: Duration, number: u32, out: &mut Outbox) {
        let phone = &mut self.phones[number as usize];
        match phone.state {
            Phase::Idle => {}
            Phase::Waiting if self.stage == Stage::Open => {
                self.register(Phase::Registering, due, now, number, out);
            }
            Phase::Waiting => phone.state = Phase::Idle,
            _ if now >= phone.give_up => {
                self.fail(now, number, Failure::RegisterSilence, RETRY);
            }
            Phase::Registering | Phase::Leaving => {
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
            // It is the same registration (RFC 3261 §10.2.8).
            423 if self.raise(number, message) => self.request(now, number, out),
            401 | 407 if self.log_in(number, status, message) => self.request(now, number, out),
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
        let is_awaited = matches!(phone.state, Phase::Registering | Phase::Leaving);
        let is_last = response.cseq().ok()?.number == phone.cseq;
        (is_awaited && is_last && phone.nonce == name.nonce).then_some(name.slot)
    }

    fn on_granted(&mut self, now: Duration, number: u32, message: &Message<'_>, out: &mut Outbox) {
        let phone = &self.phones[number as usize];
        let (leaves, leaves_next) = (phone.state == Phase::Leaving, phone.is_leaving);
        let member = phone.member;
        let elapsed = now.saturating_sub(phone.began);
        record(&mut self.stats.register_ns, elapsed);
        self.stats.carried += 1;
        self.cohorts.answer(member, elapsed);
        self.cohorts.carry(member);
        self.end(number, !leaves);
        if leaves_next && !leaves {
            return self.register(Phase::Leaving, now, now, number, out);
        }
        if !leaves && self.config.turns == Turns::Once {
            let granted = Duration::from_secs(u64::from(self.granted_s(number, message)));
            self.wait(number, now + granted.mul_f64(self.config.refresh));
        }
    }

    /// RFC 3261 §10.2.4.
    fn granted_s(&self, number: u32, response: &Message<'_>) -> u32 {
        let user = self.phones[number as usize].user;
        let contact = self.config.contacts[user as usize % self.config.contacts.len()];
        let contact = format!("sip:{}@{contact}", self.config.accounts.user(user));
        let mut contacts = response.contacts().flatten();
        let own = contacts.find(|granted| granted.uri == contact.as_bytes());
        let expires = own.and_then(|own| own.param(b"expires").value());
        let expires = expires.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        let asked_s = self.phones[number as usize].expires_s;
        expires.or_else(|| response.expires()).unwrap_or(asked_s)
    }

    /// Answers a challenge, unless it says that the password is wrong.
    fn log_in(&mut self, number: u32, status: u16, response: &Message<'_>) -> bool {
        let phone = &mut self.phones[number as usize];
        let Some(challenge) = Challenge::of(response, status) else {
            return false;
        };
        let is_first = phone.challenges == 0;
        let may_be_right = is_first || challenge.is_stale() && phone.challenges < CHALLENGES_MAX;
        let Some(password) = self
            .config
            .accounts
            .password(phone.user)
            .filter(|_| may_be_right)
        else {
            return false;
        };
        let user = self.config.accounts.user(phone.user).to_string();
        phone.login = Some(Box::new(challenge.meet(&user, &password)));
        phone.challenges += 1;
        self.stats.challenges += 1;
        true
    }

    /// Asks for the least time that the registrar takes, if that is more than was asked for.
    fn raise(&mut self, number: u32, response: &Message<'_>) -> bool {
        let phone = &mut self.phones[number as usize];
        let least = response
            .headers()
            .find(|(name, _)| name.eq_ignore_ascii_case(b"Min-Expires"));
        let least = least.and_then(|(_, text)| std::str::from_utf8(text).ok()?.parse().ok());
        let is_more = phone.state == Phase::Registering && least > Some(phone.expires_s);
        phone.expires_s = least.filter(|_| is_more).unwrap_or(phone.expires_s);
        is_more
    }

    fn fail(&mut self, now: Duration, number: u32, failure: Failure, retry: Duration) {
        self.stats.fail(failure);
        self.cohorts
            .fail(self.phones[number as usize].member, failure);
        self.end(number, false);
        if self.stage == Stage::Open && self.config.turns == Turns::Once {
            self.retry(now, number, retry);
        }
    }

    fn retry(&mut self, now: Duration, number: u32, at_most: Duration) {
        let later = at_most.mul_f64(1.0 - self.rng.f64() / 2.0);
        self.wait(number, now + later);
    }

    /// The registration in progress is over.
    fn end(&mut self, number: u32, is_registered: bool) {
        let phone = &mut self.phones[number as usize];
        phone.state = Phase::Idle;
        phone.alarm.stop();
        self.in_progress -= 1;
        if self.config.turns == Turns::Drawn {
            return self.free.push(number);
        }
        self.registered += usize::from(is_registered);
        self.registered -= usize::from(phone.is_registered);
        phone.is_registered = is_registered;
    }

    fn wait(&mut self, number: u32, until: Duration) {
        let phone = &mut self.phones[number as usize];
        phone.state = Phase::Waiting;
        self.timers.set(number, &mut phone.alarm, until);
    }
}

impl Phone {
    fn new(user: u32, config: &PhonesConfig, rng: &mut Rng) -> Self {
        Self {
            user,
            nonce: rng.u64(..),
            member: Member::default(),
            state: Phase::Idle,
            is_registered: false,
            is_leaving: false,
            cseq: 0,
            expires_s: u32::try_from(config.expires.as_secs()).unwrap_or(u32::MAX),
            began: Duration::ZERO,
            challenges: 0,
            login: None,
            interval: T1,
            give_up: Duration::ZERO,
            alarm: Alarm::OFF,
        }
    }
}

fn least_common_multiple(one: usize, other: usize) -> usize {
    let (mut divisor, mut rest) = (one, other);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    one / divisor * other
}

fn uri(config: &PhonesConfig) -> String {
    format!("sip:{}", config.domain)
}

/// A REGISTER for each pair of a socket and a contact that some phone has.
fn requests(config: &PhonesConfig) -> Vec<Template> {
    let PhonesConfig {
        sockets,
        transport,
        contacts,
        domain,
        ..
    } = config;
    let uri = uri(config);
    let (via, param) = (transport.in_via(), uri_param(*transport));
    // What comes later repeats these.
    let pairs = least_common_multiple(sockets.len(), contacts.len());
    let pairs = (0..pairs).map(|i| (sockets[i % sockets.len()], contacts[i % contacts.len()]));
    pairs
        .map(|(socket, contact)| {
            Template::new(&format!(
                "REGISTER {uri} SIP/2.0\r\n\
                 Via: SIP/2.0/{via} {socket};rport;branch=z9hG4bK{{nonce}}r{{cseq}}\r\n\
                 Max-Forwards: 70\r\n\
                 From: <sip:{{user}}@{domain}>;tag={{nonce}}\r\n\
                 To: <sip:{{user}}@{domain}>\r\n\
                 Call-ID: {{slot}}{{nonce}}\r\n\
                 CSeq: {{cseq}} REGISTER\r\n\
                 Contact: <sip:{{user}}@{contact}{param}>;expires={{expires}}\r\n\
                 {{lines}}\
                 User-Agent: sipyard-load\r\n\
                 Content-Length: 0\r\n\r\n"
            ))
        })
        .collect()
}
