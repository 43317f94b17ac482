//! Where the location service keeps its records: in memory, in a file, or in Redis or Valkey.
//!
//! A [`Store`] maps keys to values that end at a time. It looks into neither. A change names the
//! value that it was made upon, and is refused if that has changed since: so neither of two nodes
//! loses the other's update. No call waits: what is known at once is the answer, all else is told
//! later, through what the caller gave along. Whatever can't be done is a named [`Error`].
//!
//! | store | a change is answered when it is | others see it | and it outlives |
//! |---|---|---|---|
//! | `memory` | in memory | at once | nothing |
//! | `file:` | on disk, synced | at once | the process and the machine's power |
//! | `redis://` | in the server's memory | a message later, see [`Limits::age_max`] | as the server is set up |
//!
//! Read [`Store`] first.
//!
//! ```
//! use std::task::Poll;
//! use store::{Address, Limits, Next, Put, Store};
//!
//! let store = Store::open(&Address::Memory, &Limits::default()).expect("memory is always there");
//! let next = Next { value: b"on her phone", expires: None };
//! let put = store.put(b"alice", None, Some(next), |_| ());
//! assert_eq!(put, Poll::Ready(Ok(Put::Stored)));
//! let Poll::Ready(Ok(Some(value))) = store.get(b"alice", |_| ()) else { panic!("it is there") };
//! assert_eq!(*value, *b"on her phone");
//! ```
#![allow(
    clippy::disallowed_methods,
    reason = "values end at times of the wall clock, and the stores' threads wait"
)]

mod address;
mod entry;
mod file;
mod log;
mod redis;
mod table;

use std::{
    fmt, io,
    path::PathBuf,
    sync::{Arc, LazyLock},
    task::Poll,
    time::{Duration, Instant, SystemTime},
};

pub use address::{Address, RedisAddress};
pub use entry::{Next, Value};

use entry::Entry;
use file::{Change, Writer};
use redis::Client;
use table::Table;

/// What bounds a store.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Memory for entries: all of them in `memory` and `file:`, the cached ones of `redis://`. In bytes.
    pub memory_bytes: usize,
    /// Requests that wait for their answer.
    pub queue: usize,
    /// How long a request may wait for Redis.
    pub wait_max: Duration,
    /// How long a cached entry is believed without asking Redis again. Others' changes are known a
    /// message later, but messages can be lost.
    pub age_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            queue: 65_536,
            wait_max: Duration::from_secs(1),
            age_max: Duration::from_secs(30),
        }
    }
}

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Too many requests wait. Try again later.
    Busy,
    /// There is no room for another entry.
    Full,
    /// The key or the value is too long.
    TooLong,
    /// The disk or the server fails; why. A change may have been made all the same.
    Unavailable(Arc<str>),
}

impl Error {
    fn unavailable(why: impl AsRef<str>) -> Self {
        Self::Unavailable(why.as_ref().into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("too many requests wait for the store"),
            Self::Full => f.write_str("the store is full"),
            Self::TooLong => f.write_str("the key or the value is too long for the store"),
            Self::Unavailable(why) => write!(f, "the store is unavailable: {why}"),
        }
    }
}

impl std::error::Error for Error {}

/// Why a store can't be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The file can't be read or written.
    Io(PathBuf, io::Error),
    /// The store's thread can't be started.
    Thread(io::Error),
    /// Another process has the file open.
    InUse(PathBuf),
    /// The file is no store.
    Foreign(PathBuf),
    /// The file is damaged in its middle.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first bad byte's offset.
        from: u64,
        /// The offset from which all may be good again.
        to: u64,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Thread(error) => write!(f, "the store's thread can't be started: {error}"),
            Self::InUse(path) => write!(
                f,
                "{}: another process has it open, such as a running node",
                path.display()
            ),
            Self::Foreign(path) => write!(
                f,
                "{}: not a store's file: name another path, or move it away to begin anew",
                path.display()
            ),
            Self::Damaged { path, from, to } => write!(
                f,
                "{}: damaged between bytes {from} and {to}, so entries are lost: put a backup in its \
                 place, or move it away to begin anew",
                path.display()
            ),
        }
    }
}

impl std::error::Error for OpenError {}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is made.
    Stored,
    /// It is not made: the value is not what was seen, but this one.
    Changed(Option<Value>),
}

/// What is known here of a key, without asking the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing: only the server can tell.
    Unknown,
    /// The key has no value.
    Absent,
    /// The key has this value.
    Value(Value),
}

impl Known {
    fn of(entry: Option<Entry>) -> Self {
        entry.map_or(Self::Unknown, |entry| {
            entry.value().map_or(Self::Absent, Self::Value)
        })
    }
}

/// Takes an answer that comes later, on the store's thread, once. It must not wait.
type Done<T> = Box<dyn FnOnce(Result<T, Error>) + Send>;

/// Both clocks, read once for a request.
#[derive(Clone, Copy, Debug)]
struct Now {
    /// Since the UNIX epoch.
    wall: Duration,
    /// Since the process began; never goes back.
    age: Duration,
}

impl Now {
    fn read() -> Self {
        static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
        let wall = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self {
            wall,
            age: BEGAN.elapsed(),
        }
    }
}

/// A store that any thread may ask.
pub struct Store {
    table: Arc<Table>,
    keeper: Keeper,
}

/// Who makes changes last.
enum Keeper {
    Memory,
    File(Writer),
    Redis(Client),
}

impl Store {
    /// Opens the store at an address. A file is read whole, a server is connected to in the background.
    ///
    /// # Errors
    /// The file can't be used.
    pub fn open(address: &Address, limits: &Limits) -> Result<Self, OpenError> {
        let age_max = match address {
            Address::Memory | Address::File(_) => Duration::MAX,
            Address::Redis(_) => limits.age_max,
        };
        let table = Arc::new(Table::new(limits.memory_bytes, age_max));
        let keeper = match address {
            Address::Memory => Keeper::Memory,
            Address::File(path) => {
                Keeper::File(Writer::open(path, Arc::clone(&table), limits.queue)?)
            }
            Address::Redis(redis) => Keeper::Redis(
                Client::start(redis, Arc::clone(&table), limits).map_err(OpenError::Thread)?,
            ),
        };
        Ok(Self { table, keeper })
    }

    /// How many records are in memory, and their bytes: all that there are, or those in the cache. Records that
    /// have ended count until they are swept.
    pub fn held(&self) -> (usize, usize) {
        self.table.held()
    }

    /// Whether it answers everything at once.
    pub fn answers_at_once(&self) -> bool {
        matches!(self.keeper, Keeper::Memory)
    }

    /// The value of a key: at once if it is known here, else `done` is told, soon and once.
    pub fn get(
        &self,
        key: &[u8],
        done: impl FnOnce(Result<Option<Value>, Error>) + Send + 'static,
    ) -> Poll<Result<Option<Value>, Error>> {
        let client = match &self.keeper {
            Keeper::Memory | Keeper::File(_) => {
                let found = self.table.get(key, Now::read());
                return Poll::Ready(Ok(found.and_then(|entry| entry.value())));
            }
            Keeper::Redis(client) => client,
        };
        match client.cached(key) {
            Known::Value(value) => Poll::Ready(Ok(Some(value))),
            Known::Absent => Poll::Ready(Ok(None)),
            Known::Unknown => later(client.get(key, Box::new(done))),
        }
    }

    /// Returns what Redis told last of a key, at most [`Limits::age_max`] ago. It may have changed since.
    /// A caller uses it if that is better than [`Error::Unavailable`]. The other stores answer every read at once, so
    /// for them it is [`Known::Unknown`].
    pub fn last_known(&self, key: &[u8]) -> Known {
        match &self.keeper {
            Keeper::Memory | Keeper::File(_) => Known::Unknown,
            Keeper::Redis(client) => client.last_known(key),
        }
    }

    /// Lets `next` be the value of a key, or removes it, if the value is what was `seen`. What became of
    /// it is known at once, or else `done` is told, soon and once.
    pub fn put(
        &self,
        key: &[u8],
        seen: Option<&Value>,
        next: Option<Next<'_>>,
        done: impl FnOnce(Result<Put, Error>) + Send + 'static,
    ) -> Poll<Result<Put, Error>> {
        let next = match Entry::new(key, next) {
            Ok(next) => next,
            Err(error) => return Poll::Ready(Err(error)),
        };
        match &self.keeper {
            Keeper::Memory => Poll::Ready(self.table.replace(
                seen.map(|seen| &**seen),
                next,
                Now::read(),
            )),
            Keeper::File(writer) => later(writer.submit(Change {
                seen: seen.cloned(),
                next,
                done: Box::new(done),
            })),
            Keeper::Redis(client) => later(client.put(seen, next, Box::new(done))),
        }
    }

    /// All keys that begin with `prefix` and their values, in the order of the keys. Waits for them: for
    /// commands, not for a node's workers.
    ///
    /// # Errors
    /// The server is unavailable.
    pub fn entries(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Value)>, Error> {
        let mut entries = match &self.keeper {
            Keeper::Memory | Keeper::File(_) => self.table.entries(prefix, Now::read().wall),
            Keeper::Redis(client) => client.entries(prefix)?,
        };
        entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(entries)
    }
}

/// The answer comes later, if the request was handed over.
fn later<T>(submitted: Result<(), Error>) -> Poll<Result<T, Error>> {
    match submitted {
        Ok(()) => Poll::Pending,
        Err(error) => Poll::Ready(Err(error)),
    }
}
