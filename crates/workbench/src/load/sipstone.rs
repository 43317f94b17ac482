//! `sipyard load sipstone`: runs the tests of SIPstone.

use std::{io, net::SocketAddr, time::Duration};

use clap::{Args, Subcommand};
use fastrand::Rng;
use load::{
    Accounts, Arrivals, Caller, CallerConfig, Phones, PhonesConfig, Rate, Retransmission, Server,
    ServerConfig, Stream, Turns,
};
use socket::{Clock, udp::Socket};

use super::{
    Refusal,
    drive::{Drive, Limits, Record, Source, Users},
    ends::Ends,
    outcome::Files,
    peak::{self, Criterion, Search},
    signals::Signals,
    sockets, values,
};
use crate::progress::Progress;

/// The expiry of registrations, longer than any search: users register again before each rate.
const EXPIRES: Duration = Duration::from_secs(3600);

/// How often all users try to register, and how often a server may try to recover from an overload.
const ATTEMPTS: usize = 5;

/// Find the highest rate of a registrar or a proxy with the tests of SIPstone
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard load sipstone registration --to 127.0.0.1:5060 --users 1000
  sipyard load sipstone registration --to edge:5060 --users 1000 --password 'secret-{user}'
  sipyard load sipstone proxy-200 --to edge:5060 --users 1000 --html proxy-200.html

These are the tests of \"SIPstone: Benchmarking SIP Server Performance\" (Schulzrinne and others, \
    2002),
which asks for 95 % success. As in \"Failover and Load Sharing in SIP Telephony\" (Singh and
Schulzrinne, 2005), the rate rises until half of the tests fail, which shows if throughput holds in
overload. Unlike there, you need not restart the server between rates.")]
pub(super) struct Sipstone {
    #[command(subcommand)]
    test: Test,
}

#[derive(Subcommand)]
enum Test {
    /// Register random users
    #[command(after_help = "Examples:
  sipyard load sipstone registration --to 127.0.0.1:5060 --users 1000
  sipyard load sipstone registration --to edge:5060 --users 1000 --password 'secret-{user}' --json -

A test is a REGISTER and its 200; with --password, also the challenge and the REGISTER that answers
it. The tests are a Poisson stream, each for one of user-0@DOMAIN and so on. Requests are not
retransmitted. A test fails if its answer takes longer than 2 s or has another status.

The rate rises by --step, and is held for --duration each time, until half of the tests fail. The
command then tries rates in between, until it knows the highest with --success to 2 %. Before each
rate all users register, which lets the server recover. At the end they remove their registrations.

Exit code: 0; 1 if no rate had --success; 2 for wrong arguments.")]
    Registration(Box<Options>),
    /// Call random registered users, who answer with 180 and 200
    #[command(
        name = "proxy-200",
        after_help = "Examples:
  sipyard load sipstone proxy-200 --to 127.0.0.1:5060 --users 1000
  sipyard load sipstone proxy-200 --to edge:5060 --users 1000 --rate 500 --step 10% --html proxy-200.html

A test is a call through the proxy: INVITE, 180, 200, ACK, BYE, 200. The tests are a Poisson stream,
each to one of user-0@DOMAIN and so on, who have registered there. One process runs both ends of the
calls. Messages are not retransmitted. A test fails if its answer takes longer than 2 s or has
another status.

The rate rises by --step, and is held for --duration each time, until half of the tests fail. The
command then tries rates in between, until it knows the highest with --success to 2 %. Before each
rate all users register, which lets the server recover. At the end they remove their registrations.

Exit code: 0; 1 if no rate had --success; 2 for wrong arguments."
    )]
    Proxy200(Box<Options>),
}

#[derive(Args)]
struct Options {
    /// Where to send requests, such as 127.0.0.1:5060
    #[arg(long, value_name = "ADDRESS", value_parser = values::address)]
    to: SocketAddr,
    /// The address to register, call and answer at [default: the one that reaches --to]
    #[arg(long, value_name = "ADDRESS", value_parser = values::own_address)]
    from: Option<SocketAddr>,
    /// Number of ports to register or call from; the callees answer at as many others
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    ports: u16,
    /// Number of users
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    users: u32,
    /// The users' domain
    #[arg(long, default_value = "example.com")]
    domain: String,
    /// The users' password for digest authentication; {user} stands for the user's name
    #[arg(long, value_name = "TEXT")]
    password: Option<String>,
    /// The first rate to try; users also register and leave at this rate
    #[arg(long, value_name = "TESTS/S", default_value = "100", value_parser = values::rate)]
    rate: f64,
    /// How much higher each next rate is
    #[arg(long, value_name = "SHARE", default_value = "25%", value_parser = values::growth)]
    step: f64,
    /// How long to hold each rate. In 10s a growing queue may stay too short, and the result may be
    /// a fifth too high
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = settings::duration)]
    duration: Duration,
    /// The share of tests that must succeed
    #[arg(long, value_name = "SHARE", default_value = "95%", value_parser = settings::share)]
    success: f64,
    #[command(flatten)]
    files: Files,
}

impl Sipstone {
    /// Whether the system carried a rate.
    pub(super) fn run(&self) -> Result<bool, Refusal> {
        let signals = Signals::listen()?;
        match &self.test {
            Test::Registration(options) => options.registration(&signals),
            Test::Proxy200(options) => options.proxy_200(&signals),
        }
    }
}

impl Options {
    fn registration(&self, signals: &Signals) -> Result<bool, Refusal> {
        let sockets = sockets::bind(&[self.from()?], self.ports)?;
        let own = addresses(&sockets);
        let mut rng = Rng::with_seed(socket::seed());
        let tests = |rate, now| {
            let config = PhonesConfig {
                turns: Turns::Drawn,
                rate: Rate::Constant(rate),
                stream: Stream::Poisson,
                retransmission: Retransmission::Sipstone,
                ..self.phones(own.clone(), own.clone())
            };
            Users {
                phones: Phones::new(config, rng.fork(), now),
                stay: true,
                until_all_are_up: None,
            }
        };
        self.find("registration", own.clone(), sockets, tests, signals)
    }

    fn proxy_200(&self, signals: &Signals) -> Result<bool, Refusal> {
        let from = self.from()?;
        let mut sockets = sockets::bind(&[from], self.ports)?;
        let callers = addresses(&sockets);
        let callees = sockets::bind(&[SocketAddr::new(from.ip(), 0)], self.ports)?;
        let contacts = addresses(&callees);
        sockets.extend(callees);
        let mut rng = Rng::with_seed(socket::seed());
        let tests = |rate, now| {
            let config = CallerConfig {
                domain: self.domain.clone(),
                users: self.users,
                retransmission: Retransmission::Sipstone,
                ..CallerConfig::plain(callers.clone(), self.to, Arrivals::poisson(rate))
            };
            let caller = Caller::new(config, rng.fork(), now);
            let callee = |&address: &SocketAddr| {
                let config = ServerConfig {
                    retransmission: Retransmission::Sipstone,
                    ..ServerConfig::prompt(address)
                };
                Server::new(config, rng.fork(), now)
            };
            Ends::new(caller, callers.len(), contacts.iter().map(callee).collect())
        };
        self.find("proxy-200", contacts.clone(), sockets, tests, signals)
    }

    /// Searches with the sources that `tests` makes for a rate. Calls to the users go to
    /// `contacts`.
    fn find<S: Source>(
        &self,
        test: &str,
        contacts: Vec<SocketAddr>,
        sockets: Vec<Socket>,
        mut tests: impl FnMut(f64, Duration) -> S,
        signals: &Signals,
    ) -> Result<bool, Refusal> {
        let clock = Clock::start();
        let mut residents = self.residents(contacts, clock)?;
        let mut drive = Drive::new(tests(0.0, clock.now()), sockets, clock);
        let search = Search {
            title: format!("SIPstone {test} at {}", self.to),
            units: S::UNITS,
            criterion: Criterion::Sipstone,
            success: self.success,
            first: self.rate,
            growth: 1.0 + self.step,
            duration: self.duration,
        };
        let found = peak::find(&search, &self.files, |rate, limits, progress| {
            let record = residents.register(signals, progress)?;
            if record.is_interrupted {
                return Ok(record);
            }
            drive.replace(|now| tests(rate, now));
            Ok(drive.run(limits, signals, progress))
        })?;
        residents.leave(signals);
        Ok(found)
    }

    fn from(&self) -> Result<SocketAddr, Refusal> {
        self.from.map_or_else(|| sockets::local(self.to), Ok)
    }

    fn residents(&self, contacts: Vec<SocketAddr>, clock: Clock) -> Result<Residents, Refusal> {
        let sockets = sockets::bind(&[SocketAddr::new(self.from()?.ip(), 0)], 1)?;
        let config = self.phones(addresses(&sockets), contacts);
        let mut rng = Rng::with_seed(socket::seed());
        let users = resident(&config, rng.fork(), clock.now());
        Ok(Residents {
            drive: Drive::new(users, sockets, clock),
            config,
            rng,
        })
    }

    fn phones(&self, sockets: Vec<SocketAddr>, contacts: Vec<SocketAddr>) -> PhonesConfig {
        PhonesConfig {
            sockets,
            transport: load::Transport::Udp,
            contacts,
            registrar: self.to,
            domain: self.domain.clone(),
            accounts: Accounts::Numbered {
                users: self.users,
                password: self.password.clone(),
            },
            turns: Turns::Once,
            rate: Rate::Constant(self.rate),
            stream: Stream::Even,
            expires: EXPIRES,
            refresh: 1.0,
            retransmission: Retransmission::Rfc3261,
        }
    }
}

/// The users that are called, or whose registrations are renewed.
struct Residents {
    drive: Drive<Users>,
    config: PhonesConfig,
    rng: Rng,
}

impl Residents {
    /// Registers all users, and repeats until no request is retransmitted: then the queue of the
    /// rate before is empty. The last record tells if a signal arrived.
    fn register(&mut self, signals: &Signals, progress: &Progress) -> Result<Record, Refusal> {
        let limits = Limits {
            failures_max: 1,
            ..Limits::NONE
        };
        let mut attempts = ATTEMPTS;
        loop {
            let (config, rng) = (&self.config, self.rng.fork());
            self.drive.replace(|now| resident(config, rng, now));
            let record = self.drive.run(limits, signals, progress);
            attempts -= 1;
            let has_failed = record.stats.failures() > 0;
            let is_at_rest = !has_failed && record.stats.retransmissions == 0;
            match attempts {
                _ if record.is_interrupted || is_at_rest => return Ok(record),
                0 if has_failed => return Err(refusal(&record)),
                0 => return Ok(record),
                _ => {}
            }
        }
    }

    /// Removes the users' registrations. Those that fail to be removed expire.
    fn leave(mut self, signals: &Signals) {
        self.drive.source().stay = false;
        let at_once = Limits {
            duration: Duration::ZERO,
            ..Limits::NONE
        };
        self.drive.run(at_once, signals, &Progress::new());
    }
}

/// Registers all users, one after another.
fn resident(config: &PhonesConfig, rng: Rng, now: Duration) -> Users {
    Users {
        phones: Phones::new(config.clone(), rng, now),
        stay: true,
        until_all_are_up: Some(config.accounts.users()),
    }
}

fn refusal(record: &Record) -> Refusal {
    let reasons = record.stats.failed.keys();
    let reasons: Vec<_> = reasons.map(ToString::to_string).collect();
    let text = format!("the users can't register: {}", reasons.join(", "));
    Refusal::System(io::Error::other(text))
}

fn addresses(sockets: &[Socket]) -> Vec<SocketAddr> {
    sockets.iter().map(Socket::local_addr).collect()
}
