//! `sipyard load sipstone`: the tests of SIPstone.

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

/// Longer than any search takes: users register again before each rate.
const EXPIRES: Duration = Duration::from_secs(3600);

/// So often all users try to register, and a server that comes from an overload to come to rest.
const ATTEMPTS: usize = 5;

/// Find what a registrar or a proxy carries, by the tests of SIPstone
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard load sipstone registration --to 127.0.0.1:5060 --users 1000
  sipyard load sipstone registration --to edge:5060 --users 1000 --password 'secret-{user}'
  sipyard load sipstone proxy-200 --to edge:5060 --users 1000 --html proxy-200.html

The tests of \"SIPstone: Benchmarking SIP Server Performance\" (Schulzrinne and others, 2002), which
asks for 95 % success, run until half fail as in \"Failover and Load Sharing in SIP Telephony\" (Singh
and Schulzrinne, 2005), to see whether throughput holds in overload. Other than there, the server
need not be started again between rates.")]
pub(super) struct Sipstone {
    #[command(subcommand)]
    test: Test,
}

#[derive(Subcommand)]
enum Test {
    /// Register users drawn by chance
    #[command(after_help = "Examples:
  sipyard load sipstone registration --to 127.0.0.1:5060 --users 1000
  sipyard load sipstone registration --to edge:5060 --users 1000 --password 'secret-{user}' --json -

A test is a REGISTER and its 200; with --password also the challenge and the REGISTER that meets it.
The tests are a Poisson stream, each for one of user-0@DOMAIN and so on. No request is sent again;
what is not answered within 2 s has failed, and so has what is answered in another way.

The rate rises by --step, each held for --duration, until half of the tests fail; then rates between
are tried until the highest with --success is known to 2 %. Before each rate all users register,
which lets the server come to rest. At the end they remove their registrations.

Exit code: 0; 1 if no rate had --success; 2 for wrong arguments.")]
    Registration(Box<Options>),
    /// Call registered users drawn by chance, who answer with 180 and 200
    #[command(
        name = "proxy-200",
        after_help = "Examples:
  sipyard load sipstone proxy-200 --to 127.0.0.1:5060 --users 1000
  sipyard load sipstone proxy-200 --to edge:5060 --users 1000 --rate 500 --step 10% --html proxy-200.html

A test is a call through the proxy: INVITE, 180, 200, ACK, BYE, 200. The tests are a Poisson stream,
each to one of user-0@DOMAIN and so on, who have registered there; one process has both ends of the
calls. No message is sent again; what is not answered within 2 s has failed, and so has what is
answered in another way.

The rate rises by --step, each held for --duration, until half of the tests fail; then rates between
are tried until the highest with --success is known to 2 %. Before each rate all users register,
which lets the server come to rest. At the end they remove their registrations.

Exit code: 0; 1 if no rate had --success; 2 for wrong arguments."
    )]
    Proxy200(Box<Options>),
}

#[derive(Args)]
struct Options {
    /// Where requests go, such as 127.0.0.1:5060
    #[arg(long, value_name = "ADDRESS", value_parser = values::address)]
    to: SocketAddr,
    /// Register, call and answer at this address [default: the one that reaches --to]
    #[arg(long, value_name = "ADDRESS", value_parser = values::own_address)]
    from: Option<SocketAddr>,
    /// Register or call from so many ports, and answer at as many others
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    ports: u16,
    /// So many users
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    users: u32,
    /// The users' domain
    #[arg(long, default_value = "example.com")]
    domain: String,
    /// The users' password, which they prove by digest; {user} stands for the user's name
    #[arg(long, value_name = "TEXT")]
    password: Option<String>,
    /// The first rate; users register and leave at it, too
    #[arg(long, value_name = "TESTS/S", default_value = "100", value_parser = values::rate)]
    rate: f64,
    /// How far above the last rate the next is
    #[arg(long, value_name = "SHARE", default_value = "25%", value_parser = values::growth)]
    step: f64,
    /// How long a rate is held; in 10s a queue that grows may not have grown long enough, and the rate
    /// found be a fifth too high
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::positive_duration)]
    duration: Duration,
    /// The least share of tests that must succeed
    #[arg(long, value_name = "SHARE", default_value = "95%", value_parser = values::share)]
    success: f64,
    #[command(flatten)]
    files: Files,
}

impl Sipstone {
    /// Whether a rate was carried.
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

    /// Searches with the sources that `tests` makes for a rate; calls to the users go to `contacts`.
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
    /// Registers all of them, until none has to send anything again: then no queue is left of the rate
    /// before. The last record tells of a signal.
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

    /// They remove their registrations; what fails expires.
    fn leave(mut self, signals: &Signals) {
        self.drive.source().stay = false;
        let at_once = Limits {
            duration: Duration::ZERO,
            ..Limits::NONE
        };
        self.drive.run(at_once, signals, &Progress::new());
    }
}

/// All users come up, one after another.
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
