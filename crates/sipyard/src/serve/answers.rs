//! The store behind the registrar, as the workers ask it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use net::{Answerer, Reply};
use node::{Answer, Ask, Record};
use store::{Error, Next, Put, Store, Value};

/// A store that answers workers, and logs when it begins or ceases to fail.
pub(super) struct Location {
    store: Arc<Store>,
}

static FAILS: AtomicBool = AtomicBool::new(false);

impl Location {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self { store }
    }
}

impl Answerer for Location {
    fn answer(&self, ask: Ask, reply: Reply) -> Option<Answer> {
        match ask {
            Ask::Read { key } => {
                let found = self.store.get(&key, |found| reply.send(read(found)));
                at_once(found, read)
            }
            Ask::Change { key, seen, next } => {
                let seen = seen.map(|record| Value::new(&key, next_of(&record)));
                let seen = match seen.transpose() {
                    Ok(seen) => seen,
                    Err(error) => return Some(failed(&error)),
                };
                let next = next.as_ref().map(next_of);
                let put = self
                    .store
                    .put(&key, seen.as_ref(), next, |put| reply.send(changed(put)));
                at_once(put, changed)
            }
        }
    }
}

fn at_once<T>(poll: Poll<T>, answer: impl FnOnce(T) -> Answer) -> Option<Answer> {
    match poll {
        Poll::Ready(result) => Some(answer(result)),
        Poll::Pending => None,
    }
}

fn read(found: Result<Option<Value>, Error>) -> Answer {
    match found {
        Ok(value) => {
            succeeded();
            Answer::Record(value.as_ref().map(record))
        }
        Err(error) => failed(&error),
    }
}

fn changed(put: Result<Put, Error>) -> Answer {
    match put {
        Ok(Put::Stored) => {
            succeeded();
            Answer::Changed
        }
        Ok(Put::Changed(value)) => Answer::Record(value.as_ref().map(record)),
        Err(error) => failed(&error),
    }
}

fn record(value: &Value) -> Record {
    Record {
        value: (**value).into(),
        expires: value.expires(),
    }
}

fn next_of(record: &Record) -> Next<'_> {
    Next {
        value: &record.value,
        expires: record.expires,
    }
}

fn succeeded() {
    if FAILS.load(Ordering::Relaxed) && FAILS.swap(false, Ordering::Relaxed) {
        tracing::info!("the store works again");
    }
}

fn failed(error: &Error) -> Answer {
    if !FAILS.swap(true, Ordering::Relaxed) {
        tracing::warn!("{error}: who needs it is told to come again");
    }
    Answer::Failed
}
