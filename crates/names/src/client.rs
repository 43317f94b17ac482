//! The thread that asks the DNS.

use std::{
    collections::{HashMap, hash_map::Entry},
    io,
    net::SocketAddr,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Instant,
};

use hickory_resolver::TokioResolver;
use tokio::{
    runtime,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinSet,
};

use crate::{
    Answer, Count, Error, Limits, Question, Stats,
    cache::Cache,
    dns::{self, Outcome},
};

/// Receives an answer.
pub(crate) type Done = Box<dyn FnOnce(Result<Arc<Answer>, Error>) + Send>;

/// A caller, with its permit to wait.
struct Waiting {
    done: Done,
    _permit: OwnedSemaphorePermit,
}

/// A question, and the callers that wait for its answer; no callers if the question only refreshes
/// the cache.
type Asked = (Question, Option<Waiting>);

pub(crate) struct Client {
    permits: Arc<Semaphore>,
    /// None only during the drop.
    asked: Option<mpsc::UnboundedSender<Asked>>,
    /// Refreshes in progress. They have no caller, so they have a limit of their own.
    refreshes: mpsc::Sender<Question>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    pub(crate) fn start(
        servers: &[SocketAddr],
        limits: Limits,
        cache: Arc<Cache>,
        stats: Arc<Stats>,
    ) -> io::Result<Self> {
        let resolver = dns::resolver(servers, &limits)?;
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let permits = Arc::new(Semaphore::new(limits.queue));
        let (asked, incoming) = mpsc::unbounded_channel();
        let (refreshes, due) = mpsc::channel(limits.lookups);
        let asker = Asker {
            resolver,
            limits,
            cache,
            stats,
            open: HashMap::new(),
            lookups: JoinSet::new(),
        };
        let thread = thread::Builder::new()
            .name("names".into())
            .spawn(move || runtime.block_on(asker.run(incoming, due)))?;
        Ok(Self {
            permits,
            asked: Some(asked),
            refreshes,
            thread: Some(thread),
        })
    }

    /// Calls `done` when the answer is there.
    pub(crate) fn ask(&self, question: &Question, done: Done) -> Result<(), Error> {
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        let waiting = Waiting {
            done,
            _permit: permit.map_err(|_| Error::Busy)?,
        };
        let asked = self.asked.as_ref().expect("it is not dropped yet");
        asked.send((question.clone(), Some(waiting))).map_err(|_| {
            Error::Unavailable("the thread that asks it has ended; restart the node".into())
        })
    }

    /// Refreshes an answer of the cache. If there are too many refreshes, a later question tries
    /// again.
    pub(crate) fn refresh(&self, question: &Question) {
        let _ = self.refreshes.try_send(question.clone());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.asked.take());
        if let Some(thread) = self.thread.take() {
            // Nothing is left to be told if it has failed.
            let _ = thread.join();
        }
    }
}

struct Asker {
    resolver: TokioResolver,
    limits: Limits,
    cache: Arc<Cache>,
    stats: Arc<Stats>,
    /// The questions in progress, and their callers.
    open: HashMap<Question, Vec<Waiting>>,
    lookups: JoinSet<(Question, Outcome)>,
}

impl Asker {
    async fn run(
        mut self,
        mut incoming: mpsc::UnboundedReceiver<Asked>,
        mut due: mpsc::Receiver<Question>,
    ) {
        loop {
            tokio::select! {
                asked = incoming.recv() => match asked {
                    Some((question, waiting)) => self.on_asked(question, waiting),
                    None => return,
                },
                Some(question) = due.recv() => self.on_asked(question, None),
                Some(ended) = self.lookups.join_next() => {
                    let (question, outcome) = ended.expect("it only waits, and nobody aborts it");
                    self.on_outcome(question, outcome);
                }
            }
        }
    }

    fn on_asked(&mut self, question: Question, waiting: Option<Waiting>) {
        // Its answer may have come while it waited here.
        if let Some(known) = self.cache.get(&question, Instant::now())
            && !known.is_due
        {
            waiting
                .into_iter()
                .for_each(|it| (it.done)(known.answer.clone()));
            return;
        }
        if !self.open.contains_key(&question) && !self.has_room(&question) {
            self.stats.add(Count::Refused);
            waiting
                .into_iter()
                .for_each(|it| (it.done)(Err(Error::Busy)));
            return;
        }
        match self.open.entry(question) {
            Entry::Occupied(mut open) => open.get_mut().extend(waiting),
            Entry::Vacant(vacant) => {
                let question = vacant.key().clone();
                vacant.insert(waiting.into_iter().collect());
                let (resolver, wait_max) = (self.resolver.clone(), self.limits.wait_max);
                let last = self.cache.last(&question);
                let asked = question.clone();
                let lookup = tokio::spawn(async move {
                    dns::look_up(&resolver, &asked, last.as_deref(), wait_max).await
                });
                self.lookups.spawn(async move {
                    // What strangers' servers send is read by the resolver alone.
                    let panicked = |_| Outcome::failed("can't read its answer");
                    (question, lookup.await.unwrap_or_else(panicked))
                });
            }
        }
    }

    /// Names of one domain leave room for those of others.
    fn has_room(&self, question: &Question) -> bool {
        let parent = question.parent();
        let same = self.open.keys().filter(|open| open.parent() == parent);
        self.open.len() < self.limits.lookups && same.count() < self.limits.lookups.div_ceil(4)
    }

    fn on_outcome(&mut self, question: Question, outcome: Outcome) {
        self.stats.add(match &outcome.answer {
            Ok(answer) if answer.stale.is_none() => Count::Found,
            Err(Error::NotFound) => Count::NotFound,
            Ok(_) | Err(_) => Count::Failed,
        });
        let answer = outcome.answer.map(Arc::new);
        let waiting = self.open.remove(&question);
        let good_until = Instant::now() + outcome.good_for;
        self.cache.put(question, answer.clone(), good_until);
        for waiting in waiting.into_iter().flatten() {
            (waiting.done)(answer.clone());
        }
    }
}
