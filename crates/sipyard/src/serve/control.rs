//! The questions and changes that an operator can send to a running node.

use std::{
    fs, mem,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use net::Workers;
use node::{Node, Outbox, Shared, config::Config};
use socket::Clock;
use store::Store;
use tokio::{sync::oneshot, time::timeout};
use tracing_subscriber::filter::Targets;

use super::logging::Levels;
use crate::{
    admin::Places,
    calls::Recording,
    config::{self, Admin, Configuration, Nftables},
    dashboard::{history::History, live::Live, log::Lines, servers::Servers},
    members::{self, Members},
};

/// How long a worker may take to answer. It checks for questions every 10 ms unless it is
/// overloaded.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// The running node, for signals and the admin API.
pub(crate) struct Control {
    path: PathBuf,
    clock: Clock,
    workers: Workers,
    shared: Arc<Shared>,
    members: Members,
    /// Locked while a reload is in progress.
    reloading: Mutex<()>,
    /// The settings of the start, which a reload can't change.
    worker_threads: usize,
    store_address: Option<store::Address>,
    store: Option<Arc<Store>>,
    admin: Mutex<Admin>,
    nftables: Option<Nftables>,
    calls: Arc<Recording>,
    servers: Servers,
    history: History,
    /// Of connections to the admin API.
    places: Arc<Places>,
    live: Arc<Live>,
    log: Lines,
    levels: Option<Levels>,
    /// How long the end of the node waits for open calls.
    drain_calls: Mutex<Duration>,
    /// The file as it was loaded, and what it says in a line.
    loaded: Mutex<(String, String)>,
}

/// Why a configuration was refused.
pub(crate) struct Refusal {
    /// The file is valid, but changes a setting that is fixed at the start.
    pub(crate) needs_restart: bool,
    /// All problems of the file.
    pub(crate) problems: Vec<String>,
}

impl Control {
    pub(crate) fn new(
        path: PathBuf,
        configuration: &Configuration,
        shared: Arc<Shared>,
        members: Members,
        store: Option<Arc<Store>>,
        workers: Workers,
        clock: Clock,
    ) -> Self {
        let text = fs::read_to_string(&path).unwrap_or_default();
        Self {
            drain_calls: Mutex::new(configuration.drain_calls),
            loaded: Mutex::new((text, configuration.summary())),
            path,
            clock,
            workers,
            shared,
            members,
            reloading: Mutex::default(),
            worker_threads: configuration.workers,
            store_address: store_of(configuration),
            store,
            admin: Mutex::new(configuration.admin.clone()),
            nftables: configuration.nftables.clone(),
            calls: Arc::new(Recording::new(
                &configuration.node.name,
                configuration.calls.clone(),
            )),
            servers: Servers::default(),
            history: History::default(),
            places: Arc::default(),
            live: Arc::default(),
            log: Lines::default(),
            levels: None,
        }
    }

    /// The same, which shows these lines of the log and changes its levels.
    pub(crate) fn with_log(mut self, log: Lines, levels: Levels) -> Self {
        self.log = log;
        self.levels = Some(levels);
        self
    }

    /// Logs by these levels from now on.
    pub(crate) fn set_levels(&self, levels: Targets) -> bool {
        let reloaded = self.levels.as_ref().map(|handle| handle.reload(levels));
        reloaded.is_some_and(|done| done.is_ok())
    }

    /// The configuration, the servers and the counters.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The servers of the pools.
    pub(crate) fn members(&self) -> &Members {
        &self.members
    }

    /// The address of the registrar's store.
    pub(crate) fn store_address(&self) -> Option<&store::Address> {
        self.store_address.as_ref()
    }

    /// The registrar's records.
    pub(crate) fn store(&self) -> Option<&Arc<Store>> {
        self.store.as_ref()
    }

    /// The threads that carry calls.
    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
    }

    /// The latest calls.
    pub(crate) fn calls(&self) -> &Arc<Recording> {
        &self.calls
    }

    /// The latest changes of the servers' health.
    pub(crate) fn servers(&self) -> &Servers {
        &self.servers
    }

    /// The last hour and day.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// The places of connections to the admin API.
    pub(crate) fn places(&self) -> &Arc<Places> {
        &self.places
    }

    /// The state that those see who look.
    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// The latest lines of the log.
    pub(crate) fn log(&self) -> &Lines {
        &self.log
    }

    /// The clock of the workers.
    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// The sockets of the admin API, and the tokens in force.
    pub(crate) fn admin(&self) -> Admin {
        self.locked_admin().clone()
    }

    fn locked_admin(&self) -> MutexGuard<'_, Admin> {
        let locked = self.admin.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    /// The sets of nftables that hold the banned sources.
    pub(crate) fn nftables(&self) -> Option<&Nftables> {
        self.nftables.as_ref()
    }

    /// Asks every worker; returns fewer answers if a worker is too busy.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl Fn(&Node, Duration) -> T + Clone + Send + 'static,
    ) -> Vec<T> {
        let mut answers = Vec::new();
        let asked: Vec<_> = (0..self.shared.workers().len())
            .filter_map(|worker| {
                let (sender, receiver) = oneshot::channel();
                let question = question.clone();
                let command = Box::new(move |node: &mut Node, now: Duration, _: &mut Outbox| {
                    // Whoever asked may have gone away.
                    let _ = sender.send(question(node, now));
                });
                self.workers.command(worker, command).ok()?;
                Some(receiver)
            })
            .collect();
        for receiver in asked {
            if let Ok(Ok(answer)) = timeout(ANSWER_MAX, receiver).await {
                answers.push(answer);
            }
        }
        answers
    }

    /// Reloads the file: it applies all of the file or nothing, and logs which. It may wait for
    /// names, so call it on a thread of its own.
    pub(crate) async fn reload(self: &Arc<Self>) -> Result<String, Refusal> {
        let control = Arc::clone(self);
        let reloaded = tokio::task::spawn_blocking(move || control.reload_here());
        reloaded.await.expect("a reload does not panic")
    }

    fn reload_here(&self) -> Result<String, Refusal> {
        let _alone = self
            .reloading
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let outcome = self.try_reload();
        match &outcome {
            Ok(done) => tracing::info!("{done}"),
            Err(refusal) => {
                for problem in &refusal.problems {
                    tracing::error!("{problem}");
                }
                tracing::error!(
                    "reload refused, so the configuration is unchanged: correct the problems and \
                     reload again"
                );
            }
        }
        outcome
    }

    fn try_reload(&self) -> Result<String, Refusal> {
        let mut next = config::load(&self.path).map_err(|problems| Refusal {
            needs_restart: false,
            problems: problems.iter().map(ToString::to_string).collect(),
        })?;
        let changed = self.changed_for_good(&next);
        if !changed.is_empty() {
            return Err(self.needs_restart(&changed));
        }
        let calls = mem::take(&mut next.calls);
        let (text, summary) = (
            fs::read_to_string(&self.path).unwrap_or_default(),
            next.summary(),
        );
        let done = format!("reloaded: {summary}");
        let drain_calls = next.drain_calls;
        let (snapshot, now) = (self.shared.snapshot(), self.now());
        let is_live = |pool: &str, address| members::is_live(&snapshot, pool, address, now);
        let taken_up = self.members.take_up(&mut next, is_live);
        taken_up.map_err(|error| Refusal {
            needs_restart: false,
            problems: vec![format!("{}: {error}", self.path.display())],
        })?;
        match self.shared.reload(next.node, self.now()) {
            Ok(()) => {
                self.workers.secure(next.security);
                {
                    let mut admin = self.locked_admin();
                    admin.tokens = next.admin.tokens;
                    admin.tls = next.admin.tls;
                }
                self.calls.reload(calls);
                *self
                    .drain_calls
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = drain_calls;
                let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
                *loaded = (text, summary);
                Ok(done)
            }
            Err(error) => Err(Refusal {
                needs_restart: true,
                problems: vec![format!("{}: {error}", self.path.display())],
            }),
        }
    }

    /// How long the end of the node waits for open calls.
    pub(crate) fn drain_calls(&self) -> Duration {
        *self
            .drain_calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The text of the file as it was loaded, and what it says in a line.
    pub(crate) fn loaded(&self) -> (String, String) {
        let loaded = self.loaded.lock();
        loaded.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The settings that differ and are fixed at the start.
    pub(crate) fn changed_for_good(&self, next: &Configuration) -> Vec<&'static str> {
        let snapshot = self.shared.snapshot();
        let (old, new): (&Config, &Config) = (snapshot.config(), &next.node);
        let (dns, cluster) = self.members.settings();
        let admin = self.admin();
        [
            ("node.secret", old.secret != new.secret),
            ("node.workers", self.worker_threads != next.workers),
            ("listen", old.listeners != new.listeners),
            ("limits", old.limits != new.limits),
            ("connections", old.connections != new.connections),
            ("registrar.store", self.store_address != store_of(next)),
            ("admin.address", admin.address != next.admin.address),
            ("admin.socket", admin.socket != next.admin.socket),
            ("abuse.nftables", self.nftables != next.nftables),
            ("dns", *dns != next.dns),
            ("cluster", cluster != next.cluster.as_ref()),
        ]
        .into_iter()
        .filter_map(|(key, changed)| changed.then_some(key))
        .collect()
    }

    fn needs_restart(&self, keys: &[&str]) -> Refusal {
        let path = self.path.display();
        let problem =
            |key: &&str| format!("{path}: {key} has changed; restart the node to apply it");
        Refusal {
            needs_restart: true,
            problems: keys.iter().map(problem).collect(),
        }
    }
}

fn store_of(configuration: &Configuration) -> Option<store::Address> {
    let registrar = configuration.registrar.as_ref()?;
    Some(registrar.store.clone())
}
