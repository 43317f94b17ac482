//! `sipyard serve`: runs a node from its configuration to an orderly end.

mod answers;
mod bind;
mod connections;
mod control;
mod health;
mod logging;
mod manager;
mod overload;
mod strangers;
mod unix;

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use node::{Shared, stats::WorkerStats};
use settings::{Place, Problem, refuse, value::show};
use socket::Clock;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{interval, timeout},
};
use tracing_subscriber::filter::Targets;

pub(crate) use control::Control;
pub(crate) use unix::UnixSocket;

pub(crate) use logging::{Levels, MESSAGES, levels, tells_messages};

use answers::Answers;
use bind::{AdminSockets, Running};
use logging::Format;

use crate::{
    admin, calls, config,
    dashboard::{keeper, log::Lines},
    members::{self, Members},
    resolver::Resolver,
};

/// How often a draining node checks if it may stop.
const DRAIN_TICK: Duration = Duration::from_millis(50);

/// Run a node
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard serve /etc/sipyard/sipyard.toml
  SIPYARD_LOG=debug sipyard serve --config edge.toml

Signals: SIGHUP reloads the configuration. After SIGTERM or SIGINT the node takes no new calls,
waits for its open calls (at most node.drain_calls) and transactions (at most timers.drain) and
stops; a second signal stops it at once.
SIGUSR2 stops it at once, too, for a next process that gets its sockets from the service manager: what
arrives in between waits in them.
Exit code: 0 after an orderly stop, 2 if the configuration has a mistake or a port can't be used.")]
pub(crate) struct Serve {
    /// The configuration file
    #[arg(value_name = "FILE", required_unless_present = "config")]
    file: Option<PathBuf>,
    /// The configuration file
    #[arg(long, short, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// What to log to standard error: off, error, warn, info, debug or trace; or by subject, such as
    /// info,messages=debug for the way of each message
    #[arg(
        long,
        value_name = "LEVEL",
        env = "SIPYARD_LOG",
        default_value = "info",
        value_parser = logging::levels
    )]
    log: Targets,
    /// How the log's lines look [default: journal if standard error is the systemd journal, else text]
    #[arg(long, value_name = "FORMAT", value_enum)]
    log_format: Option<Format>,
}

impl Serve {
    /// Runs the node until a signal ends it.
    pub(crate) fn run(self) -> ExitCode {
        let (log, levels) = logging::begin(self.log.clone(), self.log_format);
        match self.start(log, levels) {
            Ok(started) => started.serve(),
            Err(problems) => refuse(problems),
        }
    }

    /// Loads the configuration, binds the sockets and starts everything; on a mistake, it starts
    /// nothing.
    fn start(self, log: Lines, levels: Levels) -> Result<Started, Vec<Problem>> {
        let path = self.file.or(self.config).unwrap_or_default();
        let mut configuration = config::load(&path)?;
        let inherited = socket::inherited();
        let admin = bind::admin(&configuration, &inherited)?;
        let store = bind::store(&path, &configuration)?;
        let clock = Clock::start();
        let resolver = Arc::new(Resolver::new(configuration.dns.clone()));
        let members = Members::new(&configuration, Arc::clone(&resolver), clock)
            .and_then(|members| {
                members.take_up(&mut configuration, |_, _| true)?;
                Ok(members)
            })
            .map_err(|error| vec![Place::file(&path).problem(error.to_string())])?;
        let answers = Answers::new(store.clone(), resolver);
        let Running {
            shared,
            workers,
            journal,
        } = bind::workers(&path, &configuration, clock, answers, inherited)?;
        let news = format!(
            "{} {} has started, {} workers: {} and {}",
            configuration.node.name,
            env!("CARGO_PKG_VERSION"),
            shared.workers().len(),
            configuration.summary(),
            configuration.admin.socket.display()
        );
        let next = next_steps(&path, &configuration);
        let control = Control::new(path, &configuration, shared, members, store, workers, clock)
            .with_log(log, levels);
        let snapshot = control.shared().snapshot();
        control.calls().recover(&snapshot, journal);
        Ok(Started {
            control: Arc::new(control),
            admin,
            news,
            next,
        })
    }
}

/// A node whose workers run.
struct Started {
    control: Arc<Control>,
    admin: AdminSockets,
    /// The line that the log shows when the node handles signals.
    news: String,
    /// What an operator may do next.
    next: String,
}

/// What somebody who has just started a node can do with it.
fn next_steps(path: &Path, configuration: &config::Configuration) -> String {
    let port = configuration.admin.address.port();
    let socket = &configuration.admin.socket;
    let usual = port == config::ADMIN_PORT && *socket == admin_client::default_socket(port);
    let at = match usual {
        true => String::new(),
        false => format!("--admin {} ", socket.display()),
    };
    let add = match &configuration.registrar {
        Some(registrar) => {
            let domain = registrar
                .rules
                .domains
                .first()
                .map_or("DOMAIN", String::as_str);
            format!(
                "`sipyard user add --config {} alice@{domain}` adds a user; ",
                path.display()
            )
        }
        None => String::new(),
    };
    format!(
        "next: {add}`sipyard ctl {at}status` shows servers and calls; `sipyard ctl {at}reload` takes up a changed file"
    )
}

impl Started {
    /// Answers signals and the admin API until the end.
    fn serve(self) -> ExitCode {
        // The runtime holds the control, the control the workers: when the one is gone, so are all.
        let outcome = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .and_then(|runtime| runtime.block_on(self.run()));
        match outcome {
            Ok(()) => {
                tracing::info!("stopped");
                ExitCode::SUCCESS
            }
            Err(error) => {
                tracing::error!("stopped: {error}");
                ExitCode::FAILURE
            }
        }
    }

    /// Runs the control thread: the admin API, signals, and the log of the servers' health.
    async fn run(self) -> io::Result<()> {
        let control = self.control;
        let AdminSockets { tcp, unix } = self.admin;
        let tcp = tokio::net::TcpListener::from_std(tcp)?;
        let socket = unix.listener()?;
        let mut stop = Stop::new()?;
        let mut reload = signal(SignalKind::hangup())?;
        let mut leave = signal(SignalKind::user_defined2())?;
        calls::watch::begin(&control).await;
        tracing::info!("{}", self.news);
        tracing::info!("{}", self.next);
        admin::spawn(&control, tcp, socket);
        tokio::spawn(health::watch(Arc::clone(&control)));
        tokio::spawn(strangers::watch(Arc::clone(&control)));
        tokio::spawn(connections::watch(Arc::clone(&control)));
        tokio::spawn(overload::watch(Arc::clone(&control)));
        tokio::spawn(members::watch(Arc::clone(&control)));
        tokio::spawn(calls::watch::run(Arc::clone(&control)));
        tokio::spawn(keeper::run(Arc::clone(&control)));
        let announced = Arc::clone(&control);
        let announcing = tokio::spawn(async move { announced.members().announce().await });
        manager::ready(&control, &self.news);
        tokio::spawn(manager::watch(Arc::clone(&control)));
        loop {
            tokio::select! {
                () = stop.asked() => break,
                _ = reload.recv() => {
                    manager::reloading();
                    // The control logs what came of it.
                    let outcome = control.reload().await;
                    manager::reloaded(if outcome.is_ok() { "reloaded" } else { "reload refused" });
                }
                _ = leave.recv() => {
                    announcing.abort();
                    if manager::is_there() {
                        tracing::info!("leaving the sockets to the next process");
                        calls::watch::end(&control).await;
                        return Ok(());
                    }
                    tracing::warn!("no service manager keeps the sockets for the next process");
                    break;
                }
            }
        }
        announcing.abort();
        tokio::select! {
            () = stop.asked() => tracing::warn!("second signal: stopping at once"),
            () = drain(&control) => (),
        }
        calls::watch::end(&control).await;
        Ok(())
    }
}

/// Leaves the pools of other nodes. Then it accepts no new calls and waits for the open ones, and for open
/// transactions, each for a limited time.
async fn drain(control: &Control) {
    let (shared, members) = (control.shared(), control.members());
    let (calls_max, patience) = (
        control.drain_calls(),
        shared.snapshot().config().timers.drain,
    );
    manager::stopping(members.withdrawal_max() + calls_max + patience);
    members.withdraw().await;
    shared.drain();
    let (calls, open) = (open_calls(shared), shared.transactions());
    tracing::info!(
        "draining: {open} open transactions, {}; {calls} open calls, {}",
        show(patience),
        show(calls_max)
    );
    let no_calls = until_none(|| open_calls(shared));
    if timeout(calls_max, no_calls).await.is_err() && !calls_max.is_zero() {
        let calls = open_calls(shared);
        tracing::warn!("{calls} calls are still open: their next requests find no node here");
    }
    let idle = until_none(|| shared.transactions());
    if timeout(patience, idle).await.is_err() {
        let open = shared.transactions();
        tracing::warn!("stopping with {open} transactions still open");
    }
}

/// Calls that are open on this node.
pub(crate) fn open_calls(shared: &Shared) -> u64 {
    let workers = shared.workers().iter();
    workers.map(WorkerStats::sessions_active).sum()
}

/// Waits until two ticks in a row show none of what `open` counts. Workers publish their counts between
/// messages, so a request that arrived when the drain began shows a tick later.
async fn until_none(open: impl Fn() -> u64) {
    let mut tick = interval(DRAIN_TICK);
    let mut idle_ticks = 0;
    while idle_ticks < 2 {
        tick.tick().await;
        idle_ticks = if open() == 0 { idle_ticks + 1 } else { 0 };
    }
}

/// The signals that ask the node to stop.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => (),
            _ = self.interrupt.recv() => (),
        }
    }
}
