//! Follows the servers of pools that are configured by name, so that a pool changes without a
//! restart. If a name can't be looked up, the pool keeps the servers that it has.

mod group;
mod lease;
mod registry;

use std::{
    collections::{HashMap, HashSet},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    task::Poll,
    time::Duration,
};

use ::names::{Answer, Names, Question};
use ::store::Value;
use node::{
    Snapshot,
    config::{Pool, PoolServer},
};
use socket::Clock;

use crate::{
    config::{
        Cluster, Configuration, Dns, Source,
        servers::{Origin, fixed},
    },
    resolver::Resolver,
    serve::Control,
    view::{self, ServerState},
};
use group::{Families, Group, announced, groups, is_in_use, ranked};
use lease::Leases;
pub(crate) use registry::is_of_nodes;
use registry::{Registry, TICK};

/// The servers of all pools.
pub(crate) struct Members {
    resolver: Arc<Resolver>,
    clock: Clock,
    /// The store in which nodes announce themselves, if this node has a `[cluster]`.
    registry: Option<Registry>,
    /// Sends the answers to the questions of [`Members::look`].
    tell: mpsc::Sender<Told>,
    state: Mutex<Pools>,
}

struct Pools {
    told: mpsc::Receiver<Told>,
    pools: Vec<(String, Vec<Source>)>,
    families: Families,
    /// Addresses of this node, which no pool may contain: the node would send calls to itself.
    own: Vec<SocketAddr>,
    known: HashMap<Origin, Known>,
}

/// An origin with its news, or with the reason why there is none.
type Told = (Origin, Result<News, String>);

enum News {
    /// An answer of the DNS.
    Answer(Arc<Answer>),
    /// The record of the nodes' announcements.
    Announced(Option<Value>),
}

/// The last known state of an origin.
#[derive(Default)]
struct Known {
    answer: Option<Arc<Answer>>,
    leases: Leases,
    /// The last announced servers. All of their leases may have ended.
    announced: Vec<PoolServer>,
    /// Why this may be out of date.
    problem: Option<String>,
}

impl Members {
    /// # Errors
    /// If the thread that asks the store can't be started.
    pub(crate) fn new(
        configuration: &Configuration,
        resolver: Arc<Resolver>,
        clock: Clock,
    ) -> io::Result<Self> {
        let open = |cluster| Registry::open(cluster, clock);
        let (tell, told) = mpsc::channel();
        Ok(Self {
            resolver,
            clock,
            registry: configuration.cluster.as_ref().map(open).transpose()?,
            tell,
            state: Mutex::new(Pools {
                told,
                pools: Vec::new(),
                families: Families::default(),
                own: Vec::new(),
                known: HashMap::new(),
            }),
        })
    }

    /// The DNS servers and the cluster, as configured at the start.
    pub(crate) fn settings(&self) -> (&Dns, Option<&Cluster>) {
        (
            self.resolver.dns(),
            self.registry.as_ref().map(Registry::cluster),
        )
    }

    /// Announces this node in other nodes' pools and renews its lease. It never returns if the node
    /// has something to announce.
    pub(crate) async fn announce(&self) {
        if let Some(registry) = &self.registry {
            registry.announce().await;
        }
    }

    /// The longest time that [`Self::withdraw`] takes.
    pub(crate) fn withdrawal_max(&self) -> Duration {
        let registry = self.registry.as_ref();
        registry.map_or(Duration::ZERO, Registry::withdrawal_max)
    }

    /// Announces that this node leaves, and waits until the others know. It must go on serving meanwhile: theirs are
    /// the calls that it would refuse.
    pub(crate) async fn withdraw(&self) {
        if let Some(registry) = &self.registry {
            registry.withdraw().await;
        }
    }

    /// The look-ups; none before the first name.
    pub(crate) fn names(&self) -> Option<&Names> {
        self.resolver.started()
    }

    /// Stores the pools of a configuration and fills in their servers. `is_live` says if a pool's
    /// server is live. It waits for names that are not yet known, but no longer than an answer may
    /// take.
    ///
    /// # Errors
    /// If the threads that ask the DNS can't be started.
    pub(crate) fn take_up(
        &self,
        configuration: &mut Configuration,
        is_live: impl Fn(&str, SocketAddr) -> bool,
    ) -> io::Result<()> {
        let is_new = |origin: &&Origin| !self.state().known.contains_key(*origin);
        let sources = configuration.sources.iter().flatten();
        let origins: HashSet<&Origin> = sources.map(|source| &source.origin).collect();
        if origins.iter().any(|origin| question(origin).is_some()) {
            self.resolver.names()?;
        }
        let told = self.ask_all(origins.into_iter().filter(is_new));
        let mut state = self.state();
        for (origin, news) in told {
            state.learn(origin, news, self.clock.now());
        }
        let listeners = &configuration.node.listeners;
        state.families = Families::of(listeners);
        let announced = configuration.cluster.iter().flat_map(|it| &it.announced);
        let listeners = listeners.iter().map(|listener| listener.address);
        state.own = announced
            .map(|it| it.server.address)
            .chain(listeners)
            .collect();
        let names = configuration.node.pools.iter();
        let names = names.map(|pool| pool.name.clone());
        state.pools = names.zip(configuration.sources.clone()).collect();
        let pools = configuration.node.pools.iter_mut();
        for (pool, sources) in pools.zip(&configuration.sources) {
            pool.servers = state.servers(sources, &|address| is_live(&pool.name, address));
        }
        Ok(())
    }

    /// Asks for all origins at the same time and waits, but no longer than one answer may take.
    fn ask_all<'a>(&self, origins: impl Iterator<Item = &'a Origin>) -> Vec<Told> {
        let (tell, told) = mpsc::channel();
        for origin in origins {
            self.ask(origin, &tell);
        }
        drop(tell);
        let patience = self.resolver.dns().timeout + TICK;
        std::iter::from_fn(|| told.recv_timeout(patience).ok()).collect()
    }

    /// Asks for an origin's servers, unless the configuration itself names them.
    fn ask(&self, origin: &Origin, tell: &mpsc::Sender<Told>) {
        let (later, asked) = (tell.clone(), origin.clone());
        // The receiver may be gone: the asker stops waiting after a time.
        let done = move |news| drop(later.send((asked, news)));
        let news = match origin {
            Origin::Address(_) => return,
            Origin::Host(..) | Origin::Service(_) => {
                let (Some(names), Some(question)) = (self.names(), question(origin)) else {
                    return;
                };
                let answered = |answer: Result<_, ::names::Error>| {
                    answer.map(News::Answer).map_err(|error| error.to_string())
                };
                names
                    .ask(&question, move |answer| done(answered(answer)))
                    .map(answered)
            }
            Origin::Pool(name) => {
                let Some(registry) = &self.registry else {
                    return;
                };
                let read = |record: Result<_, ::store::Error>| {
                    record
                        .map(News::Announced)
                        .map_err(|error| error.to_string())
                };
                registry
                    .ask(name, move |record| done(read(record)))
                    .map(read)
            }
        };
        if let Poll::Ready(news) = news {
            let _ = tell.send((origin.clone(), news));
        }
    }

    /// Looks for changes and applies them to the node. It does not wait: an answer that comes later
    /// is applied by a later look.
    pub(crate) fn look(&self, control: &Control) {
        let mut state = self.state();
        let sources = state.pools.iter().flat_map(|(_, sources)| sources);
        for source in sources {
            self.ask(&source.origin, &self.tell);
        }
        while let Ok((origin, news)) = state.told.try_recv() {
            state.learn(origin, news, self.clock.now());
        }
        let changes = |source: &Source| fixed(source).is_none();
        for (pool, sources) in &state.pools {
            if sources.iter().any(changes) {
                state.follow(control, pool, sources);
            }
        }
    }

    /// Where the servers of a pool come from, for display.
    pub(crate) fn view(&self, pool: &Pool) -> Vec<view::Source> {
        let state = self.state();
        let sources = state.pools.iter().find(|(name, _)| *name == pool.name);
        let sources = sources.into_iter().flat_map(|(_, sources)| sources);
        let view = |source: &Source| {
            let known = state.known.get(&source.origin)?;
            let groups = state.groups(source);
            let servers = groups.iter().flatten();
            let is_used = |server: &&PoolServer| {
                let mut used = pool.servers.iter().filter(|used| is_in_use(used));
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

    fn state(&self) -> MutexGuard<'_, Pools> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pools {
    /// Records news of an origin. An answer without servers counts as a mistake, so the current
    /// servers stay.
    fn learn(&mut self, origin: Origin, news: Result<News, String>, now: Duration) {
        let known = self.known.entry(origin.clone()).or_default();
        let problem = known.learn(news, now);
        if problem != known.problem {
            match &problem {
                Some(problem) => tracing::warn!("{origin}: {problem}; the pool keeps its servers"),
                None => tracing::info!("{origin}: its servers are known again"),
            }
            known.problem = problem;
        }
    }

    fn groups(&self, source: &Source) -> Vec<Group> {
        if let Some(server) = fixed(source) {
            return vec![vec![server]];
        }
        let Some(known) = self.known.get(&source.origin) else {
            return Vec::new();
        };
        let mut groups = match &known.answer {
            Some(answer) => groups(&answer.targets, source, self.families),
            None => vec![announced(&known.announced, source.capacity, self.families)],
        };
        for server in groups.iter_mut().flatten() {
            server.cluster.clone_from(&source.cluster);
        }
        groups
    }

    fn servers(&self, sources: &[Source], is_live: &dyn Fn(SocketAddr) -> bool) -> Vec<PoolServer> {
        let mut seen = HashSet::new();
        let all = sources.iter().flat_map(|source| {
            let mut servers = ranked(self.groups(source), is_live);
            if matches!(source.origin, Origin::Host(..)) {
                servers
                    .iter_mut()
                    .for_each(|it| it.priority = source.priority);
            }
            servers
        });
        all.filter(|it| !self.own.contains(&it.address) && seen.insert(it.address))
            .collect()
    }

    /// Sets the servers of a pool to those that its sources now yield.
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

impl Known {
    /// Records the news and returns why the servers may be out of date.
    fn learn(&mut self, news: Result<News, String>, now: Duration) -> Option<String> {
        let problem = match news {
            Ok(News::Answer(answer)) => {
                let stale = answer.stale.as_ref().map(ToString::to_string);
                self.answer = Some(answer);
                return stale;
            }
            Ok(News::Announced(record)) => match lease::read(record.as_deref().unwrap_or_default())
            {
                Some(all) => {
                    self.leases.hear(all, now);
                    None
                }
                None => Some("can't read what its nodes announce".to_owned()),
            },
            Err(problem) => Some(problem),
        };
        if problem.is_some() {
            self.leases.extend(now);
        }
        let servers = self.leases.servers(now);
        if servers.is_empty() {
            return problem.or_else(|| Some("no node announces itself there".to_owned()));
        }
        self.announced = servers;
        problem
    }
}

/// Whether a server may take calls. A server that was not tried yet counts as live.
pub(crate) fn is_live(snapshot: &Snapshot, pool: &str, address: SocketAddr, now: Duration) -> bool {
    let mut members = view::members(snapshot);
    let member = members.find(|it| it.pool == pool && it.address == address);
    !member.is_some_and(|member| {
        let state = view::state_of(member, Duration::ZERO, now);
        matches!(state, ServerState::Down | ServerState::Draining)
    })
}

/// The question for the DNS about an origin, if there is one.
fn question(origin: &Origin) -> Option<Question> {
    match origin {
        Origin::Address(_) | Origin::Pool(_) => None,
        Origin::Host(name, port) => Some(Question::host(name, *port)),
        Origin::Service(name) => Some(Question::service(name)),
    }
}

fn tell(pool: &str, before: &[PoolServer], after: &[PoolServer]) {
    let lacks = |servers: &[PoolServer], address| {
        let mut used = servers.iter().filter(|it| is_in_use(it));
        used.all(|it| it.address != address)
    };
    let new = |old: &[PoolServer], new: &[PoolServer]| -> Vec<String> {
        let used = new.iter().filter(|it| is_in_use(it));
        let new = used.filter(|it| lacks(old, it.address));
        new.map(|server| server.address.to_string()).collect()
    };
    let (come, gone) = (new(before, after), new(after, before));
    let mut news = Vec::new();
    for (what, servers) in [("added", come), ("removed", gone)] {
        if !servers.is_empty() {
            news.push(format!("{what}: {}", servers.join(", ")));
        }
    }
    if news.is_empty() {
        news.push("capacities or the reserve changed".to_owned());
    }
    let used = after.iter().filter(|it| is_in_use(it)).count();
    tracing::info!("pool {pool}: servers: {used}, {}", news.join("; "));
}

/// Follows the names while the node runs.
pub(crate) async fn watch(control: Arc<Control>) {
    let mut tick = tokio::time::interval(TICK);
    loop {
        tick.tick().await;
        control.members().look(&control);
    }
}
