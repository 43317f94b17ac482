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
mod error;
mod file;
mod log;
mod redis;
mod request;
mod table;

use std::{sync::Arc, task::Poll, time::Duration};

pub use address::{Address, RedisAddress};
pub use entry::{Next, Value};
pub use error::{Error, OpenError};
pub use request::{Limits, Put};

use entry::Entry;
use file::{Change, Writer};
use redis::Client;
use request::Now;
use table::Table;

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
