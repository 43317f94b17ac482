//! How a server divides its capacity among those that send to it.

use std::{ops::Add, time::Duration};

use crate::{
    fair::{Demand, level},
    terms::{Algorithm, Terms},
};

/// What is granted in total, relative to the capacity: a little too much keeps the server busy and
/// shows it that there is more.
pub const SURPLUS: f64 = 1.05;

/// The same of those who withhold a part: they send by chance, not evenly, and the part shows that there is more.
const SURPLUS_BY_LOSS: f64 = 1.02;

/// A rate is told from so many requests at least, or from a second: fewer tell little.
const ENOUGH: u32 = 20;
const LONG_ENOUGH: Duration = Duration::from_secs(1);

/// How much of a new measurement goes into what is known.
const GAIN: f64 = 0.5;

/// Who sends so much of its rate would send more if it could.
const GREEDY: f64 = 0.7;

/// What those behind the server take grows by so much from one measurement to the next while they take all.
const RELEASE_BEHIND: f64 = 1.03;

/// Who sends more than this of what was granted does not obey. Copies of requests that were not answered in time explain
/// the rest for a while, and then chance explains no more than the second.
const TOLERANCE: f64 = 2.0;
const LASTING_TOLERANCE: f64 = 1.3;
const A_WHILE: Duration = Duration::from_secs(5);
/// Copies explain nothing of who is told nothing: it is known to send too much after so long.
const A_MOMENT: Duration = Duration::from_millis(300);

/// Requests per second that are as good as none: nothing is set aside for who wants so little.
const IDLE: f64 = 0.1;

/// When the server is not over any more, what is granted to who would send more grows by so much from one division to
/// the next. Near what the server could serve lately it grows slowly at first, then by more and more.
const RELEASE: f64 = 1.25;
const RELEASE_FIRST: f64 = 1.03;
const NEAR: f64 = 0.9;
/// What remains of the most that it could serve after each division.
const FORGETS: f64 = 0.99;
/// Control ends when nobody would send more for so long: what they send is known late.
const FREE_FOR: Duration = Duration::from_secs(1);

/// A loss of 100 % would hide when a neighbour wants less.
const LOSS_MAX: f64 = 0.99;

const VALIDITY_MIN: Duration = Duration::from_secs(2);
const VALIDITY_MAX: Duration = Duration::from_secs(5);

/// Terms hold as long as a neighbour takes to send so many requests: some of their answers renew them.
const RENEWALS: f64 = 4.0;

/// Divides what a server can do among its neighbours, which have small numbers: max-min fair, in
/// proportion to their weights.
///
/// [`Self::count`] tells what a neighbour has offered since the last [`Self::allot`].
#[derive(Debug)]
pub struct Allotment {
    entries: Vec<Entry>,
    demands: Vec<Demand>,
    at: Duration,
    is_over: bool,
    /// The most that the server could serve in a second lately, and by how much grants grow next beyond it.
    known: f64,
    growth: f64,
    /// Since when nobody would send more than is granted.
    free_since: Option<Duration>,
}

#[derive(Clone, Debug)]
struct Entry {
    weight: f64,
    algorithm: Option<Algorithm>,
    is_present: bool,
    window: Window,
    /// Requests per second that it wants to send, as far as its answers to our terms tell.
    wants: Option<f64>,
    /// Requests per second that it sends.
    sends: f64,
    /// Since when these are more than chance explains.
    excess_since: Option<Duration>,
    /// What those behind the server take of its requests in a second; infinite if that is all.
    taken: f64,
    /// What it may send in a second.
    granted: f64,
    /// The part of its requests that it lets pass.
    passes: f64,
    /// The terms' value, and what rounding has left over.
    value: u32,
    rest: f64,
}

/// What was counted since the last measurement.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    count: u32,
    /// Of these, which nobody behind the server had room for.
    in_vain: u32,
    length: Duration,
    /// Seconds, each times the part that the neighbour let pass.
    exposure: f64,
}

impl Entry {
    const ABSENT: Self = Self {
        weight: 1.0,
        algorithm: None,
        is_present: false,
        window: Window {
            count: 0,
            in_vain: 0,
            length: Duration::ZERO,
            exposure: 0.0,
        },
        wants: None,
        sends: 0.0,
        excess_since: None,
        taken: f64::INFINITY,
        granted: f64::INFINITY,
        passes: 1.0,
        value: 0,
        rest: 0.0,
    };
}

impl Allotment {
    /// For neighbours of the numbers below this.
    #[must_use]
    pub fn new(neighbours: usize) -> Self {
        Self {
            entries: vec![Entry::ABSENT; neighbours],
            demands: Vec::with_capacity(neighbours),
            at: Duration::ZERO,
            is_over: false,
            known: 0.0,
            growth: RELEASE_FIRST,
            free_since: None,
        }
    }

    /// A neighbour comes: nothing is known of it.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn join(&mut self, id: usize) {
        self.entries[id] = Entry {
            is_present: true,
            ..Entry::ABSENT
        };
    }

    /// A neighbour's part of the whole, relative to the others'. It is 1 at first.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn weigh(&mut self, id: usize, weight: f64) {
        self.entries[id].weight = weight;
    }

    /// A neighbour is forgotten.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn forget(&mut self, id: usize) {
        self.entries[id] = Entry::ABSENT;
    }

    /// A neighbour has offered so many new requests. No algorithm: it does not obey, and has a share
    /// nevertheless.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn count(&mut self, id: usize, algorithm: Option<Algorithm>, requests: u32) {
        let entry = &mut self.entries[id];
        entry.algorithm = algorithm;
        entry.window.count = entry.window.count.saturating_add(requests);
    }

    /// Nobody behind the server had room for so many of the requests that a neighbour has offered since then.
    /// `may_find_room`: some of its requests go to somebody who has room for more. Then it is told nothing of that, as it
    /// would send less there, too.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn count_in_vain(&mut self, id: usize, requests: u32, may_find_room: bool) {
        let entry = &mut self.entries[id];
        if may_find_room {
            (entry.window.in_vain, entry.taken) = (0, f64::INFINITY);
        } else {
            entry.window.in_vain = entry.window.in_vain.saturating_add(requests);
        }
    }

    /// Divides what the server can serve in a second anew. None: it can serve all that comes.
    pub fn allot(&mut self, now: Duration, capacity_per_s: Option<f64>) {
        let elapsed = now.saturating_sub(self.at);
        self.at = now;
        for entry in self.entries.iter_mut().filter(|entry| entry.is_present) {
            entry.measure(elapsed);
        }
        match capacity_per_s {
            Some(capacity) => {
                self.free_since = None;
                self.divide(capacity);
            }
            None if self.is_over => self.relax(),
            None => self.entries.iter_mut().for_each(Entry::release),
        }
        for entry in &mut self.entries {
            if entry.taken < entry.granted {
                entry.grant(entry.taken);
            }
            entry.excess_since = match entry.sends > LASTING_TOLERANCE * entry.granted {
                true => entry.excess_since.or(Some(now)),
                false => None,
            };
        }
    }

    fn divide(&mut self, capacity: f64) {
        self.is_over = true;
        (self.known, self.growth) = (capacity.max(self.known * FORGETS), RELEASE_FIRST);
        self.demands.clear();
        let wanting = self.entries.iter().filter(|entry| entry.wants_something());
        self.demands.extend(wanting.map(Entry::demand));
        let total = capacity * SURPLUS;
        let weights = self.demands.iter().map(|demand| demand.weight);
        let fair = weights.reduce(f64::add).map_or(total, |all| total / all);
        let level = level(&mut self.demands, total);
        for entry in self.entries.iter_mut().filter(|entry| entry.is_present) {
            let usable = (fair * entry.weight).max(entry.usable());
            let part = entry.surplus() / SURPLUS;
            entry.grant((level * entry.weight).min(usable) * part);
        }
    }

    /// Opens up step by step, so that a moment's relief brings no flood.
    fn relax(&mut self) {
        let mut held_back = false;
        let growth = self.growth();
        for entry in self.entries.iter_mut().filter(|entry| entry.is_held_back()) {
            held_back = true;
            entry.grant(entry.granted * growth);
        }
        let since = *self.free_since.get_or_insert(self.at);
        if held_back {
            self.free_since = None;
        } else if self.at >= since + FREE_FOR {
            self.entries.iter_mut().for_each(Entry::release);
            (self.is_over, self.free_since) = (false, None);
        }
    }

    /// By how much what is granted grows: fast up to what the server could serve lately, then slowly at first.
    fn growth(&mut self) -> f64 {
        let present = self.entries.iter().filter(|entry| entry.is_present);
        let total: f64 = present
            .map(|entry| match entry.is_held_back() {
                true => entry.granted,
                false => entry.sends,
            })
            .sum();
        let up_to_known = NEAR * self.known / total.max(IDLE);
        if up_to_known > self.growth {
            return RELEASE.min(up_to_known);
        }
        let growth = self.growth;
        self.growth = RELEASE.min(growth * growth);
        growth
    }

    /// Whether what neighbours may offer is limited.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// What a neighbour may offer in a second; infinite if the server is not over, and those behind it take all.
    #[must_use]
    pub fn granted(&self, id: usize) -> f64 {
        self.entries[id].granted
    }

    /// Whether a neighbour takes part and sends what it may, and little more.
    #[must_use]
    pub fn obeys(&self, id: usize) -> bool {
        let entry = &self.entries[id];
        let lasts = |since: Duration| since + A_WHILE <= self.at;
        entry.algorithm.is_some()
            && entry.sends <= TOLERANCE * entry.granted
            && !entry.excess_since.is_some_and(lasts)
    }

    /// Whether a neighbour sends more than its share: it takes no part, or has not obeyed for a while.
    #[must_use]
    pub fn overruns(&self, id: usize) -> bool {
        let entry = &self.entries[id];
        let after = match entry.algorithm {
            Some(_) => A_WHILE,
            None => A_MOMENT,
        };
        let lasts = |since: Duration| since + after <= self.at;
        self.is_over && entry.excess_since.is_some_and(lasts)
    }

    /// What to tell a neighbour, without a sequence number. None: it does not take part.
    #[must_use]
    pub fn terms(&self, id: usize) -> Option<Terms> {
        let entry = &self.entries[id];
        let validity = if entry.granted.is_finite() {
            let renewal = RENEWALS / entry.granted.max(1e-3);
            Duration::from_secs_f64(renewal).clamp(VALIDITY_MIN, VALIDITY_MAX)
        } else {
            Duration::ZERO
        };
        Some(Terms {
            algorithm: entry.algorithm?,
            value: entry.value,
            validity,
            sequence: None,
        })
    }
}

impl Entry {
    fn measure(&mut self, elapsed: Duration) {
        let window = &mut self.window;
        window.length += elapsed;
        window.exposure += self.passes * elapsed.as_secs_f64();
        let is_measured = window.count >= ENOUGH || window.length >= LONG_ENOUGH;
        if !is_measured || window.exposure <= 0.0 {
            return;
        }
        let wants = f64::from(window.count) / window.exposure;
        let sends = f64::from(window.count) / window.length.as_secs_f64();
        self.measure_taken();
        self.window = Window::default();
        self.sends += GAIN * (sends - self.sends);
        let known = self.wants.unwrap_or(wants);
        self.wants = Some(known + GAIN * (wants - known));
    }

    /// How many of its requests those behind the server take.
    fn measure_taken(&mut self) {
        let window = &self.window;
        let per_s = |count: u32| f64::from(count) / window.length.as_secs_f64();
        if window.in_vain > 0 {
            let taken = SURPLUS * per_s(window.count.saturating_sub(window.in_vain));
            self.taken = match self.taken.is_finite() {
                true => self.taken + GAIN * (taken - self.taken),
                false => taken,
            };
        } else if per_s(window.count) < GREEDY * self.taken {
            self.taken = f64::INFINITY;
        } else {
            self.taken = RELEASE_BEHIND * self.taken.max(per_s(window.count));
        }
    }

    fn surplus(&self) -> f64 {
        match self.algorithm {
            Some(Algorithm::Loss) => SURPLUS_BY_LOSS,
            Some(Algorithm::Rate) | None => SURPLUS,
        }
    }

    fn wants_something(&self) -> bool {
        self.is_present && (self.window.count > 0 || self.wants.is_some_and(|wants| wants > IDLE))
    }

    /// Whether it would send more if it could.
    fn is_held_back(&self) -> bool {
        let wants = self.wants.unwrap_or(0.0);
        self.is_present
            && match self.algorithm {
                Some(Algorithm::Rate) => wants >= GREEDY * self.granted,
                Some(Algorithm::Loss) => self.value > 0,
                None => false,
            }
    }

    /// What it could use at once, as far as that is known.
    fn usable(&self) -> f64 {
        self.wants
            .map_or(f64::INFINITY, |wants| wants.max(IDLE) / GREEDY)
    }

    /// A neighbour that uses its rate up hides how much it wants.
    fn demand(&self) -> Demand {
        let is_rate = self.algorithm == Some(Algorithm::Rate);
        Demand {
            wants: if is_rate && self.is_held_back() {
                f64::INFINITY
            } else {
                self.wants.unwrap_or(f64::INFINITY)
            },
            weight: self.weight,
        }
    }

    fn grant(&mut self, per_s: f64) {
        self.granted = per_s;
        match self.algorithm {
            Some(Algorithm::Rate) => self.value = self.round(per_s).max(1.0) as u32,
            Some(Algorithm::Loss) => {
                let wants = self.wants.unwrap_or(0.0);
                let loss = (1.0 - per_s / wants.max(per_s)).clamp(0.0, LOSS_MAX);
                let percent = self.round(100.0 * loss).min(100.0 * LOSS_MAX);
                self.value = percent as u32;
                self.passes = 1.0 - percent / 100.0;
            }
            None => self.value = 0,
        }
        if self.algorithm != Some(Algorithm::Loss) {
            self.passes = 1.0;
        }
    }

    /// A whole number. What is rounded off goes into the next one, so that their mean is right.
    fn round(&mut self, exact: f64) -> f64 {
        let rounded = (exact + self.rest).round().max(0.0);
        self.rest = (exact + self.rest - rounded).clamp(-1.0, 1.0);
        rounded
    }

    fn release(&mut self) {
        self.granted = f64::INFINITY;
        (self.value, self.rest, self.passes) = (0, 0.0, 1.0);
    }
}
