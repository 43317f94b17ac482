//! The latest calls: takes what the workers' taps have seen, and answers questions about it.
//!
//! A worker only copies bytes into a tap of its own. Every tenth of a second it gets an empty one in
//! exchange, and the full one joins a backlog. Another thread sorts that by call, as far as it takes little of the
//! machine; a search sorts the rest. A tap that is full counts what it misses.

mod export;
mod follow;
mod journal;
mod otlp;
mod records;
mod stream;
mod view;
pub(crate) mod watch;

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::serve::{MESSAGES, tells_messages};
use export::Exporter;
pub(crate) use journal::Journal;
use node::{
    Snapshot,
    tap::{Tap, What as Seen},
};
pub(crate) use otlp::TraceExport;
use otlp::Tracer;
use recorder::{Backlog, Counts, RecordCounts, Recorder, Search, Settings, Thinning, TraceCounts};
use records::Keeper;
pub(crate) use records::{Format, RecordFile};
use rustix::rand::{GetRandomFlags, getrandom};
use socket::wall;
pub(crate) use stream::StreamSettings;
pub(crate) use view::{Call, Calls, Row, Rung, What};

/// What is kept of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Of the latest calls, to be looked at; none: nothing.
    pub(crate) latest: Option<Settings>,
    /// Of all calls; none: nothing.
    pub(crate) records: Option<RecordFile>,
    /// Spans of calls, for a collector; none: nothing.
    pub(crate) traces: Option<TraceExport>,
}

/// For so long after somebody has looked for a call by a word all calls are recorded. Who follows one looks again sooner.
const SEARCHED_FOR: Duration = Duration::from_secs(5);

/// Messages, reasons and placements that are sorted by call in a second before anybody asks: of about 1,000 calls.
const SORTED_AHEAD: f64 = 18_000.0;

/// The latest calls, or none while nothing is recorded, and the records of all.
#[derive(Debug)]
pub(crate) struct Recording {
    /// The node's name.
    node: String,
    mask_key: [u8; 16],
    /// What was seen and is not sorted by call yet. Whoever holds the recorder may lock it, not the other way round.
    backlog: Mutex<Backlog>,
    recorder: Mutex<Option<Recorder>>,
    /// Memory for calls, in bytes; 0: none are kept.
    bytes_max: AtomicUsize,
    /// Of so many calls one is to be kept, if there is room.
    one_in: AtomicU32,
    thinning: Mutex<Thinning>,
    /// Until then all calls are recorded, as somebody looks for some: milliseconds from the node's zero.
    searched_until: AtomicU64,
    /// Recording was turned off: what the taps hold from before is not wanted.
    is_stale: AtomicBool,
    ahead: Mutex<Ahead>,
    keeper: Mutex<Option<Keeper>>,
    tracer: Mutex<Option<Tracer>>,
    exporter: Exporter,
}

/// How much may be sorted before anybody asks.
#[derive(Debug, Default)]
struct Ahead {
    at: Duration,
    entries: f64,
}

impl Ahead {
    /// What may be sorted by now. What was not used for a second is lost.
    fn grow(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.at).as_secs_f64();
        self.entries = (self.entries + elapsed * SORTED_AHEAD).min(SORTED_AHEAD);
        self.at = now;
    }
}

impl Recording {
    pub(crate) fn new(node: &str, kept: Kept) -> Self {
        let recording = Self {
            node: node.to_owned(),
            mask_key: mask_key(),
            backlog: Mutex::default(),
            recorder: Mutex::default(),
            bytes_max: AtomicUsize::default(),
            one_in: AtomicU32::default(),
            thinning: Mutex::default(),
            searched_until: AtomicU64::default(),
            is_stale: AtomicBool::default(),
            ahead: Mutex::default(),
            keeper: Mutex::default(),
            tracer: Mutex::default(),
            exporter: Exporter::default(),
        };
        recording.set(kept);
        recording.is_stale.store(false, Relaxed);
        recording
    }

    /// Keeps something else from now on. Of what is not wanted any more it forgets all.
    fn set(&self, kept: Kept) {
        self.set_records(kept.records);
        self.set_traces(kept.traces);
        self.exporter.set(kept.latest.as_ref(), self.mask_key);
        let mut recorder = locked(&self.recorder);
        let bytes_max = kept.latest.as_ref().map_or(0, |latest| latest.bytes_max);
        self.bytes_max.store(bytes_max, Relaxed);
        let one_in = kept.latest.as_ref().map_or(1, |latest| latest.one_in);
        self.one_in.store(one_in, Relaxed);
        match (recorder.as_mut(), kept.latest) {
            (Some(recorder), Some(settings)) => recorder.set(settings),
            (_, settings) => {
                self.is_stale.store(true, Relaxed);
                locked(&self.backlog).clear();
                *recorder = settings.map(|settings| Recorder::new(settings, self.mask_key));
            }
        }
    }

    /// The same for a node that runs: its workers have no journal but the one that they were started with.
    pub(crate) fn reload(&self, kept: Kept) {
        self.set(kept);
        if locked(&self.keeper)
            .as_ref()
            .is_some_and(Keeper::lacks_journal)
        {
            tracing::warn!(
                "call records have no journal until the node's next start: until then a crash loses the latest"
            );
        }
    }

    fn set_records(&self, file: Option<RecordFile>) {
        let mut held = locked(&self.keeper);
        match (held.as_mut(), file) {
            (Some(keeper), Some(file)) => keeper.set(file),
            (Some(keeper), None) => {
                keeper.end();
                *held = None;
            }
            (None, file) => {
                *held = file.map(|file| Keeper::new(file, self.node.clone(), self.mask_key));
            }
        }
    }

    /// Tells the records that processes left which are gone, and keeps them by this journal from now on.
    pub(crate) fn recover(&self, snapshot: &Arc<Snapshot>, journal: Option<Arc<Journal>>) {
        if let Some(keeper) = locked(&self.keeper).as_mut() {
            keeper.recover(snapshot);
            journal.into_iter().for_each(|it| keeper.set_journal(it));
        }
    }

    fn set_traces(&self, traces: Option<TraceExport>) {
        let mut held = locked(&self.tracer);
        match (held.as_mut(), traces) {
            (Some(tracer), Some(traces)) => tracer.set(traces),
            (_, traces) => *held = traces.map(|traces| Tracer::new(traces, &self.node)),
        }
    }

    fn is_on(&self) -> bool {
        self.bytes_max.load(Relaxed) > 0
            || locked(&self.keeper).is_some()
            || locked(&self.tracer).is_some()
    }

    /// Of how many calls a tap is to have one. Who wants all messages gets them: records, traces, a collector, the log, a search.
    fn one_in(&self, now: Duration) -> u32 {
        let is_searched = (now.as_millis() as u64) < self.searched_until.load(Relaxed);
        let tells_all = is_searched
            || tells_messages()
            || self.exporter.is_on()
            || locked(&self.keeper).is_some()
            || locked(&self.tracer).is_some();
        match tells_all {
            true => 1,
            false => {
                let kept = self.one_in.load(Relaxed);
                kept.saturating_mul(locked(&self.thinning).one_in())
            }
        }
    }

    /// What it has done; none while nothing is recorded.
    pub(crate) fn counts(&self, now: Duration) -> Option<Counts> {
        let one_in = self.one_in(now);
        let recorder = locked(&self.recorder);
        let counts = recorder.as_ref()?.counts(&locked(&self.backlog));
        Some(Counts {
            one_in: one_in.max(counts.one_in),
            ..counts
        })
    }

    /// Learns how much has passed.
    fn note_passed(&self, now: Duration, taps: &[Tap], bytes_max: usize) {
        let passed: u64 = taps
            .iter()
            .map(|tap| tap.len() as u64 + tap.left_out())
            .sum();
        let kept_one_in = u64::from(self.one_in.load(Relaxed).max(1));
        locked(&self.thinning).note(now, passed / kept_one_in, bytes_max);
    }

    /// What the records told, and how many could not be written; none while there are none.
    pub(crate) fn records(&self) -> Option<(RecordCounts, u64)> {
        locked(&self.keeper).as_ref().map(Keeper::counts)
    }

    /// Messages that the journal of records had no room for; none while there is no journal.
    pub(crate) fn unjournaled(&self) -> Option<u64> {
        locked(&self.keeper).as_ref()?.unjournaled()
    }

    /// Records sent to a stream, and attempts that failed; none while there is no stream.
    pub(crate) fn streamed(&self) -> Option<(u64, u64)> {
        locked(&self.keeper).as_ref()?.sent()
    }

    /// What the spans told, and how many the collector took and did not take; none while there are none.
    pub(crate) fn traces(&self) -> Option<(TraceCounts, u64, u64)> {
        locked(&self.tracer).as_ref().map(Tracer::counts)
    }

    /// The trace of a call of this Call-ID, if it has one.
    pub(crate) fn trace_of(&self, snapshot: &Snapshot, call_id: &str) -> Option<u128> {
        let call = snapshot.session_of(call_id.as_bytes());
        locked(&self.tracer).as_ref()?.trace_of(call)
    }

    /// Messages that went to the collector, and those that could not be sent.
    pub(crate) fn exported(&self) -> (u64, u64) {
        self.exporter.counts()
    }

    /// Calls that match, at most so many.
    pub(crate) fn find(
        &self,
        snapshot: &Arc<Snapshot>,
        search: &Search,
        now: Duration,
        most: usize,
    ) -> Calls {
        let zero = wall().saturating_sub(now);
        let recorder = self.sorted(snapshot);
        let (found, matching) = match &*recorder {
            Some(recorder) => recorder.find(search, now, most),
            None => (Vec::new(), 0),
        };
        drop(recorder);
        let counts = self.counts(now);
        if !search.words.is_empty() {
            let until = (now + SEARCHED_FOR).as_millis() as u64;
            self.searched_until.store(until, Relaxed);
        }
        Calls::new(&found, matching, counts, zero, now)
    }

    /// One call, as `show` shows it. `zero` of `show` is the wall time of the node's zero.
    pub(crate) fn call<T>(
        &self,
        snapshot: &Arc<Snapshot>,
        call_id: &str,
        now: Duration,
        show: impl FnOnce(&recorder::Ladder, Duration) -> T,
    ) -> Option<T> {
        let key = snapshot.session_of(call_id.as_bytes());
        let ladder = self.sorted(snapshot).as_ref()?.call(key, now)?;
        Some(show(&ladder, wall().saturating_sub(now)))
    }

    /// Takes what the workers' taps have seen, and returns emptied ones. What is later than `until` may be incomplete.
    fn take(
        &self,
        taps: Vec<Tap>,
        until: Duration,
        snapshot: &Arc<Snapshot>,
        now: Duration,
    ) -> Vec<Tap> {
        if tells_messages() {
            taps.iter().for_each(|tap| log(tap, snapshot));
        }
        let zero = wall().saturating_sub(now);
        if let Some(keeper) = locked(&self.keeper).as_mut() {
            keeper.take(until, |records, told| {
                let mut tell = |record| told.push(record);
                records.take(&taps, until, snapshot, zero, &mut tell);
                records.look(now, zero, &mut tell);
            });
        }
        if let Some(tracer) = locked(&self.tracer).as_mut() {
            tracer.take(zero, |traces, told| {
                let mut tell = |span| told.push(span);
                traces.take(&taps, until, snapshot, &mut tell);
                traces.look(now, &mut tell);
            });
        }
        let is_stale = self.is_stale.swap(false, Relaxed);
        let bytes_max = self.bytes_max.load(Relaxed);
        if is_stale || bytes_max == 0 {
            let mut backlog = locked(&self.backlog);
            taps.into_iter().for_each(|tap| backlog.give_back(tap));
            return backlog.empty_ones();
        }
        self.note_passed(now, &taps, bytes_max);
        self.exporter.send(&taps, snapshot, zero);
        let mut backlog = locked(&self.backlog);
        taps.into_iter().for_each(|tap| backlog.put(tap));
        drop(backlog);
        self.sort_ahead(snapshot, now);
        let mut backlog = locked(&self.backlog);
        backlog.keep(bytes_max);
        backlog.empty_ones()
    }

    /// Sorts so much that a search finds little left to sort, unless that took too much of the machine. While somebody
    /// searches there is nothing to do.
    fn sort_ahead(&self, snapshot: &Arc<Snapshot>, now: Duration) {
        let Ok(mut recorder) = self.recorder.try_lock() else {
            return;
        };
        let Some(recorder) = recorder.as_mut() else {
            return;
        };
        let mut ahead = locked(&self.ahead);
        ahead.grow(now);
        while ahead.entries > 0.0
            && let Some(entries) = self.sort(recorder, snapshot)
        {
            ahead.entries -= entries as f64;
        }
        let mut backlog = locked(&self.backlog);
        recorder.make_room(backlog.bytes(), |tap| backlog.give_back(tap));
    }

    /// Sorts all that was seen: somebody may ask soon.
    pub(crate) fn prepare(&self, snapshot: &Arc<Snapshot>) {
        drop(self.sorted(snapshot));
    }

    /// The recorder, with all calls sorted.
    fn sorted(&self, snapshot: &Arc<Snapshot>) -> MutexGuard<'_, Option<Recorder>> {
        let mut locked = locked(&self.recorder);
        if let Some(recorder) = locked.as_mut() {
            while self.sort(recorder, snapshot).is_some() {}
        }
        locked
    }

    /// Sorts the oldest tap of the backlog; how much it had seen.
    fn sort(&self, recorder: &mut Recorder, snapshot: &Arc<Snapshot>) -> Option<usize> {
        let mut backlog = locked(&self.backlog);
        let tap = backlog.take()?;
        drop(backlog);
        let entries = tap.entries().len();
        let done = recorder.take(tap, snapshot);
        let mut backlog = locked(&self.backlog);
        done.into_iter().for_each(|tap| backlog.give_back(tap));
        recorder.make_room(backlog.bytes(), |tap| backlog.give_back(tap));
        Some(entries)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
            Seen::Because(moves) => {
                for why in moves.reasons() {
                    tracing::debug!(target: MESSAGES, "{at:.6} {}: {}", why.label(), why.help());
                }
            }
            Seen::Placed(place) => {
                let (_, view) = tap.placement(place, snapshot);
                tracing::debug!(target: MESSAGES, "{at:.6} {}", recorder::placement_words(&view));
            }
        }
    }
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
