//! How many requests may wait at a server for their first response.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::in_flight::{InFlight, LOST};

/// How often the limit is looked at.
const WINDOW: Duration = Duration::from_millis(100);
/// A window goes on until it has so many answers, for [`WINDOW_MAX`] at most.
const ANSWERS_MIN: u64 = 8;
const WINDOW_MAX: Duration = Duration::from_millis(500);
/// Who answers within this time is not limited. It is below RFC 3261's T1, after which requests are repeated.
const PROMPT: Duration = Duration::from_millis(150);
/// Who says nothing for so long has lost what was not sent lately, or stands still.
const SILENT: Duration = Duration::from_millis(200);
/// A server may take so many times as long as with a quarter of the requests. One that is full takes four times as
/// long; one that is slow by nature as long as ever.
const SLOWER: f64 = 3.0;
/// The part of what it may take that is aimed at.
const AIM: f64 = 0.8;
/// How far a window may change the limit.
const CHANGE: f64 = 2.0;
/// An answer within this time lets another request in at once.
const AT_ONCE: Duration = Duration::from_millis(60);
/// What nobody has asked for this long is forgotten.
const STALE: Duration = Duration::from_secs(1);
/// The least limit.
const LEAST: f64 = 2.0;
/// So many slow windows in a row are no chance.
const SLOW: u32 = 2;
/// After so many windows with less than half of it in use, the limit is forgotten.
const CALM: u32 = 10;
/// Powers of two that a number of waiting requests may have.
const OCTAVES: usize = 24;
/// The weight of an answer in what is known of its octave, and of a window in what is usual.
const WEIGHT: f64 = 1.0 / 16.0;
const WEIGHT_OF_WINDOW: f64 = 0.3;
/// Silence for so many times what is usual is a stall, if so many wait at least.
const STALLED: f64 = 4.0;
const STALLED_MIN: u32 = 8;

/// A limit on the requests that wait at one server for their first response, shared by all threads.
///
/// It is learned from the time to the first response, which is compared with the time that the server takes with a
/// quarter of the requests. So a server that is slow whatever it has to do has no limit, and there is no least time that
/// might have been taken while it was full. Who answers promptly has no limit either.
#[derive(Debug)]
pub struct Limit {
    /// Requests that may get lost on their way, and the number of the others.
    waiting: InFlight,
    reliable: AtomicU32,
    /// The most that waited in this window.
    peak: AtomicU32,
    /// As bits; 0: there is none.
    limit: AtomicU64,
    due_at: AtomicU64,
    ends_at: AtomicU64,
    /// When it answered last, or when the first request was sent that waits.
    heard_at: AtomicU64,
    /// Sums of the logarithms of this window's answers.
    times: AtomicU64,
    met: AtomicU64,
    answers: AtomicU64,
    calm: AtomicU32,
    /// Windows in a row that were slow.
    slow: AtomicU32,
    /// What is usual, and what is usual at which number of requests: logarithms as bits, 0: it is not known.
    usual: AtomicU64,
    curve: [AtomicU64; OCTAVES],
}

impl Default for Limit {
    fn default() -> Self {
        Self {
            waiting: InFlight::default(),
            reliable: AtomicU32::new(0),
            peak: AtomicU32::new(0),
            limit: AtomicU64::new(0),
            due_at: AtomicU64::new(0),
            ends_at: AtomicU64::new(0),
            heard_at: AtomicU64::new(0),
            times: AtomicU64::new(0),
            met: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            calm: AtomicU32::new(0),
            slow: AtomicU32::new(0),
            usual: AtomicU64::new(0),
            curve: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Limit {
    /// Whether another request may be sent.
    #[must_use]
    pub fn has_room(&self, now: Duration) -> bool {
        self.look(now);
        self.get(now)
            .is_none_or(|limit| self.in_flight(now) < limit)
    }

    /// Requests that the server may have. If it is silent, those alone that were sent lately or can't be lost.
    fn in_flight(&self, now: Duration) -> u32 {
        let silent = ns(now).saturating_sub(self.heard_at.load(Relaxed));
        if silent < ns(SILENT) {
            return self.waiting();
        }
        let lately = self.waiting.count_within(now.saturating_sub(LOST), now);
        lately.saturating_add(self.reliable.load(Relaxed))
    }

    /// The limit; none: there need not be one.
    #[must_use]
    pub fn get(&self, now: Duration) -> Option<u32> {
        let limit = read(&self.limit).filter(|_| !self.is_stale(ns(now)))?;
        Some(limit as u32)
    }

    fn is_stale(&self, at: u64) -> bool {
        at > self.due_at.load(Relaxed).saturating_add(ns(STALE))
    }

    /// Requests that wait for their first response, without those that are taken for lost.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        let reliable = self.reliable.load(Relaxed);
        self.waiting.count().saturating_add(reliable)
    }

    /// A request is sent, over a transport that is reliable or not. One of the next four is to be told what became of it.
    pub fn begin(&self, now: Duration, is_reliable: bool) -> Wait {
        if is_reliable {
            self.reliable.fetch_add(1, Relaxed);
        } else {
            self.waiting.begin(now);
        }
        let met = self.waiting();
        if read(&self.limit).is_some() {
            self.peak.fetch_max(self.in_flight(now), Relaxed);
        }
        if met == 1 {
            self.heard_at.store(ns(now), Relaxed);
        }
        Wait {
            since: now,
            met,
            is_reliable,
        }
    }

    /// A request has got its first response, which may have been here since so long ago.
    pub fn answered(&self, now: Duration, late: Duration, wait: Wait) {
        let after = now.saturating_sub(wait.since + late);
        self.heard_at.store(ns(now), Relaxed);
        if !wait.is_reliable {
            self.waiting.answer(wait.since);
        }
        self.note(&wait, after);
        self.end(wait);
        if after < AT_ONCE
            && let Some(limit) = read(&self.limit)
        {
            write(&self.limit, limit + 1.0);
        }
    }

    /// A request was refused. A refusal at once tells nothing, and a late one has waited as long as an answer.
    pub fn refused(&self, now: Duration, late: Duration, wait: Wait) {
        if now.saturating_sub(wait.since + late) > PROMPT {
            return self.answered(now, late, wait);
        }
        self.end(wait);
    }

    /// A request is given up that had no response.
    pub fn silent(&self, now: Duration, wait: Wait) {
        self.note(&wait, now.saturating_sub(wait.since));
        self.end(wait);
    }

    /// A request ends that tells nothing.
    pub fn end(&self, wait: Wait) {
        if wait.is_reliable {
            self.reliable.fetch_sub(1, Relaxed);
        } else {
            self.waiting.end(wait.since);
        }
    }

    /// Notes how long a request has waited. What answers one that was lost is the answer to a copy.
    fn note(&self, wait: &Wait, after: Duration) {
        if !wait.is_reliable && self.waiting.is_lost(wait.since) {
            return;
        }
        let (time, met) = (log(ns(after) as f64), wait.met.max(1));
        self.times.fetch_add((time * PART) as u64, Relaxed);
        self.met.fetch_add((log(met.into()) * PART) as u64, Relaxed);
        self.answers.fetch_add(1, Relaxed);
        let octave = (met.ilog2() as usize).min(OCTAVES - 1);
        approach(&self.curve[octave], time, WEIGHT);
    }

    /// Looks at a window when it is over.
    fn look(&self, now: Duration) {
        let (at, due) = (ns(now), self.due_at.load(Relaxed));
        let is_enough = |answers: u64| {
            answers == 0 || answers >= ANSWERS_MIN || at >= self.ends_at.load(Relaxed)
        };
        let is_over = at >= due && is_enough(self.answers.load(Relaxed));
        let next = ns(now + WINDOW);
        let is_ours = || {
            let taken = self.due_at.compare_exchange(due, next, Relaxed, Relaxed);
            taken.is_ok()
        };
        if !is_over {
            return;
        }
        if self.is_stale(at) {
            self.forget();
        }
        if is_ours() {
            self.ends_at.store(ns(now + WINDOW_MAX), Relaxed);
            self.next(at);
        }
    }

    /// Forgets all but how long the server takes with how many requests.
    fn forget(&self) {
        for count in [&self.limit, &self.times, &self.met, &self.answers] {
            count.store(0, Relaxed);
        }
        for count in [&self.peak, &self.calm, &self.slow] {
            count.store(0, Relaxed);
        }
    }

    fn next(&self, at: u64) {
        let in_flight = self.in_flight(Duration::from_nanos(at));
        let peak = self.peak.swap(in_flight, Relaxed);
        let answers = self.answers.swap(0, Relaxed);
        let (times, met) = (self.times.swap(0, Relaxed), self.met.swap(0, Relaxed));
        if answers == 0 {
            return self.on_silence(at);
        }
        let (time, met) = (mean(times, answers), mean(met, answers));
        let octave = (met as usize).min(OCTAVES - 1);
        let wanted = self.wanted(time.exp2(), met.exp2(), octave);
        approach(&self.usual, time, WEIGHT_OF_WINDOW);
        self.set(wanted, peak);
    }

    /// How many may wait, and whether that many are too many already: by Little's law, as many as are answered in the
    /// time that the server may take.
    fn wanted(&self, time: f64, met: f64, octave: usize) -> Wanted {
        let few = &self.curve[..octave.saturating_sub(1).max(1)];
        let least = few.iter().filter_map(read).reduce(f64::min);
        let allowed = match least {
            Some(least) => (SLOWER * least.exp2()).max(ns(PROMPT) as f64),
            None => (time / AIM).max(ns(PROMPT) as f64),
        };
        Wanted {
            number: (met * AIM * allowed / time).max(LEAST),
            is_slow: octave > 0 && time > allowed,
        }
    }

    fn set(&self, wanted: Wanted, peak: u32) {
        let Wanted { number, is_slow } = wanted;
        let slow = if is_slow {
            self.slow.load(Relaxed) + 1
        } else {
            0
        };
        self.slow.store(slow, Relaxed);
        let Some(limit) = read(&self.limit) else {
            if slow >= SLOW {
                self.calm.store(0, Relaxed);
                write(&self.limit, number);
            }
            return;
        };
        let is_in_use = f64::from(peak) * 2.0 > limit;
        if is_slow || is_in_use {
            self.calm.store(0, Relaxed);
        } else if self.calm.fetch_add(1, Relaxed) + 1 >= CALM {
            return self.limit.store(0, Relaxed);
        }
        let changed = number.clamp(limit / CHANGE, limit * CHANGE);
        write(&self.limit, changed.max(LEAST));
    }

    /// Nothing was answered for a whole window.
    fn on_silence(&self, at: u64) {
        let waiting = self.waiting();
        let silent = at.saturating_sub(self.heard_at.load(Relaxed)) as f64;
        let usual = read(&self.usual).map_or(f64::INFINITY, f64::exp2);
        let is_stalled = silent > (STALLED * usual).max(ns(PROMPT) as f64);
        if is_stalled && waiting >= STALLED_MIN {
            let limit = read(&self.limit).unwrap_or_else(|| waiting.into());
            write(&self.limit, (limit / CHANGE).max(LEAST));
            self.calm.store(0, Relaxed);
        }
    }
}

/// A request that waits for its first response.
#[derive(Clone, Debug)]
pub struct Wait {
    /// When it was sent.
    since: Duration,
    /// How many waited then, itself included.
    met: u32,
    /// It went over a reliable transport.
    is_reliable: bool,
}

struct Wanted {
    number: f64,
    is_slow: bool,
}

/// Parts of a logarithm, which are added up as whole numbers.
const PART: f64 = 1024.0;

fn log(value: f64) -> f64 {
    value.max(1.0).log2()
}

/// Brings what is known nearer to a value.
fn approach(known: &AtomicU64, value: f64, weight: f64) {
    let before = read(known).unwrap_or(value);
    write(known, before + (value - before) * weight);
}

fn mean(sum: u64, count: u64) -> f64 {
    sum as f64 / PART / count as f64
}

fn read(bits: &AtomicU64) -> Option<f64> {
    Some(bits.load(Relaxed))
        .filter(|&bits| bits != 0)
        .map(f64::from_bits)
}

fn write(bits: &AtomicU64, value: f64) {
    bits.store(value.max(f64::MIN_POSITIVE).to_bits(), Relaxed);
}

fn ns(time: Duration) -> u64 {
    time.as_nanos() as u64
}
