//! `sipyard load serve`: emulates servers.

use std::{
    io::{self, Write},
    net::SocketAddr,
    num::NonZeroU64,
    time::Duration,
};

use clap::{Args, ValueEnum};
use fastrand::Rng;
use load::{Discipline, Law, Retransmission, Server, ServerConfig, Stall};
use report::{Table, figures::count};
use serde::Serialize;
use socket::Clock;
use traffic::{Endpoint, Group};

use super::{
    Refusal,
    carrier::{CarrierOfServers, Ends},
    outcome::{Files, figure},
    signals::Signals,
    values::{self, Means, Shape},
};
use crate::{finished, progress::Progress};

/// How often to show the progress.
const SHOWN_EVERY: Duration = Duration::from_secs(1);

/// The longest sleep. A signal that arrives meanwhile waits this long.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// Emulate servers that take calls, with service times, queues and stalls
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard load serve --address 127.0.0.1:7000 --servers 4
  sipyard load serve --address 127.0.0.1:7000 --servers 8 --service INVITE=1.45ms,BYE=0.83ms \\
      --law exponential --stall calls:950:1s --ring 2s
  sipyard load serve --address 10.0.0.1:5060 --servers 2 --service INVITE=2ms --speeds 1,0.5
  sipyard load serve --address 127.0.0.1:5061 --transport tls --chain server.pem --key server.key

A server answers an INVITE with 180 after the service time, and with 200 after the ringing. It
answers BYE, OPTIONS, REGISTER and others with 200. Service costs no CPU time: it is a deadline, not
a loop. SIGUSR1 stalls all servers for --pause. Ctrl-C or SIGTERM stops them and prints a table.")]
pub(super) struct Serve {
    /// The first server's address; the others take the ports after it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7000", value_parser = values::address)]
    address: SocketAddr,
    /// Number of servers
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    servers: u16,
    /// How long a request keeps a server's processor busy on average, by method: INVITE, BYE, other
    #[arg(long, value_name = "METHOD=TIME,...", default_value = "INVITE=0s", value_parser = values::means)]
    service: Means,
    /// How service times vary: constant, exponential, or log-normal:1.5 for a standard deviation of
    /// 1.5 times the mean
    #[arg(long, default_value = "constant", value_parser = values::shape)]
    law: Shape,
    /// Service time of a retransmitted request
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = values::time)]
    repeated: Duration,
    /// The order in which a processor serves requests
    #[arg(long, default_value = "fifo")]
    discipline: Order,
    /// Speeds of the processors; the servers get them in turn
    #[arg(long, value_name = "FACTOR,...", value_delimiter = ',', value_parser = values::rate)]
    speeds: Vec<f64>,
    /// The time from 180 to 200, fixed or random: 2s, exponential:2s, normal:2s,1s,
    /// log-normal:2s,1s
    #[arg(long, value_name = "LAW", default_value = "0s", value_parser = values::law)]
    ring: Law,
    /// Send 100 at once for an INVITE that has to wait
    #[arg(long)]
    trying: bool,
    /// Stall the servers in turn: calls:950:1s for 1 s after every 950 calls of a server,
    /// every:5s:1s for 1 s out of every 5 s
    #[arg(long, value_name = "STALL", value_parser = values::stall)]
    stall: Option<Stall>,
    /// How long a SIGUSR1 stalls the servers
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = settings::duration)]
    pause: Duration,
    #[command(flatten)]
    at: CarrierOfServers,
    #[command(flatten)]
    files: Files,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    /// First come, first served: one request after the other.
    Fifo,
    /// Processor sharing: all requests at once, with equal parts.
    Ps,
}

/// The results of one server, as JSON.
#[derive(Serialize)]
struct Report {
    address: SocketAddr,
    calls: u64,
    answered: u64,
    reinvites: u64,
    ended: u64,
    cancelled: u64,
    unconfirmed: u64,
    open: usize,
    others: u64,
    /// Requests of dialogs that it does not know.
    strangers: u64,
    repeated: u64,
    retransmissions: u64,
    stalls: u64,
    /// The share of the time that its processor was busy.
    busy: f64,
    /// How many requests an INVITE found waiting or in service.
    occupancy_mean: f64,
    occupancy_p99: u64,
    /// Datagrams that this machine lost.
    lost: u64,
}

impl Serve {
    /// Serves until a signal arrives.
    pub(super) fn run(&self) -> Result<bool, Refusal> {
        // A signal may come as soon as the sockets can be seen. It would end the process.
        let signals = Signals::listen()?;
        let ends = self.at.ends(self.address, self.servers)?;
        // Without it the kernel may wake us 50 us late.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let clock = Clock::start();
        let mut rng = Rng::with_seed(socket::seed());
        let place = |(place, ends): (usize, Ends)| {
            let config = self.config(ends.addresses()[0], place);
            let mut server = Server::new(config, rng.fork(), clock.now());
            if let Some(&speed) = self.speeds.iter().cycle().nth(place) {
                server.set_speed(clock.now(), speed);
            }
            ends.endpoint(server)
        };
        let mut group = Group::new(ends.into_iter().enumerate().map(place).collect());
        let last = group.endpoints.last().map(Endpoint::addresses);
        if let Some(last) = last.as_deref().and_then(<[_]>::first) {
            let servers = count(self.servers.into());
            writeln!(
                io::stderr(),
                "{servers} servers are ready: {} to {last}",
                self.address
            )?;
        }
        self.serve(&mut group, clock, &signals);
        self.report(&group, clock)?;
        Ok(true)
    }

    fn config(&self, address: SocketAddr, place: usize) -> ServerConfig {
        ServerConfig {
            address,
            service: self.service.service(self.law),
            repeated: Law::Constant(self.repeated),
            discipline: match self.discipline {
                Order::Fifo => Discipline::Fifo,
                Order::Ps => Discipline::ProcessorSharing,
            },
            trying: self.trying,
            ringing: self.ring,
            retransmission: Retransmission::Rfc3261,
            stall: self
                .stall
                .map(|stall| in_turn(stall, place, self.servers.into())),
            hang_up: None,
        }
    }

    fn serve(&self, group: &mut Group<Server>, clock: Clock, signals: &Signals) {
        let progress = Progress::new();
        let mut shown = clock.now();
        while !signals.stop() {
            let now = clock.now();
            if signals.user() {
                for endpoint in &mut group.endpoints {
                    endpoint.agent_mut().stall(now, self.pause);
                }
            }
            if now >= shown + SHOWN_EVERY {
                shown = now;
                progress.show(&line(group));
            }
            group.turn(clock, now + SLEEP_MAX);
        }
    }

    fn report(&self, group: &Group<Server>, clock: Clock) -> Result<(), Refusal> {
        let seconds = clock.now().as_secs_f64();
        let reports: Vec<_> = group
            .endpoints
            .iter()
            .map(|endpoint| Report::of(endpoint, seconds))
            .collect();
        let table = table(&reports);
        let page = || finished::html(&report::Page::new("Emulated servers").table(table.clone()));
        self.files.write(&[&table], &reports, page)
    }
}

/// Makes the servers stall one after another, not all at once.
fn in_turn(stall: Stall, place: usize, servers: u64) -> Stall {
    let turn = place as u64 + 1;
    match stall {
        Stall::Calls { every, lasting, .. } => Stall::Calls {
            first: (every * turn / servers).max(1),
            every,
            lasting,
        },
        Stall::Periodic { every, lasting, .. } => Stall::Periodic {
            first: every.mul_f64(turn as f64 / servers as f64),
            every,
            lasting,
        },
    }
}

fn line(group: &Group<Server>) -> String {
    let servers = || group.endpoints.iter().map(Endpoint::agent);
    let taken = servers().map(|server| server.stats().invites).sum();
    let open: usize = servers().map(Server::open_calls).sum();
    let waiting: usize = servers().map(Server::occupancy).sum();
    format!(
        "{} calls accepted, {} open, {} requests waiting",
        count(taken),
        count(open as u64),
        count(waiting as u64)
    )
}

impl Report {
    fn of(endpoint: &Endpoint<Server>, seconds: f64) -> Self {
        let server = endpoint.agent();
        let stats = server.stats();
        Self {
            address: endpoint.addresses()[0],
            calls: stats.invites,
            answered: stats.answered,
            reinvites: stats.reinvites,
            ended: stats.byes,
            cancelled: stats.cancelled,
            unconfirmed: stats.unconfirmed,
            open: server.open_calls(),
            others: stats.others,
            strangers: stats.strangers,
            repeated: stats.repeated,
            retransmissions: stats.retransmissions,
            stalls: stats.stalls,
            busy: server.busy().as_secs_f64() / seconds.max(1e-9),
            occupancy_mean: stats.occupancy.mean(),
            occupancy_p99: stats.occupancy.value_at_quantile(0.99),
            lost: endpoint.lost(),
        }
    }
}

fn table(reports: &[Report]) -> Table {
    let columns = [
        "server",
        "calls",
        "ended",
        "cancelled",
        "unconfirmed",
        "open",
        "others",
        "strangers",
        "repeated",
        "retransmitted",
        "stalls",
        "busy, %",
        "found on arrival, mean",
        "lost",
    ];
    let row = |report: &Report| {
        [
            report.address.to_string(),
            count(report.calls),
            count(report.ended),
            count(report.cancelled),
            count(report.unconfirmed),
            count(report.open as u64),
            count(report.others),
            count(report.strangers),
            count(report.repeated),
            count(report.retransmissions),
            count(report.stalls),
            format!("{:.1}", report.busy * 100.0),
            figure(report.occupancy_mean),
            count(report.lost),
        ]
    };
    let table = Table::new("", columns);
    reports
        .iter()
        .fold(table, |table, report| table.row(row(report)))
}
