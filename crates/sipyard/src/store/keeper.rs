//! Where a command's records are: in a store that it has opened itself, or with the node that has.

use std::{sync::mpsc::channel, task::Poll};

use ::store::{Error, Put, Store, Value};

use super::{
    Failure,
    fill::{Filled, Record, fill},
    remote::Remote,
};

/// Who reads and writes for a command.
pub(crate) enum Keeper {
    Store(Store),
    Node(Remote),
}

impl Keeper {
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value>, Failure> {
        match self {
            Self::Store(store) => Ok(wait(|done| store.get(key, done))?),
            Self::Node(node) => node.get(key),
        }
    }

    /// Lets `next` be the value of a key if that is what was `seen`.
    pub(crate) fn put(
        &self,
        key: &[u8],
        seen: Option<&Value>,
        next: Option<&Record>,
    ) -> Result<Put, Failure> {
        match self {
            Self::Store(store) => {
                let next = next.map(Record::next);
                Ok(wait(|done| store.put(key, seen, next, done))?)
            }
            Self::Node(node) => node.put(key, seen, next),
        }
    }

    /// The values of all keys that begin with `prefix`.
    pub(crate) fn entries(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Value)>, Failure> {
        match self {
            Self::Store(store) => Ok(store.entries(prefix)?),
            Self::Node(node) => node.entries(prefix),
        }
    }

    /// Stores all records, whatever was there.
    pub(crate) fn fill(&self, records: Vec<Record>) -> Result<Filled, Failure> {
        match self {
            Self::Store(store) => Ok(fill(store, &records)?),
            Self::Node(node) => node.fill(records),
        }
    }
}

/// Takes a store's answer, soon and once.
pub(crate) type Done<T> = Box<dyn FnOnce(Result<T, Error>) + Send>;

fn wait<T: Send + 'static>(
    ask: impl FnOnce(Done<T>) -> Poll<Result<T, Error>>,
) -> Result<T, Error> {
    let (sender, receiver) = channel();
    let done = move |answer| sender.send(answer).expect("the receiver waits");
    match ask(Box::new(done)) {
        Poll::Ready(answer) => answer,
        Poll::Pending => receiver.recv().expect("a store answers"),
    }
}
