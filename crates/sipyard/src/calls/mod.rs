//! The latest calls: takes what the workers' taps have seen, and answers questions about it.
//!
//! A worker only copies bytes into a tap of its own. Every tenth of a second it gets an empty one in
//! exchange, and another thread reads the full one. A tap that is full counts what it misses.

mod export;
mod records;
mod view;
pub(crate) mod watch;

use std::{
    net::SocketAddr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::serve::{MESSAGES, tells_messages};
use export::Exporter;
use node::{
    Snapshot,
    tap::{Tap, What as Seen},
};
use recorder::{Counts, RecordCounts, Recorder, Search, Settings};
use records::Keeper;
pub(crate) use records::{Format, RecordFile};
use rustix::rand::{GetRandomFlags, getrandom};
use socket::wall;
pub(crate) use view::{Call, Calls, Row, Rung, What};

/// What is kept of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Of the latest calls, to be looked at; none: nothing.
    pub(crate) latest: Option<Settings>,
    /// Of all calls; none: nothing.
    pub(crate) records: Option<RecordFile>,
}

/// The latest calls, or none while nothing is recorded, and the records of all.
#[derive(Debug)]
pub(crate) struct Recording {
    /// The node's name.
    node: String,
    recorder: Mutex<Option<Recorder>>,
    keeper: Mutex<Option<Keeper>>,
    /// Recording was turned off: what the taps hold from before is not wanted.
    is_stale: AtomicBool,
    exporter: Exporter,
}

impl Recording {
    pub(crate) fn new(node: &str, kept: Kept) -> Self {
        let exporter = Exporter::default();
        exporter.set(kept.latest.as_ref());
        let keeper = kept.records.map(|file| keeper(file, node));
        Self {
            node: node.to_owned(),
            recorder: Mutex::new(kept.latest.map(empty)),
            keeper: Mutex::new(keeper),
            is_stale: AtomicBool::new(false),
            exporter,
        }
    }

    /// Keeps something else from now on. Of what is not wanted any more it forgets all.
    pub(crate) fn set(&self, kept: Kept) {
        self.set_records(kept.records);
        let mut recorder = self.locked();
        self.exporter.set(kept.latest.as_ref());
        match (recorder.as_mut(), kept.latest) {
            (Some(recorder), Some(settings)) => recorder.set(settings),
            (_, settings) => {
                self.is_stale.store(true, Ordering::Relaxed);
                *recorder = settings.map(empty);
            }
        }
    }

    fn set_records(&self, file: Option<RecordFile>) {
        let mut held = self.keeper();
        match (held.as_mut(), file) {
            (Some(keeper), Some(file)) => keeper.set(file),
            (_, file) => *held = file.map(|file| keeper(file, &self.node)),
        }
    }

    fn locked(&self) -> MutexGuard<'_, Option<Recorder>> {
        let locked = self.recorder.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    fn keeper(&self) -> MutexGuard<'_, Option<Keeper>> {
        let locked = self.keeper.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    fn is_on(&self) -> bool {
        self.locked().is_some() || self.keeper().is_some()
    }

    /// What it has done; none while nothing is recorded.
    pub(crate) fn counts(&self) -> Option<Counts> {
        self.locked().as_ref().map(Recorder::counts)
    }

    /// What the records told, and how many could not be written; none while there are none.
    pub(crate) fn records(&self) -> Option<(RecordCounts, u64)> {
        self.keeper().as_ref().map(Keeper::counts)
    }

    /// Messages that went to the collector, and those that could not be sent.
    pub(crate) fn exported(&self) -> (u64, u64) {
        self.exporter.counts()
    }

    /// Calls that match, at most so many.
    pub(crate) fn find(&self, search: &Search, now: Duration, most: usize) -> Calls {
        let zero = wall().saturating_sub(now);
        let recorder = self.locked();
        let (found, matching) = match &*recorder {
            Some(recorder) => recorder.find(search, now, most),
            None => (Vec::new(), 0),
        };
        Calls::new(
            &found,
            matching,
            recorder.as_ref().map(Recorder::counts),
            zero,
            now,
        )
    }

    /// One call, as `show` shows it. `zero` of `show` is the wall time of the node's zero.
    pub(crate) fn call<T>(
        &self,
        snapshot: &Snapshot,
        call_id: &str,
        now: Duration,
        show: impl FnOnce(&recorder::Ladder, Duration) -> T,
    ) -> Option<T> {
        let key = snapshot.session_of(call_id.as_bytes());
        let ladder = self.locked().as_ref()?.call(key, now)?;
        Some(show(&ladder, wall().saturating_sub(now)))
    }

    /// Takes what the workers' taps have seen. What is later than `until` may be incomplete.
    fn take(&self, taps: &mut [Tap], until: Duration, snapshot: &Snapshot, now: Duration) {
        if tells_messages() {
            taps.iter().for_each(|tap| log(tap, snapshot));
        }
        let zero = wall().saturating_sub(now);
        if let Some(keeper) = self.keeper().as_mut() {
            keeper.take(|records, told| {
                let mut tell = |record| told.push(record);
                records.take(taps, until, snapshot, zero, &mut tell);
                records.look(now, zero, &mut tell);
            });
        }
        let mut recorder = self.locked();
        let is_stale = self.is_stale.swap(false, Ordering::Relaxed);
        if let Some(recorder) = recorder.as_mut().filter(|_| !is_stale) {
            self.exporter.send(recorder, taps, snapshot, zero);
            for tap in &mut *taps {
                recorder.take(tap, snapshot);
                recorder.miss(tap.missed());
            }
        }
        taps.iter_mut().for_each(Tap::clear);
    }
}

/// Logs the way of each message.
fn log(tap: &Tap, snapshot: &Snapshot) {
    for entry in tap.entries() {
        let at = entry.at.as_secs_f64();
        match entry.what {
            Seen::Received(flow) | Seen::Sent(flow) => {
                let way = if matches!(entry.what, Seen::Received(_)) {
                    "from"
                } else {
                    "to"
                };
                let line = recorder::gist(tap.message(entry));
                tracing::debug!(target: MESSAGES, "{at:.6} {way} {}: {line}", flow.remote);
            }
            Seen::Because(why) => {
                tracing::debug!(target: MESSAGES, "{at:.6} {}: {}", why.label(), why.help());
            }
            Seen::Placed(place) => {
                let (_, view) = tap.placement(place, snapshot);
                tracing::debug!(target: MESSAGES, "{at:.6} {}", recorder::placement_words(&view));
            }
        }
    }
}

fn empty(settings: Settings) -> Recorder {
    Recorder::new(settings, mask_key())
}

fn keeper(file: RecordFile, node: &str) -> Keeper {
    Keeper::new(file, node.to_owned(), mask_key())
}

fn mask_key() -> [u8; 16] {
    let mut key = [0; 16];
    // Without entropy masked users would be the same in each run, and no worse.
    let _ = getrandom(&mut key[..], GetRandomFlags::empty());
    key
}

/// The addresses of the node's listeners.
pub(crate) fn listeners(snapshot: &Snapshot) -> Vec<SocketAddr> {
    let listeners = snapshot.config().listeners.iter();
    listeners.map(|listener| listener.address).collect()
}
