//! Who is in a pool whose servers have names: followed while the node runs, so that a pool changes
//! without a restart. What can't be had at present is as it was.

mod group;

use std::{
    collections::{HashMap, HashSet},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc},
    task::Poll,
    time::Duration,
};

use ::names::{Answer, Error, Limits, Names, Question};
use node::{
    Snapshot,
    config::{Pool, PoolServer},
};

use crate::{
    config::{Configuration, Dns, Source, servers::Origin},
    serve::Control,
    view::{self, ServerState},
};
use group::{Families, Group, groups, in_use};

/// How often it is looked for changes: of the DNS, and of the health that says how many groups are
/// in use. Mostly it is a look into a cache.
const TICK: Duration = Duration::from_millis(200);

/// The servers of all pools.
pub(crate) struct Members {
    dns: Dns,
    /// Started when a name is there to be asked for.
    names: OnceLock<Names>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pools: Vec<(String, Vec<Source>)>,
    families: Families,
    known: HashMap<Origin, Known>,
}

/// What is known of an origin.
#[derive(Default)]
struct Known {
    answer: Option<Arc<Answer>>,
    /// Why that may be out of date.
    problem: Option<String>,
}

impl Members {
    pub(crate) fn new(dns: &Dns) -> Self {
        Self {
            dns: dns.clone(),
            names: OnceLock::new(),
            state: Mutex::default(),
        }
    }

    /// Who is asked.
    pub(crate) fn dns(&self) -> &Dns {
        &self.dns
    }

    /// The look-ups, once a name was asked for.
    pub(crate) fn names(&self) -> Option<&Names> {
        self.names.get()
    }

    /// Takes up the pools of a configuration, and fills in their servers; `is_live` tells it of a pool's
    /// server. Waits for names that are not yet known, but no longer than an answer may take.
    ///
    /// # Errors
    /// There is nobody to ask.
    pub(crate) fn take_up(
        &self,
        configuration: &mut Configuration,
        is_live: impl Fn(&str, SocketAddr) -> bool,
    ) -> io::Result<()> {
        let is_new = |origin: &&Origin| !self.state().known.contains_key(*origin);
        let sources = configuration.sources.iter().flatten();
        let named = sources.map(|source| &source.origin);
        let named: HashSet<&Origin> = named.filter(|origin| question(origin).is_some()).collect();
        if !named.is_empty() {
            self.start_names()?;
        }
        let answers = self.ask_all(named.into_iter().filter(is_new));
        let mut state = self.state();
        for (origin, answer) in answers {
            state.learn(&origin, answer);
        }
        state.families = Families::of(&configuration.node.listeners);
        let names = configuration.node.pools.iter();
        let names = names.map(|pool| pool.name.clone());
        state.pools = names.zip(configuration.sources.clone()).collect();
        let pools = configuration.node.pools.iter_mut();
        for (pool, sources) in pools.zip(&configuration.sources) {
            pool.servers = state.servers(sources, &|address| is_live(&pool.name, address));
        }
        Ok(())
    }

    fn start_names(&self) -> io::Result<()> {
        if self.names.get().is_none() {
            let limits = Limits {
                wait_max: self.dns.timeout,
                ..Limits::default()
            };
            let names = Names::start(&self.dns.servers, limits)?;
            // Whoever was faster has started the same.
            let _ = self.names.set(names);
        }
        Ok(())
    }

    fn ask_all<'a>(
        &self,
        origins: impl Iterator<Item = &'a Origin>,
    ) -> Vec<(Origin, Result<Arc<Answer>, Error>)> {
        let Some(names) = self.names() else {
            return Vec::new();
        };
        let (sender, receiver) = mpsc::channel();
        for origin in origins {
            let Some(question) = question(origin) else {
                continue;
            };
            let (later, asked) = (sender.clone(), origin.clone());
            let answer = names.ask(&question, move |answer| {
                // Whoever asked may have lost patience.
                let _ = later.send((asked, answer));
            });
            if let Poll::Ready(answer) = answer {
                let _ = sender.send((origin.clone(), answer));
            }
        }
        drop(sender);
        // All are asked at the same time, and each is answered within its own.
        let patience = self.dns.timeout + TICK;
        std::iter::from_fn(|| receiver.recv_timeout(patience).ok()).collect()
    }

    /// Looks for changes, and lets the node have them.
    pub(crate) fn look(&self, control: &Control) {
        let mut state = self.state();
        state.ask(self.names());
        for (pool, sources) in &state.pools {
            if sources
                .iter()
                .any(|source| question(&source.origin).is_some())
            {
                state.follow(control, pool, sources);
            }
        }
    }

    /// Where the servers of a pool come from, for people.
    pub(crate) fn view(&self, pool: &Pool) -> Vec<view::Source> {
        let state = self.state();
        let sources = state.pools.iter().find(|(name, _)| *name == pool.name);
        let sources = sources.into_iter().flat_map(|(_, sources)| sources);
        let view = |source: &Source| {
            let known = state.known.get(&source.origin)?;
            let groups = state.groups(source);
            let servers = groups.iter().flatten();
            let is_used = |server: &&PoolServer| {
                let mut used = pool.servers.iter();
                used.any(|used| used.address == server.address)
            };
            let used = servers.clone().filter(is_used).count();
            Some(view::Source {
                name: source.origin.to_string(),
                used,
                reserve: servers.count() - used,
                problem: known.problem.clone(),
            })
        };
        sources.filter_map(view).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Asks for what may have changed. What has to be waited for is there at another look.
    fn ask(&mut self, names: Option<&Names>) {
        let sources = self.pools.iter().flat_map(|(_, sources)| sources);
        let origins: Vec<Origin> = sources.map(|source| source.origin.clone()).collect();
        for origin in origins {
            let (Some(names), Some(question)) = (names, question(&origin)) else {
                continue;
            };
            if let Poll::Ready(answer) = names.ask(&question, |_| ()) {
                self.learn(&origin, answer);
            }
        }
    }

    /// Keeps an answer. One without servers is taken for a mistake: those that are there stay.
    fn learn(&mut self, origin: &Origin, answer: Result<Arc<Answer>, Error>) {
        let known = self.known.entry(origin.clone()).or_default();
        let problem = match answer {
            Ok(answer) => {
                let stale = answer.stale.as_ref().map(ToString::to_string);
                known.answer = Some(answer);
                stale
            }
            Err(error) => Some(error.to_string()),
        };
        if problem != known.problem {
            match &problem {
                Some(problem) => tracing::warn!("{origin}: {problem}; its servers stay"),
                None => tracing::info!("{origin} is found again"),
            }
            known.problem = problem;
        }
    }

    fn groups(&self, source: &Source) -> Vec<Group> {
        if let Some(server) = crate::config::servers::fixed(source) {
            return vec![vec![server]];
        }
        let answer = self.known.get(&source.origin);
        let answer = answer.and_then(|known| known.answer.as_ref());
        answer.map_or_else(Vec::new, |answer| {
            groups(&answer.targets, source.capacity, self.families)
        })
    }

    fn servers(&self, sources: &[Source], is_live: &dyn Fn(SocketAddr) -> bool) -> Vec<PoolServer> {
        let mut seen = HashSet::new();
        let all = sources.iter().flat_map(|source| {
            let groups = self.groups(source);
            in_use(groups, is_live)
        });
        all.filter(|server| seen.insert(server.address)).collect()
    }

    /// Lets a pool have the servers that it should.
    fn follow(&self, control: &Control, pool: &str, sources: &[Source]) {
        let snapshot = control.shared().snapshot();
        let configured = snapshot.config().pools.iter().find(|it| it.name == pool);
        let Some(before) = configured.map(|pool| &pool.servers) else {
            return;
        };
        let now = control.now();
        let servers = self.servers(sources, &|it| is_live(&snapshot, pool, it, now));
        if servers == *before {
            return;
        }
        tell(pool, before, &servers);
        if let Err(error) = control.shared().set_servers(pool, servers, now) {
            tracing::error!("pool {pool}: {error}");
        }
    }
}

/// Whether a server may take calls; one that nobody has tried yet is taken to.
pub(crate) fn is_live(snapshot: &Snapshot, pool: &str, address: SocketAddr, now: Duration) -> bool {
    let mut members = view::members(snapshot);
    let member = members.find(|it| it.pool == pool && it.address == address);
    !member.is_some_and(|member| {
        let state = view::state_of(member, Duration::ZERO, now);
        matches!(state, ServerState::Down | ServerState::Draining)
    })
}

/// What the DNS is asked for an origin, if it is.
fn question(origin: &Origin) -> Option<Question> {
    match origin {
        Origin::Address(_) => None,
        Origin::Host(name, port) => Some(Question::host(name, *port)),
        Origin::Service(name) => Some(Question::service(name)),
    }
}

fn tell(pool: &str, before: &[PoolServer], after: &[PoolServer]) {
    let lacks = |servers: &[PoolServer], address| servers.iter().all(|it| it.address != address);
    let new = |old: &[PoolServer], new: &[PoolServer]| -> Vec<String> {
        let addresses = new.iter().map(|server| server.address);
        let new = addresses.filter(|address| lacks(old, *address));
        new.map(|address| address.to_string()).collect()
    };
    let (come, gone) = (new(before, after), new(after, before));
    let mut news = Vec::new();
    for (what, servers) in [("come", come), ("gone", gone)] {
        if !servers.is_empty() {
            news.push(format!("{what}: {}", servers.join(", ")));
        }
    }
    if news.is_empty() {
        news.push("other capacities".to_owned());
    }
    tracing::info!(
        "pool {pool} has {} servers, {}",
        after.len(),
        news.join("; ")
    );
}

/// Follows the names for as long as the node runs.
pub(crate) async fn watch(control: Arc<Control>) {
    let mut tick = tokio::time::interval(TICK);
    loop {
        tick.tick().await;
        control.members().look(&control);
    }
}
