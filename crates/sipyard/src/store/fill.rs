//! Writes many records to a store, as many at the same time as the store takes.

use std::{
    fmt,
    io::{self, IsTerminal, Write},
    sync::mpsc::{Receiver, Sender, channel},
    task::Poll,
    time::Duration,
};

use ::store::{Error, Next, Put, Store, Value};
use location::Subscriber;
use serde::{Deserialize, Serialize};

/// The most records in progress: few enough for the queue of any store.
const ON_THE_WAY_MAX: usize = 4096;
const PROGRESS_STEP: usize = 10_000;

/// A key and its value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) expires: Option<Duration>,
}

impl Record {
    pub(crate) fn of(key: &[u8], value: &Value) -> Self {
        Self {
            key: key.to_vec(),
            value: value.to_vec(),
            expires: value.expires(),
        }
    }

    pub(crate) fn value(&self) -> Result<Value, Error> {
        Value::new(&self.key, self.next())
    }

    pub(crate) fn next(&self) -> Next<'_> {
        Next {
            value: &self.value,
            expires: self.expires,
        }
    }

    pub(crate) fn of_subscriber(subscriber: &Subscriber) -> Self {
        Self {
            key: Subscriber::key_of(&subscriber.aor),
            value: subscriber.write(),
            expires: None,
        }
    }
}

/// How many records were new to the store, and how many replaced others.
#[derive(Default)]
pub(crate) struct Filled {
    added: usize,
    replaced: usize,
}

impl Filled {
    pub(super) fn count(&mut self, is_new: bool) {
        if is_new {
            self.added += 1;
        } else {
            self.replaced += 1;
        }
    }
}

impl fmt::Display for Filled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} added, {} replaced", self.added, self.replaced)
    }
}

/// Stores all records and replaces those that exist.
pub(super) fn fill(store: &Store, records: &[Record]) -> Result<Filled, Error> {
    let (answered, answers) = channel();
    let mut filling = Filling {
        store,
        records,
        answered,
        answers,
        on_the_way: 0,
        filled: Filled::default(),
    };
    for index in 0..records.len() {
        while filling.on_the_way >= ON_THE_WAY_MAX {
            filling.hear()?;
        }
        filling.put(index, None)?;
        show_progress(index, records.len());
    }
    while filling.on_the_way > 0 {
        filling.hear()?;
    }
    Ok(filling.filled)
}

type Answer = (usize, bool, Result<Put, Error>);

struct Filling<'a> {
    store: &'a Store,
    records: &'a [Record],
    answered: Sender<Answer>,
    answers: Receiver<Answer>,
    on_the_way: usize,
    filled: Filled,
}

impl Filling<'_> {
    fn put(&mut self, index: usize, seen: Option<&Value>) -> Result<(), Error> {
        let record = &self.records[index];
        let (answered, is_new) = (self.answered.clone(), seen.is_none());
        let put = self
            .store
            .put(&record.key, seen, Some(record.next()), move |put| {
                // After a failure nobody waits for the others.
                let _ = answered.send((index, is_new, put));
            });
        match put {
            Poll::Pending => {
                self.on_the_way += 1;
                Ok(())
            }
            Poll::Ready(put) => self.take((index, is_new, put)),
        }
    }

    fn hear(&mut self) -> Result<(), Error> {
        let answer = self.answers.recv();
        self.on_the_way -= 1;
        self.take(answer.expect("this side holds a sender"))
    }

    fn take(&mut self, (index, is_new, put): Answer) -> Result<(), Error> {
        match put? {
            Put::Stored => self.filled.count(is_new),
            Put::Changed(current) => return self.put(index, current.as_ref()),
        }
        Ok(())
    }
}

fn show_progress(done: usize, all: usize) {
    let mut terminal = io::stderr();
    if done.is_multiple_of(PROGRESS_STEP) && all > PROGRESS_STEP && terminal.is_terminal() {
        // Only a sight for whoever waits.
        let _ = write!(terminal, "\r{} %\r", 100 * done / all);
    }
}
