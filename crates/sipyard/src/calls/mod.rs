//! The latest calls: takes what the workers' taps have seen, and answers questions about it.
//!
//! A worker only copies bytes into a tap of its own. Every tenth of a second it gets an empty one in
//! exchange, and another thread reads the full one. A tap that is full counts what it misses.

mod view;

use std::{
    mem,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use node::{Node, Outbox, Snapshot, tap::Tap};
use recorder::{Counts, Recorder, Search, Settings};
use rustix::rand::{GetRandomFlags, getrandom};
use socket::wall;
use tokio::{
    sync::oneshot,
    task::spawn_blocking,
    time::{sleep, timeout},
};

use crate::serve::Control;
pub(crate) use view::{Call, Calls, Row, Rung, What};

/// How often a worker gets an empty tap.
const TICK: Duration = Duration::from_millis(100);
/// The same while there is much to record.
const FAST_TICK: Duration = Duration::from_millis(40);
/// So many bytes in a tick are much.
const MUCH: usize = 1 << 20;
/// What a worker may record in a tick, in bytes: 10,000 calls a second are about 4 MB in a fast one.
const TAP_BYTES: usize = 16 << 20;
/// How long a worker may take to change its tap.
const PATIENCE: Duration = Duration::from_secs(1);

/// The latest calls, or none while nothing is recorded.
#[derive(Debug)]
pub(crate) struct Recording {
    recorder: Mutex<Option<Recorder>>,
    /// Recording was turned off: what the taps hold from before is not wanted.
    is_stale: AtomicBool,
}

impl Recording {
    pub(crate) fn new(settings: Option<Settings>) -> Self {
        Self {
            recorder: Mutex::new(settings.map(empty)),
            is_stale: AtomicBool::new(false),
        }
    }

    /// Records something else from now on. With none, it forgets all.
    pub(crate) fn set(&self, settings: Option<Settings>) {
        let mut recorder = self.locked();
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

    fn take(&self, taps: &mut [Tap], snapshot: &Snapshot) {
        let mut recorder = self.locked();
        let is_stale = self.is_stale.swap(false, Ordering::Relaxed);
        if let Some(recorder) = recorder.as_mut().filter(|_| !is_stale) {
            for tap in &mut *taps {
                recorder.take(tap, snapshot);
                recorder.miss(tap.missed());
            }
        }
        taps.iter_mut().for_each(Tap::clear);
    }
}

fn empty(settings: Settings) -> Recorder {
    let mut key = [0; 16];
    // Without entropy masked users would be the same in each run, and no worse.
    let _ = getrandom(&mut key[..], GetRandomFlags::empty());
    Recorder::new(settings, key)
}

/// Gives the workers taps before the first call comes.
pub(crate) async fn begin(control: &Control) {
    if control.calls().is_on() {
        change_taps(control, true, &mut Vec::new()).await;
    }
}

/// Changes the workers' taps and reads them. It never returns.
pub(crate) async fn watch(control: Arc<Control>) {
    let mut spare: Vec<Tap> = Vec::new();
    let mut is_tapped = control.calls().is_on();
    loop {
        let is_on = control.calls().is_on();
        if !is_on && !is_tapped {
            sleep(TICK).await;
            continue;
        }
        is_tapped = is_on;
        let mut taps = change_taps(&control, is_on, &mut spare).await;
        let recording = Arc::clone(control.calls());
        let snapshot = control.shared().snapshot();
        let taken = spawn_blocking(move || {
            let bytes: usize = taps.iter().map(Tap::len).sum();
            recording.take(&mut taps, &snapshot);
            (bytes, taps)
        });
        let (bytes, emptied) = taken.await.expect("a recorder does not panic");
        spare.extend(emptied);
        sleep(if bytes > MUCH { FAST_TICK } else { TICK }).await;
    }
}

/// The workers' taps with what they have seen. A worker that is too busy keeps its own.
async fn change_taps(control: &Control, is_on: bool, spare: &mut Vec<Tap>) -> Vec<Tap> {
    let mut asked = Vec::new();
    for worker in 0..control.shared().workers().len() {
        let next = is_on.then(|| spare.pop().unwrap_or_else(|| Tap::new(TAP_BYTES)));
        let (sender, receiver) = oneshot::channel();
        let command = Box::new(move |_: &mut Node, _: Duration, out: &mut Outbox| {
            let full = mem::replace(&mut out.tap, next);
            // Whoever asked has lost patience: what was recorded stays for the next time.
            if let Err(kept) = sender.send(full) {
                out.tap = kept;
            }
        });
        if control.workers().command(worker, command).is_ok() {
            asked.push(receiver);
        }
    }
    let mut taps = Vec::new();
    for receiver in asked {
        if let Ok(Ok(tap)) = timeout(PATIENCE, receiver).await {
            taps.extend(tap);
        }
    }
    taps
}

/// The addresses of the node's listeners.
pub(crate) fn listeners(snapshot: &Snapshot) -> Vec<SocketAddr> {
    let listeners = snapshot.config().listeners.iter();
    listeners.map(|listener| listener.address).collect()
}
