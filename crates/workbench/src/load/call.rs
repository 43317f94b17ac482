//! `sipyard load call`: calls a SIP system.

use std::{net::SocketAddr, time::Duration};

use clap::{Args, ValueEnum};
use fastrand::Rng;
use load::{Arrivals, Caller, CallerConfig, Habits, Law, Ramp, Rate, Retransmission, Stream};
use socket::Clock;

use super::{
    Refusal,
    carrier::Carrier,
    drive::{Drive, Limits, Units},
    html,
    outcome::{Files, Outcome, counts, latencies},
    peak::{self, Criterion},
    signals::Signals,
    sockets, values,
};
use crate::progress::Progress;

/// Make calls and measure how they end
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard load call --to 127.0.0.1:5060 --rate 1000 --duration 30s
  sipyard load call --to edge:5060 --rate 200 --holding normal:20s,10s --html calls.html
  sipyard load call --to edge:5060 --ramp 100..2000:100/10s --json -
  sipyard load call --to edge:5060 --window 100 --calls 100000
  sipyard load call --to edge:5060 --rate 500 --reinvite 5% --cancel 2% --abandon 1%
  sipyard load call --to edge:5060 --users 1000 --domain example.com --rate 100 --duration 1m
  sipyard load call --to edge:5060 --find-peak
  sipyard load call --to edge:5061 --transport tls --server-name edge --connections 4 --rate 500

A call is INVITE, 200, ACK, the holding time, BYE, 200. Latencies count from the time at which a
call was due to start, so a late start adds to them. The first Ctrl-C lets the calls in progress
end, the second cuts them off.

Exit code: 0; 1 if fewer than --success of the calls went as planned; 2 for wrong arguments.")]
pub(super) struct Call {
    /// Where to send INVITEs, such as 127.0.0.1:5060
    #[arg(long, value_name = "ADDRESS", value_parser = values::address)]
    to: SocketAddr,
    /// The addresses to call from, separated by commas [default: the one that reaches --to]
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',', value_parser = values::own_address)]
    from: Vec<SocketAddr>,
    /// Number of ports to call from at each address
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    ports: u16,
    #[command(flatten)]
    pace: Pace,
    /// How calls are spaced: even, poisson, or bursty:RATIO,CALM,BURST. In bursty:10,9s,1s, bursts
    /// last 1 s on average, calm times 9 s, and the rate of a burst is 10 times that of the calm
    #[arg(long, default_value = "poisson", value_parser = values::stream, conflicts_with = "window")]
    arrivals: Stream,
    /// Number of calls
    #[arg(long, value_name = "NUMBER", conflicts_with = "find_peak")]
    calls: Option<u64>,
    /// How long to start calls, such as 30s or 5m. With --find-peak, how long to try each rate
    /// [default with --find-peak: 60s]; 10s may find a peak that is a tenth too high
    #[arg(long, value_name = "TIME", value_parser = settings::duration)]
    duration: Option<Duration>,
    /// The time from the answer to the BYE, fixed or random: 20s, exponential:20s, normal:20s,10s,
    /// log-normal:20s,10s
    #[arg(long, value_name = "LAW", default_value = "0s", value_parser = values::law)]
    holding: Law,
    /// The share of calls that send a re-INVITE in the middle of the holding time, such as 5%
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = settings::share)]
    reinvite: f64,
    /// The share of calls that the caller cancels while they ring
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = settings::share)]
    cancel: f64,
    /// The share of calls whose caller vanishes without a BYE
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = settings::share)]
    abandon: f64,
    /// Whether to retransmit requests, and how long to wait for answers
    #[arg(long, default_value = "rfc3261")]
    timers: Timers,
    /// The domain of the users to call
    #[arg(long, default_value = "example.com")]
    domain: String,
    /// Number of users, user-0 and so on; each call goes to a random one
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    users: u32,
    /// The password of `caller`, the user who calls, to answer a challenge to an INVITE with
    #[arg(long, value_name = "TEXT")]
    password: Option<String>,
    /// The share of calls that must go as planned for exit code 0
    #[arg(long, value_name = "SHARE", default_value = "99.99%", value_parser = settings::share)]
    success: f64,
    #[command(flatten)]
    carrier: Carrier,
    #[command(flatten)]
    files: Files,
}

/// The rate or number of calls; the command needs one of these.
#[derive(Args)]
#[group(required = true, multiple = true)]
struct Pace {
    /// Calls per second; with --find-peak, the first rate to try
    #[arg(long, value_name = "CALLS/S", value_parser = values::rate, conflicts_with_all = ["ramp", "window"])]
    rate: Option<f64>,
    /// Calls per second that rise or fall in steps: 100..2000:100/10s starts at 100, and adds 100
    /// every 10 s up to 2000
    #[arg(long, value_name = "FROM..TO:STEP/TIME", value_parser = values::ramp, conflicts_with_all = ["window", "find_peak"])]
    ramp: Option<Ramp>,
    /// Number of calls to keep in progress at any time
    #[arg(long, value_name = "CALLS", conflicts_with = "find_peak")]
    window: Option<usize>,
    /// Find the highest rate that the system carries, by this criterion. With either criterion,
    /// half of the calls must also get a response within 500 ms
    #[arg(long, value_name = "CRITERION", num_args = 0..=1, default_missing_value = "success")]
    find_peak: Option<Criterion>,
    /// How much higher each next rate is, as long as the system carries the last one
    #[arg(long, value_name = "SHARE", default_value = "100%", value_parser = values::growth, requires = "find_peak")]
    step: f64,
}

/// Retransmission timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Timers {
    /// Retransmits as in RFC 3261.
    Rfc3261,
    /// No retransmission.
    None,
    /// Does not retransmit. A request that gets no answer within 2 s has failed.
    Sipstone,
}

impl From<Timers> for Retransmission {
    fn from(timers: Timers) -> Self {
        match timers {
            Timers::Rfc3261 => Self::Rfc3261,
            Timers::None => Self::Never,
            Timers::Sipstone => Self::Sipstone,
        }
    }
}

impl Call {
    /// Whether enough calls went as planned, or a peak was found.
    pub(super) fn run(&self) -> Result<bool, Refusal> {
        self.check()?;
        let from = match &*self.from {
            [] => vec![sockets::local(self.to)?],
            from => from.to_vec(),
        };
        let ends = self.carrier.ends(&from, self.ports, self.to, 1)?;
        let clock = Clock::start();
        let signals = Signals::listen()?;
        let config = self.config(ends.addresses());
        let caller = Caller::new(config, Rng::with_seed(socket::seed()), clock.now());
        let drive = Drive::new(caller, ends, clock);
        match self.pace.find_peak {
            Some(criterion) => self.find_peak(criterion, drive, &signals),
            None => self.measure(drive, &signals),
        }
    }

    fn find_peak(
        &self,
        criterion: Criterion,
        mut drive: Drive<Caller>,
        signals: &Signals,
    ) -> Result<bool, Refusal> {
        let search = peak::Search {
            title: format!("The highest rate of calls to {}", self.to),
            units: Units::Calls,
            criterion,
            success: self.success,
            first: self.pace.rate.unwrap_or(100.0),
            growth: 1.0 + self.pace.step,
            duration: self.duration.unwrap_or(peak::DURATION),
        };
        let sockets = drive.addresses();
        let mut rng = Rng::with_seed(socket::seed());
        peak::find(&search, &self.files, |rate, limits, progress| {
            let config = CallerConfig {
                arrivals: Arrivals::Open(Rate::Constant(rate), self.arrivals),
                calls_max: search.tests_max().min(self.calls.unwrap_or(u64::MAX)),
                ..self.config(sockets.clone())
            };
            drive.replace(|now| Caller::new(config, rng.fork(), now));
            Ok(drive.run(limits, signals, progress))
        })
    }

    fn check(&self) -> Result<(), Refusal> {
        let shares = self.reinvite + self.cancel + self.abandon;
        if shares > 1.0 {
            return Err(Refusal::Arguments(
                "the sum of --reinvite, --cancel and --abandon is above 100 %, but they are shares \
                 of the same calls: lower them"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn config(&self, sockets: Vec<SocketAddr>) -> CallerConfig {
        let arrivals = match (self.pace.window, self.pace.ramp, self.pace.rate) {
            (Some(window), ..) => Arrivals::Window(window),
            (_, Some(ramp), _) => Arrivals::Open(Rate::Ramp(ramp), self.arrivals),
            (.., rate) => Arrivals::Open(Rate::Constant(rate.unwrap_or(0.0)), self.arrivals),
        };
        CallerConfig {
            domain: self.domain.clone(),
            users: self.users,
            holding: self.holding,
            calls_max: self.calls.unwrap_or(u64::MAX),
            habits: Habits {
                reinvite: self.reinvite,
                cancel: self.cancel,
                abandon: self.abandon,
            },
            retransmission: self.carrier.retransmission(self.timers.into()),
            transport: self.carrier.transport,
            password: self.password.clone(),
            ..CallerConfig::plain(sockets, self.to, arrivals)
        }
    }

    fn measure(&self, mut drive: Drive<Caller>, signals: &Signals) -> Result<bool, Refusal> {
        let ramp = self.pace.ramp.as_ref().map(Ramp::lasting);
        let limits = Limits {
            duration: self.duration.or(ramp).unwrap_or(Duration::MAX),
            ..Limits::NONE
        };
        let progress = Progress::new();
        let record = drive.run(limits, signals, &progress);
        drop(progress);
        let tables = [counts(&record), latencies(&record)];
        let [first, second] = &tables;
        let outcome = Outcome::of(&record);
        let title = format!("Calls to {}", self.to);
        self.files.write(&[first, second], &outcome, || {
            html::page(&title, &record, tables.clone())
        })?;
        Ok(record.success() >= self.success)
    }
}
