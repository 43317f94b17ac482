//! `sipyard load register`: registers phones.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;
use fastrand::Rng;
use load::{Accounts, Phones, PhonesConfig, Rate, Stream, Turns};
use socket::Clock;

use super::{
    Refusal,
    call::Timers,
    carrier::Carrier,
    credentials,
    drive::{Drive, Limits, Users},
    html,
    outcome::{Files, Outcome, counts, latencies},
    signals::Signals,
    sockets, values,
};
use crate::progress::Progress;

/// Register phones, keep them registered, and measure the results
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard load register --to 127.0.0.1:5060 --users 10000 --rate 500
  sipyard load register --to edge:5060 --users 1000000 --rate 2000 --expires 3600s --duration 1h
  sipyard load register --to edge:5060 --users 1000 --rate 100 --password 'secret-{user}'
  sipyard load register --to edge:5060 --credentials users.csv --rate 100
  sipyard load register --to edge:5061 --transport tls --users 10000 --rate 500
  sipyard load register --to edge:5060 --users 1000 --rate 100 --contact 127.0.0.1:7000 --stay

Over TCP, TLS and WebSocket, each phone has a connection of its own, unless --connections says
otherwise. While the run lasts, a phone that fails, or whose connection is lost, registers again 15
to 30 s later.

Phones of user-0@DOMAIN and so on register at the given rate, and again before each registration
expires. They remove their registrations at the end, unless --stay is given. With --contact and
--stay, calls to them go to a `sipyard load serve` at that address.

A phone answers a 401 or a 407 with digest credentials, MD5 or SHA-256. It uses a nonce again until
the server refuses it. To add 1000 users with the passwords secret-user-0 and so on to Sipyard:
  (echo username,domain,password; seq 0 999 | sed 's/.*/user-&,example.com,secret-user-&/') |
    sipyard user import --config sipyard.toml -

Exit code: 0; 1 if fewer than --success of the REGISTERs were granted; 2 for wrong arguments.")]
pub(super) struct Register {
    /// Where to send REGISTERs, such as 127.0.0.1:5060
    #[arg(long, value_name = "ADDRESS", value_parser = values::address)]
    to: SocketAddr,
    /// The addresses to register from, separated by commas [default: the one that reaches --to]
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',', value_parser = values::own_address)]
    from: Vec<SocketAddr>,
    /// Number of ports to register from at each address
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    ports: u16,
    /// The contacts that receive the phones' calls, separated by commas [default: the addresses
    /// that they register from]
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',', value_parser = values::address)]
    contact: Vec<SocketAddr>,
    /// Number of phones, one for each user
    #[arg(long, value_name = "NUMBER", required_unless_present = "credentials", value_parser = clap::value_parser!(u32).range(1..))]
    users: Option<u32>,
    /// The users' password for digest authentication; {user} stands for the user's name
    #[arg(long, value_name = "TEXT", conflicts_with = "credentials")]
    password: Option<String>,
    /// A CSV table of users and passwords, one phone for each user: columns username and password,
    /// as for `sipyard user import`
    #[arg(long, value_name = "FILE", conflicts_with = "users")]
    credentials: Option<PathBuf>,
    /// Phones that register per second at the start, and leave per second at the end
    #[arg(long, value_name = "PHONES/S", value_parser = values::rate)]
    rate: f64,
    /// How registrations are spaced: even, poisson or bursty:RATIO,CALM,BURST
    #[arg(long, default_value = "poisson", value_parser = values::stream)]
    arrivals: Stream,
    /// The expiry that each REGISTER asks for
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = settings::duration)]
    expires: Duration,
    /// The share of the granted time after which a phone registers again
    #[arg(long, value_name = "SHARE", default_value = "90%", value_parser = settings::share)]
    refresh: f64,
    /// The domain of the users
    #[arg(long, default_value = "example.com")]
    domain: String,
    /// When phones start to leave, such as 1h [default: when all have registered]
    #[arg(long, value_name = "TIME", value_parser = settings::duration)]
    duration: Option<Duration>,
    /// Leave the registrations in place at the end
    #[arg(long)]
    stay: bool,
    /// Whether to retransmit requests, and how long to wait for answers
    #[arg(long, default_value = "rfc3261")]
    timers: Timers,
    /// The share of REGISTERs that must be granted for exit code 0
    #[arg(long, value_name = "SHARE", default_value = "99.99%", value_parser = settings::share)]
    success: f64,
    #[command(flatten)]
    carrier: Carrier,
    #[command(flatten)]
    files: Files,
}

impl Register {
    /// Whether enough REGISTERs were granted.
    pub(super) fn run(&self) -> Result<bool, Refusal> {
        let from = match &*self.from {
            [] => vec![sockets::local(self.to)?],
            from => from.to_vec(),
        };
        let accounts = self.accounts()?;
        let phones = accounts.users();
        let ends = self.carrier.ends(&from, self.ports, self.to, phones)?;
        let signals = Signals::listen()?;
        let clock = Clock::start();
        let rng = Rng::with_seed(socket::seed());
        let config = self.config(ends.addresses(), accounts);
        let users = Users {
            phones: Phones::new(config, rng, clock.now()),
            stay: self.stay,
            until_all_are_up: self.duration.is_none().then_some(phones),
        };
        let limits = Limits {
            duration: self.duration.unwrap_or(Duration::MAX),
            ..Limits::NONE
        };
        let progress = Progress::new();
        let record = Drive::new(users, ends, clock).run(limits, &signals, &progress);
        drop(progress);
        let tables = [counts(&record), latencies(&record)];
        let [first, second] = &tables;
        let title = format!("Registrations at {}", self.to);
        self.files
            .write(&[first, second], &Outcome::of(&record), || {
                html::page(&title, &record, tables.clone())
            })?;
        Ok(record.success() >= self.success)
    }

    fn accounts(&self) -> Result<Accounts, Refusal> {
        Ok(match &self.credentials {
            Some(file) => Accounts::Listed(credentials::read(file)?),
            None => Accounts::Numbered {
                users: self.users.unwrap_or(0),
                password: self.password.clone(),
            },
        })
    }

    fn config(&self, sockets: Vec<SocketAddr>, accounts: Accounts) -> PhonesConfig {
        let contacts = match &*self.contact {
            [] => sockets.clone(),
            contacts => contacts.to_vec(),
        };
        PhonesConfig {
            sockets,
            transport: self.carrier.transport,
            contacts,
            registrar: self.to,
            domain: self.domain.clone(),
            accounts,
            turns: Turns::Once,
            rate: Rate::Constant(self.rate),
            stream: self.arrivals,
            expires: self.expires,
            refresh: self.refresh,
            retransmission: self.carrier.retransmission(self.timers.into()),
        }
    }
}
