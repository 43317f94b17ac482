//! The store of a location service: in memory, in a file, or in Redis or Valkey.
//!
//! A [`Store`] maps keys to values that expire. It does not interpret keys or values. A change
//! names the value on which it is based. The store refuses it if that value has changed, so no
//! update is lost. No call blocks: the store returns a known answer at once, and delivers any other
//! answer later to the callback of the caller. Every failure is a named [`Error`].
//!
//! | store | a change is answered when it is | others see it | and it outlives |
//! |---|---|---|---|
//! | `memory` | in memory | at once | nothing |
//! | `file:` | on disk, synced | at once | the process and the machine's power |
//! | `redis://` | in the server's memory | a message later, see [`Limits::age_max`] | as the server is set up |
//!
//! A file is its owner's alone. [`Store::open`] refuses one that others may use.
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
mod disk;
mod entry;
mod error;
mod file;
mod log;
mod redis;
mod request;
mod table;

use std::{sync::Arc, task::Poll, time::Duration};

pub use address::{Address, RedisAddress};
pub use disk::check_private;
pub use entry::{Next, Value};
pub use error::{Error, OpenError};
pub use redis::Stream;
pub use request::{Limits, Put};

use entry::Entry;
use file::{Change, Writer};
use redis::Client;
use request::Now;
use table::Table;

/// What is known here of a key, without asking the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing is known: only the server can tell.
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

/// The last maker of changes.
enum Keeper {
    Memory,
    File(Writer),
    Redis(Client),
}

impl Store {
    /// Opens the store at an address. It reads a file completely, and connects to a server in the
    /// background.
    ///
    /// # Errors
    /// If the file can't be used.
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

    /// The number of records in memory and their bytes: all records, or those in the cache. Expired
    /// records count until they are swept.
    pub fn held(&self) -> (usize, usize) {
        self.table.held()
    }

    /// Whether it answers every request at once.
    pub fn answers_at_once(&self) -> bool {
        matches!(self.keeper, Keeper::Memory)
    }

    /// Reads the value of a key: returns it at once if it is known, else calls `done` once.
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

    /// Sets the value of a key to `next`, or removes it, if the present value is the one that was
    /// `seen`. Returns the outcome at once if it is known, else calls `done` once.
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

    /// Returns all keys that begin with `prefix` and their values, in the order of the keys. It
    /// blocks, so commands may use it, but a node's workers may not.
    ///
    /// # Errors
    /// If the server is unavailable.
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
