//! The store in Redis or Valkey: a server, the master that sentinels name, or a cluster.
//!
//! One thread sends the requests, all without waiting for earlier answers; each has a time limit.
//! An entry is a string of its own that expires by itself. A script compares, sets and publishes in
//! one step, so that every node drops its copy of the key. If a node gets no reports for more than
//! two seconds, its cached entries are no longer valid, but it can still return the last known
//! ones.

mod backlog;
mod cache;
mod news;
mod stream;
mod topology;

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, LazyLock},
    thread::{self, JoinHandle},
    time::Duration,
};

use redis::{ErrorKind, RedisError, Script, ServerErrorKind, aio::ConnectionLike, cmd};
use tokio::{
    runtime,
    sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc as queue},
    time::{Instant, interval, timeout_at},
};

use crate::{
    Error, Known, Limits, Put, RedisAddress,
    entry::{Entry, Value},
    request::{Done, Now},
    table::Table,
};
use backlog::{Backlog, Request, Waiting};
use cache::Cache;
use news::Writer;
pub use stream::Stream;
use topology::{Failure, Servers};

const PREFIX: &[u8] = b"sipyard:";
/// How long after a failed attempt the next one starts.
const RETRY: Duration = Duration::from_millis(100);
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// How long a command may take to list all entries.
const LIST_MAX: Duration = Duration::from_secs(600);

/// What a server says that is not the master, or does not know its entries yet.
const LEAVE: [ServerErrorKind; 2] = [ServerErrorKind::ReadOnly, ServerErrorKind::BusyLoading];

/// KEYS: the entry's. ARGV: what it was seen as, what it shall be, when it ends, the channel, the news.
/// Absent is empty. Replies with nothing when it was done, else with what the entry is.
static REPLACE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local current = redis.call('GET', KEYS[1]) or ''
         if current ~= ARGV[1] then return current end
         if ARGV[2] == '' then redis.call('DEL', KEYS[1])
         elseif ARGV[3] == '' then redis.call('SET', KEYS[1], ARGV[2])
         else redis.call('SET', KEYS[1], ARGV[2], 'PXAT', ARGV[3]) end
         redis.call('PUBLISH', ARGV[4], ARGV[5])
         return false",
    )
});

/// The thread that connects to the server.
pub(crate) struct Client {
    shared: Arc<Shared>,
    permits: Arc<Semaphore>,
    /// None only during the drop.
    requests: Option<queue::UnboundedSender<Waiting>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    address: RedisAddress,
    wait_max: Duration,
    cache: Arc<Cache>,
    writer: Arc<Writer>,
}

impl Client {
    /// Starts the thread. It connects when it can.
    pub(crate) fn start(
        address: &RedisAddress,
        table: Arc<Table>,
        limits: &Limits,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            address: address.clone(),
            wait_max: limits.wait_max,
            cache: Arc::new(Cache::new(table)),
            writer: Arc::new(Writer::new(RandomState::new().hash_one("writer"))),
        });
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (requests, incoming) = queue::unbounded_channel();
        let run = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("store".into())
            .spawn(move || runtime.block_on(run.run(incoming)))?;
        Ok(Self {
            shared,
            permits: Arc::new(Semaphore::new(limits.queue)),
            requests: Some(requests),
            thread: Some(thread),
        })
    }

    /// Returns the cached value, if it is still valid.
    pub(crate) fn cached(&self, key: &[u8]) -> Known {
        Known::of(self.shared.cache.get(key, Now::read()))
    }

    /// Returns the last known value when the server last answered.
    pub(crate) fn last_known(&self, key: &[u8]) -> Known {
        Known::of(self.shared.cache.last_known(key, Now::read()))
    }

    pub(crate) fn get(&self, key: &[u8], done: Done<Option<Value>>) -> Result<(), Error> {
        let key = key.to_vec();
        self.submit(Request::Get { key, done })
    }

    pub(crate) fn put(
        &self,
        seen: Option<&Value>,
        next: Entry,
        done: Done<Put>,
    ) -> Result<(), Error> {
        let seen = seen.cloned();
        self.submit(Request::Put { seen, next, done })
    }

    fn submit(&self, request: Request) -> Result<(), Error> {
        let permit = Arc::clone(&self.permits)
            .try_acquire_owned()
            .map_err(|_| Error::Busy)?;
        let waiting = Waiting {
            request,
            deadline: Instant::now() + self.shared.wait_max,
            permit,
        };
        let requests = self.requests.as_ref().expect("it is not dropped yet");
        requests
            .send(waiting)
            .map_err(|_| Error::unavailable("the store's thread has ended; restart the node"))
    }

    /// All entries whose keys begin with `prefix`.
    pub(crate) fn entries(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Value)>, Error> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::unavailable(error.to_string()))?;
        let list = async { timeout_at(Instant::now() + LIST_MAX, self.shared.list(prefix)).await };
        match runtime.block_on(list) {
            Ok(listed) => listed.map_err(|failure| Error::unavailable(failure.0)),
            Err(_) => Err(Error::unavailable("the server did not answer in time")),
        }
    }
}

impl Drop for Client {
    /// Waits until all requests so far are answered.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was told when it happened.
            let _ = thread.join();
        }
    }
}

/// Why the thread leaves a connection.
enum End {
    /// Nobody can send requests any more.
    Idle,
    /// The connection fails.
    Broken,
}

/// What to do when a connection fails.
struct Failing {
    broken: Arc<Notify>,
    /// Takes its requests.
    again: queue::UnboundedSender<Waiting>,
}

/// A request is sent.
struct Attempt {
    deadline: Instant,
    permit: OwnedSemaphorePermit,
    failing: Option<Failing>,
}

impl Attempt {
    /// Tells an answer. If the connection has failed and there is time, the request is sent over another one instead.
    fn end<T>(
        self,
        (answer, fails): (Result<T, Error>, bool),
        done: Done<T>,
        request: impl FnOnce(Done<T>) -> Request,
    ) {
        let deadline = self.deadline;
        if let Some(failing) = self.failing.filter(|_| fails) {
            failing.broken.notify_one();
            if Instant::now() < deadline {
                let waiting = Waiting {
                    request: request(done),
                    deadline,
                    permit: self.permit,
                };
                // If nobody receives it, the store is closed.
                let _ = failing.again.send(waiting);
                return;
            }
        }
        // Whoever is told may ask again.
        drop(self.permit);
        done(answer);
    }
}

impl Shared {
    async fn run(self: Arc<Self>, incoming: queue::UnboundedReceiver<Waiting>) {
        let mut backlog = Backlog::new(incoming);
        let mut down = false;
        let mut patience = Instant::now() + self.wait_max;
        loop {
            let why = match self.serve(&mut backlog, &mut down).await {
                Ok(End::Idle) => return,
                Ok(End::Broken) => {
                    patience = Instant::now() + self.wait_max;
                    Failure("the connection failed".into())
                }
                Err(failure) => {
                    if !down {
                        tracing::error!("store: {:?}: {failure}", self.address);
                        down = true;
                    }
                    failure
                }
            };
            let is_known = |key: &[u8]| self.cache.last_known(key, Now::read()).is_some();
            if let End::Idle = backlog.pause(&why.0, patience, is_known).await {
                return;
            }
        }
    }

    /// Connects, and serves requests until the connection fails.
    async fn serve(
        self: &Arc<Self>,
        backlog: &mut Backlog,
        down: &mut bool,
    ) -> Result<End, Failure> {
        let mut address = self.address.clone();
        let servers = address.find(self.wait_max).await?;
        let cluster = match servers {
            Servers::Cluster => Some(address.connect_cluster(self.wait_max).await?),
            Servers::One(..) => None,
        };
        if std::mem::take(down) {
            tracing::info!("store: connected to {:?} again", self.address);
        }
        if let Servers::One(host, _) = &servers {
            address.hosts = vec![host.clone()];
        }
        let (cache, writer) = (Arc::clone(&self.cache), Arc::clone(&self.writer));
        let listening = tokio::spawn(news::listen(address, self.wait_max, cache, writer));
        let end = match (servers, cluster) {
            (Servers::One(_, connection), _) => self.answer(connection, backlog, true).await,
            (Servers::Cluster, Some(connection)) => self.answer(connection, backlog, false).await,
            (Servers::Cluster, None) => End::Broken,
        };
        listening.abort();
        self.cache.stop();
        Ok(end)
    }

    /// Answers requests over a connection, all at the same time. A connection to a cluster repairs
    /// itself.
    async fn answer<C: ConnectionLike + Clone + Send + 'static>(
        self: &Arc<Self>,
        connection: C,
        backlog: &mut Backlog,
        may_break: bool,
    ) -> End {
        let broken = Arc::new(Notify::new());
        let mut ping = interval(PING_INTERVAL);
        let mut open = tokio::task::JoinSet::new();
        loop {
            let work = tokio::select! {
                biased;
                () = broken.notified() => {
                    open.detach_all();
                    return End::Broken;
                }
                _ = ping.tick(), if may_break => None,
                Some(_) = open.join_next() => continue,
                waiting = backlog.next() => match waiting {
                    Some(waiting) => Some(waiting),
                    None => {
                        open.join_all().await;
                        return End::Idle;
                    }
                },
            };
            let (shared, connection) = (Arc::clone(self), connection.clone());
            let failing = may_break.then(|| Failing {
                broken: Arc::clone(&broken),
                again: backlog.again(),
            });
            open.spawn(async move {
                match work {
                    Some(waiting) => shared.handle(connection, waiting, failing).await,
                    None => shared.ping(connection, failing).await,
                }
            });
        }
    }

    async fn ping(&self, mut connection: impl ConnectionLike, failing: Option<Failing>) {
        let ping = cmd("PING");
        let pong = ping.query_async::<redis::Value>(&mut connection);
        let deadline = Instant::now() + self.wait_max;
        let answers = matches!(timeout_at(deadline, pong).await, Ok(Ok(_)));
        if let Some(failing) = failing.filter(|_| !answers) {
            failing.broken.notify_one();
        }
    }

    /// Answers a request. If its connection fails, another one gets it: a change that was made already is found
    /// to be so.
    async fn handle(
        &self,
        connection: impl ConnectionLike + Send,
        waiting: Waiting,
        failing: Option<Failing>,
    ) {
        let Waiting {
            request,
            deadline,
            permit,
        } = waiting;
        let attempt = Attempt {
            deadline,
            permit,
            failing,
        };
        match request {
            Request::Get { key, done } => {
                let got = outcome(timeout_at(deadline, self.get(connection, &key)).await);
                attempt.end(got, done, |done| Request::Get { key, done });
            }
            Request::Put { seen, next, done } => {
                let put = self.put(connection, seen.as_ref(), &next);
                let put = outcome(timeout_at(deadline, put).await);
                if put.0.is_err() {
                    // It may have been made, or will be.
                    self.writer.renew();
                    self.cache.forget(next.key());
                }
                attempt.end(put, done, |done| Request::Put { seen, next, done });
            }
        }
    }

    async fn get(
        &self,
        mut connection: impl ConnectionLike + Send,
        key: &[u8],
    ) -> Result<Option<Value>, RedisError> {
        let ticket = self.cache.ticket(key);
        let found: Option<Vec<u8>> = cmd("GET")
            .arg(name(key))
            .query_async(&mut connection)
            .await?;
        let entry = entry_of(key, found.as_deref())?;
        self.cache.offer(ticket, entry.clone(), Now::read());
        Ok(entry.value())
    }

    async fn put(
        &self,
        mut connection: impl ConnectionLike + Send,
        seen: Option<&Value>,
        next: &Entry,
    ) -> Result<Put, RedisError> {
        let key = next.key();
        let ticket = self.cache.ticket(key);
        let expires = next.value().and_then(|value| value.expires());
        let expires = expires.map_or_else(String::new, |end| end.as_millis().to_string());
        let current: Option<Vec<u8>> = REPLACE
            .key(name(key))
            .arg(seen.map_or(&[][..], Value::entry_bytes))
            .arg(next.value().as_ref().map_or(&[][..], Value::entry_bytes))
            .arg(expires)
            .arg(news::CHANNEL)
            .arg(news::message(self.writer.number(), key))
            .invoke_async(&mut connection)
            .await?;
        let Some(current) = current else {
            self.cache.offer(ticket, next.clone(), Now::read());
            return Ok(Put::Stored);
        };
        let current = Some(&*current).filter(|current| !current.is_empty());
        let current = entry_of(key, current)?;
        self.cache.offer(ticket, current.clone(), Now::read());
        if current == *next {
            return Ok(Put::Stored);
        }
        Ok(Put::Changed(current.value()))
    }

    /// All entries whose keys begin with `prefix`, from every server that has some.
    async fn list(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Value)>, Failure> {
        let pattern = [&glob(&name(prefix)), &b"*"[..]].concat();
        let mut entries = Vec::new();
        for mut master in self.address.masters(self.wait_max).await? {
            let mut cursor = 0u64;
            loop {
                let (next, names): (u64, Vec<Vec<u8>>) = cmd("SCAN")
                    .arg(cursor)
                    .arg("MATCH")
                    .arg(&pattern)
                    .arg("COUNT")
                    .arg(1000)
                    .query_async(&mut master)
                    .await?;
                let mut pipeline = redis::pipe();
                for name in &names {
                    pipeline.get(name);
                }
                let found: Vec<Option<Vec<u8>>> = pipeline.query_async(&mut master).await?;
                for (name, found) in names.iter().zip(found) {
                    let key = &name[PREFIX.len()..];
                    if let Some(value) = entry_of(key, found.as_deref())?.value() {
                        entries.push((key.to_vec(), value));
                    }
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        // A scan may tell a key twice.
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        entries.dedup_by(|(one, _), (other, _)| one == other);
        Ok(entries)
    }
}

/// The answer to a request, and whether its connection fails.
fn outcome<T>(
    result: Result<Result<T, RedisError>, tokio::time::error::Elapsed>,
) -> (Result<T, Error>, bool) {
    match result {
        Ok(Ok(answer)) => (Ok(answer), false),
        Ok(Err(error)) => {
            let fails = !matches!(error.kind(), ErrorKind::Server(kind) if !LEAVE.contains(&kind));
            (Err(Error::unavailable(error.to_string())), fails)
        }
        Err(_) => (
            Err(Error::unavailable("the server did not answer in time")),
            true,
        ),
    }
}

fn name(key: &[u8]) -> Vec<u8> {
    [PREFIX, key].concat()
}

/// A pattern that matches only this text.
fn glob(text: &[u8]) -> Vec<u8> {
    let escaped = |&byte: &u8| {
        let special = b"*?[]\\^".contains(&byte).then_some(b'\\');
        special.into_iter().chain([byte])
    };
    text.iter().flat_map(escaped).collect()
}

/// The entry in the server's answer, which may say that there is no value.
fn entry_of(key: &[u8], bytes: Option<&[u8]>) -> Result<Entry, RedisError> {
    let foreign = || {
        RedisError::from((
            ErrorKind::Parse,
            "a key of the store has a value that the store did not write",
        ))
    };
    match bytes {
        Some(bytes) => Entry::from_bytes(bytes)
            .filter(|entry| entry.key() == key)
            .ok_or_else(foreign),
        None => Entry::new(key, None).map_err(|_| foreign()),
    }
}
