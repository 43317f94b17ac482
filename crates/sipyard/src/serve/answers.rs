//! Connects the workers to the store of the registrar and to the DNS.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use fastrand::Rng;
use names::{Question, order};
use net::{Answerer, Reply};
use node::{Answer, Ask, Name, NextHop, Record, Transport};
use store::{Error, Known, Next, Put, Store, Value};

use crate::resolver::Resolver;

/// Answers workers. It logs when the store starts or stops failing.
pub(super) struct Answers {
    store: Option<Arc<Store>>,
    resolver: Arc<Resolver>,
}

static FAILS: AtomicBool = AtomicBool::new(false);

impl Answers {
    pub(super) fn new(store: Option<Arc<Store>>, resolver: Arc<Resolver>) -> Self {
        Self { store, resolver }
    }

    fn locate(&self, name: &Name, draw: u64, reply: Reply) -> Option<Answer> {
        let wanted = name.transport.and_then(asked_for);
        let question = match (name.port, name.transport) {
            // Nobody has service records for WebSockets.
            (None, Some(of @ (Transport::Ws | Transport::Wss))) => {
                Question::of_uri(&name.host, Some(of.default_port()), None)
            }
            (port, _) => Question::of_uri(&name.host, port, wanted),
        };
        let transport = name.transport.unwrap_or(Transport::Udp);
        let located = move |answer: Result<Arc<names::Answer>, names::Error>| match answer {
            Ok(answer) => {
                let addresses = order(&answer.targets, &mut Rng::with_seed(draw));
                let hop = |(found, address): (Option<names::Transport>, _)| NextHop {
                    transport: found.map_or(transport, found_to),
                    address,
                };
                Answer::Located(addresses.into_iter().map(hop).collect())
            }
            Err(names::Error::NotFound) => Answer::Located(Vec::new()),
            Err(_) => Answer::Failed,
        };
        let Ok(names) = self.resolver.names() else {
            return Some(Answer::Failed);
        };
        match names.ask(&question, move |answer| reply.send(located(answer))) {
            Poll::Ready(answer) => Some(located(answer)),
            Poll::Pending => None,
        }
    }
}

/// What the DNS is asked for. None: it has no services of that.
fn asked_for(transport: Transport) -> Option<names::Transport> {
    match transport {
        Transport::Udp => Some(names::Transport::Udp),
        Transport::Tcp => Some(names::Transport::Tcp),
        Transport::Tls => Some(names::Transport::Tls),
        Transport::Ws | Transport::Wss => None,
    }
}

fn found_to(take: names::Transport) -> Transport {
    match take {
        names::Transport::Udp => Transport::Udp,
        names::Transport::Tcp => Transport::Tcp,
        names::Transport::Tls => Transport::Tls,
    }
}

impl Answerer for Answers {
    fn is_often_later(&self) -> bool {
        let store = self.store.as_ref();
        store.is_some_and(|store| !store.answers_at_once())
    }

    fn answer(&self, ask: Ask, reply: Reply) -> Option<Answer> {
        let store = self.store.as_ref();
        match ask {
            Ask::Locate { name, draw } => self.locate(&name, draw, reply),
            Ask::Read { key } => store.map_or(Some(Answer::Failed), |store| {
                let (asked, about) = (Arc::clone(store), key.clone());
                let later = move |found| reply.send(read(&asked, &about, found));
                let found = store.get(&key, later);
                at_once(found, |found| read(store, &key, found))
            }),
            Ask::Change { key, seen, next } => store.map_or(Some(Answer::Failed), |store| {
                let seen = seen.map(|record| Value::new(&key, next_of(&record)));
                let seen = match seen.transpose() {
                    Ok(seen) => seen,
                    Err(error) => return Some(failed(&error)),
                };
                let next = next.as_ref().map(next_of);
                let put = store.put(&key, seen.as_ref(), next, |put| reply.send(changed(put)));
                at_once(put, changed)
            }),
        }
    }
}

fn at_once<T>(poll: Poll<T>, answer: impl FnOnce(T) -> Answer) -> Option<Answer> {
    match poll {
        Poll::Ready(result) => Some(answer(result)),
        Poll::Pending => None,
    }
}

/// While the store is down, the last known records must do: it is better to ring a phone where it
/// was half a minute ago than to lose the call.
fn read(store: &Store, key: &[u8], found: Result<Option<Value>, Error>) -> Answer {
    let value = match found {
        Ok(value) => {
            succeeded();
            value
        }
        Err(error) => {
            let failed = failed(&error);
            match store.last_known(key) {
                Known::Value(value) => Some(value),
                Known::Absent => None,
                Known::Unknown => return failed,
            }
        }
    };
    Answer::Record(value.as_ref().map(record))
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
        tracing::warn!("{error}: requests that need the store get 503 until it works again");
    }
    Answer::Failed
}
