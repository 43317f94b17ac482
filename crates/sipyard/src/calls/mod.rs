//! The latest calls: takes what the workers' taps have seen, and answers questions about it.
//!
//! A worker only copies bytes into a tap of its own. Every tenth of a second it gets an empty one in
//! exchange, and another thread reads the full one. A tap that is full counts what it misses.

mod export;
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
use recorder::{Counts, Recorder, Search, Settings};
use rustix::rand::{GetRandomFlags, getrandom};
use socket::wall;
pub(crate) use view::{Call, Calls, Row, Rung, What};

/// The latest calls, or none while nothing is recorded.
#[derive(Debug)]
pub(crate) struct Recording {
    recorder: Mutex<Option<Recorder>>,
    /// Recording was turned off: what the taps hold from before is not wanted.
    is_stale: AtomicBool,
    exporter: Exporter,
}

impl Recording {
    pub(crate) fn new(settings: Option<Settings>) -> Self {
        let exporter = Exporter::default();
        exporter.set(settings.as_ref());
        Self {
            recorder: Mutex::new(settings.map(empty)),
            is_stale: AtomicBool::new(false),
            exporter,
        }
    }

    /// Records something else from now on. With none, it forgets all.
    pub(crate) fn set(&self, settings: Option<Settings>) {
        let mut recorder = self.locked();
        self.exporter.set(settings.as_ref());
        match (recorder.as_mut(), settings) {
            (Some(recorder), Some(settings)) => recorder.set(settings),
            (_, settings) => {
                self.is_stale.store(true, Ordering::Relaxed);
                *recorder = settings.map(empty);
            }
        }
    }

    fn locked(&self) -> MutexGuard<'_, Option<Recorder>> {
        let locked = self.recorder.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }

    fn is_on(&self) -> bool {
        self.locked().is_some()
    }

    /// What it has done; none while nothing is recorded.
    pub(crate) fn counts(&self) -> Option<Counts> {
        self.locked().as_ref().map(Recorder::counts)
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

    fn take(&self, taps: &mut [Tap], snapshot: &Snapshot, now: Duration) {
        if tells_messages() {
            taps.iter().for_each(|tap| log(tap, snapshot));
        }
        let mut recorder = self.locked();
        let is_stale = self.is_stale.swap(false, Ordering::Relaxed);
        if let Some(recorder) = recorder.as_mut().filter(|_| !is_stale) {
            let zero = wall().saturating_sub(now);
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
    let mut key = [0; 16];
    // Without entropy masked users would be the same in each run, and no worse.
    let _ = getrandom(&mut key[..], GetRandomFlags::empty());
    Recorder::new(settings, key)
}

/// The addresses of the node's listeners.
pub(crate) fn listeners(snapshot: &Snapshot) -> Vec<SocketAddr> {
    let listeners = snapshot.config().listeners.iter();
    listeners.map(|listener| listener.address).collect()
}
