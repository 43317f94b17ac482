//! Sends call records to a stream of Redis or Valkey, from a thread of its own. What waits for the server waits in the
//! files, and how far they are sent stands beside the stream: so each record gets there once.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use store::{RedisAddress, Stream};

use super::follow::{End, Follower};

/// How long the server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long after a failure it is asked again.
const RETRY: Duration = Duration::from_secs(1);
/// How long a node that ends waits for what is not sent.
const FAREWELL: Duration = Duration::from_secs(3);

/// Where records go besides the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamSettings {
    pub(crate) address: RedisAddress,
    pub(crate) stream: String,
    /// About so many entries are kept there.
    pub(crate) entries_max: u64,
}

/// The way to the stream. Nobody waits for it.
#[derive(Debug)]
pub(super) struct Sender(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    sent: AtomicU64,
    failures: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// None: it is not known yet what is whole.
    end: Option<End>,
    /// What was told last is not sent yet.
    is_behind: bool,
    /// Nothing more will be told.
    is_over: bool,
    has_ended: bool,
}

impl Sender {
    /// Follows the files of `path`. The stream knows this writer by the node's name.
    pub(super) fn new(settings: &StreamSettings, path: PathBuf, files: usize, node: &str) -> Self {
        let shared = Arc::new(Shared::default());
        let (run, settings, node) = (Arc::clone(&shared), settings.clone(), node.to_owned());
        let work = move || {
            if let Err(error) = run.send_all(&settings, path, files, &node) {
                tracing::error!("no call records are sent to a stream: {error}");
            }
            run.state().has_ended = true;
            run.changed.notify_all();
        };
        if let Err(error) = thread::Builder::new().name("records".into()).spawn(work) {
            tracing::error!("no call records are sent, as no thread could be started: {error}");
            shared.state().has_ended = true;
        }
        Self(shared)
    }

    /// So much is written.
    pub(super) fn tell(&self, end: End) {
        let mut state = self.0.state();
        (state.end, state.is_behind) = (Some(end), true);
        self.0.changed.notify_all();
    }

    /// Records that were sent, and attempts that failed.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.0.sent.load(Relaxed), self.0.failures.load(Relaxed))
    }

    /// Waits until all is sent, for a while. The next process sends the rest.
    pub(super) fn finish(&self) {
        let mut state = self.0.state();
        state.is_over = true;
        self.0.changed.notify_all();
        let ended = |state: &mut State| !state.has_ended;
        drop(self.0.changed.wait_timeout_while(state, FAREWELL, ended));
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send_all(
        &self,
        settings: &StreamSettings,
        path: PathBuf,
        files: usize,
        node: &str,
    ) -> io::Result<()> {
        let StreamSettings {
            address,
            stream,
            entries_max,
        } = settings;
        let stream = Stream::new(address, stream, node, *entries_max, PATIENCE)?;
        let mut way = Way {
            stream,
            follower: Follower::new(path, files),
            place: None,
        };
        let mut is_failing = false;
        while let Some(end) = self.news() {
            let sent = way.send(end, |records| {
                self.sent.fetch_add(records, Relaxed);
            });
            match sent {
                Ok(()) if is_failing => tracing::info!("call records go to {:?} again", way.stream),
                Ok(()) => {}
                Err(error) => {
                    self.failures.fetch_add(1, Relaxed);
                    if !is_failing {
                        tracing::warn!(
                            "call records wait in their files, {:?} does not take them: {error}",
                            way.stream
                        );
                    }
                    is_failing = true;
                    self.rest();
                    continue;
                }
            }
            is_failing = false;
        }
        Ok(())
    }

    /// Waits until there is something to send; none: nothing more will come.
    fn news(&self) -> Option<End> {
        let nothing = |state: &mut State| !(state.is_over || state.is_behind);
        let waited = self.changed.wait_while(self.state(), nothing);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let is_behind = std::mem::replace(&mut state.is_behind, false);
        state.end.filter(|_| is_behind)
    }

    /// Waits after a failure, and has it tried again unless the node ends.
    fn rest(&self) {
        let mut state = self.state();
        state.is_behind = !state.is_over;
        let going_on = |state: &mut State| !state.is_over;
        drop(self.changed.wait_timeout_while(state, RETRY, going_on));
    }
}

struct Way {
    stream: Stream,
    follower: Follower,
    /// What the server says; none: it has not been asked.
    place: Option<String>,
}

impl Way {
    /// Sends all that is whole. `count` learns of each batch how many records it had.
    fn send(&mut self, end: End, count: impl Fn(u64)) -> Result<(), String> {
        let words = |error: io::Error| error.to_string();
        let mut place = match self.place.take() {
            Some(place) => place,
            None => self.begin()?,
        };
        while let Some(batch) = self.follower.next(end).map_err(words)? {
            let next = batch.next.to_string();
            let answer = self.stream.append(&place, &next, batch.lines());
            // If the answer is lost, the server is asked how far it is.
            place = answer.map_err(|error| error.to_string())?;
            if place == next {
                count(batch.lines().count() as u64);
                self.follower.go_to(batch.next);
            } else if !self.go_on(&place).map_err(words)? {
                return Err(format!(
                    "another node with this one's name has come to {place}: names must differ"
                ));
            }
        }
        self.place = Some(place);
        Ok(())
    }

    fn begin(&mut self) -> Result<String, String> {
        let place = self.stream.place().map_err(|error| error.to_string())?;
        let is_there = self.go_on(&place).map_err(|error| error.to_string())?;
        if !is_there && !place.is_empty() {
            tracing::warn!(
                "the records at {place} are gone from disk: {:?} lacks what followed them there",
                self.stream
            );
        }
        Ok(place)
    }

    /// Goes on at a place. False: it is not in the files.
    fn go_on(&mut self, place: &str) -> io::Result<bool> {
        match place.parse() {
            Ok(place) => self.follower.go_on(place),
            Err(()) => Ok(false),
        }
    }
}
