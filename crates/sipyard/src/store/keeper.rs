//! Gives a command access to records: in a store that the command opened, or through the node that
//! has it open.

use std::{sync::mpsc::channel, task::Poll};

use ::store::{Error, Put, Store, Value};

use super::{
    Failure,
    fill::{Filled, Record, fill},
    remote::Remote,
};
use crate::answer::Done;

/// Reads and writes records for a command.
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

    /// Sets the value of a key to `next` if the present value is the one that was `seen`.
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

    /// Stores all records and replaces those that exist.
    pub(crate) fn fill(&self, records: Vec<Record>) -> Result<Filled, Failure> {
        match self {
            Self::Store(store) => Ok(fill(store, &records)?),
            Self::Node(node) => node.fill(records),
        }
    }
}

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
