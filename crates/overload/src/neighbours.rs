//! Those that send to a server: what they offer, and what they are told.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{
            AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed,
        },
    },
    time::Duration,
};

use crate::{
    allotment::Allotment,
    terms::{Algorithm, Terms, pack, unpack},
};

/// Neighbours that are followed at most. Full: who was silent for longest is forgotten for a new one,
/// if it was silent for a second.
pub const NEIGHBOURS_MAX: usize = 1_024;

/// How often the capacity is divided anew.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// Who is silent for so long is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// Who is silent for so long may be forgotten for another.
const REPLACED_AFTER: Duration = Duration::from_secs(1);

/// Places that a neighbour may have.
const WAYS: usize = 8;

/// The number of all those together that have no place of their own.
const OTHERS: usize = NEIGHBOURS_MAX;

/// Those without a place claim what is counted, and one request more for each so many, as they would send more if they could.
const MORE_OF_OTHERS: u32 = 4;

/// Who goes to several servers behind, and found room at one of them, may find it there for so long.
const ROOM_FOR: Duration = Duration::from_secs(30);

/// No neighbour, no capacity.
const NONE: u64 = 0;

/// One of those that send to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// A keyed hash of its address.
    pub key: u64,
    /// Its part of the capacity, relative to the others'.
    pub weight: u16,
}

/// Those that send to a server, shared by all of its threads.
///
/// All that have no place of their own count as one neighbour, of weight 1.
#[derive(Debug)]
pub struct Neighbours {
    places: Box<[Place]>,
    others: AtomicU32,
    followed: AtomicUsize,
    /// What each thread can serve in a second, as bits.
    capacities: Box<[AtomicU64]>,
    /// When the capacity is divided next, and when it was last.
    due_at: AtomicU64,
    divided_at: AtomicU64,
    division: Mutex<Division>,
    /// When somebody behind the server had no room any more for all that came: nanoseconds.
    full_at: AtomicU64,
    /// Whether they were told to send less.
    are_restricted: AtomicBool,
    /// The algorithm that is chosen where a neighbour knows both.
    preferred: AtomicU8,
}

#[derive(Debug, Default)]
struct Place {
    key: AtomicU64,
    offered: AtomicU32,
    /// Of these, which nobody behind had room for.
    in_vain: AtomicU32,
    /// When one went to somebody behind who had room for all: nanoseconds.
    freely_at: AtomicU64,
    algorithm: AtomicU8,
    weight: AtomicU16,
    /// When it was heard last, in units of [`INTERVAL`].
    heard: AtomicU32,
    terms: AtomicU64,
    /// Whether it sends what it may, and whether it sends more for long.
    obeys: AtomicBool,
    overruns: AtomicBool,
}

#[derive(Debug)]
struct Division {
    allotment: Allotment,
    /// Whom the allotment's numbers stand for.
    keys: Box<[u64]>,
}

impl Neighbours {
    /// For a server of so many threads.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        let mut allotment = Allotment::new(NEIGHBOURS_MAX + 1);
        allotment.join(OTHERS);
        Self {
            places: (0..NEIGHBOURS_MAX).map(|_| Place::default()).collect(),
            others: AtomicU32::new(0),
            followed: AtomicUsize::new(0),
            capacities: (0..workers).map(|_| AtomicU64::new(NONE)).collect(),
            due_at: AtomicU64::new(0),
            divided_at: AtomicU64::new(0),
            division: Mutex::new(Division {
                allotment,
                keys: vec![NONE; NEIGHBOURS_MAX].into(),
            }),
            full_at: AtomicU64::new(0),
            are_restricted: AtomicBool::new(false),
            preferred: AtomicU8::new(number(Some(Algorithm::Rate))),
        }
    }

    /// Tells how many new requests per second a thread can serve. None: all that come. The first one that can't has neighbours told
    /// at once.
    ///
    /// # Panics
    /// If there is no such thread.
    pub fn set_capacity(&self, worker: usize, per_s: Option<f64>) {
        let bits = per_s.map_or(NONE, |per_s| per_s.max(f64::MIN_POSITIVE).to_bits());
        if bits != NONE && !self.is_over() {
            self.due_at.store(0, Relaxed);
        }
        self.capacities[worker].store(bits, Relaxed);
    }

    /// Has neighbours that know both algorithms obey this one: at first the rate, which holds whatever their
    /// callers do. RFC 7339 §5.8: it shall last an hour.
    pub fn prefer(&self, algorithm: Algorithm) {
        self.preferred.store(number(Some(algorithm)), Relaxed);
    }

    /// Which algorithm a neighbour shall obey that knows these.
    #[must_use]
    pub fn choose(&self, has_loss: bool, has_rate: bool) -> Option<Algorithm> {
        match (has_loss, has_rate) {
            (true, true) => algorithm(self.preferred.load(Relaxed)),
            (true, false) => Some(Algorithm::Loss),
            (false, true) => Some(Algorithm::Rate),
            (false, false) => None,
        }
    }

    /// What all threads can serve in a second. A thread that is not over counts as the mean of those
    /// that are, since each of them gets the same part of the requests. None: no thread is over.
    #[must_use]
    pub fn capacity(&self) -> Option<f64> {
        let (mut sum, mut over) = (0.0, 0_usize);
        for capacity in &self.capacities {
            let bits = capacity.load(Relaxed);
            if bits != NONE {
                sum += f64::from_bits(bits);
                over += 1;
            }
        }
        (over > 0).then(|| sum * self.capacities.len() as f64 / over as f64)
    }

    /// Whether a thread can't serve all that comes.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let mut capacities = self.capacities.iter();
        capacities.any(|capacity| capacity.load(Relaxed) != NONE)
    }

    /// Whether neighbours were told to send less: what comes does not tell what would come.
    #[must_use]
    pub fn are_restricted(&self) -> bool {
        self.are_restricted.load(Relaxed)
    }

    /// Whether nobody has a place.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.followed.load(Relaxed) == 0
    }

    /// A neighbour sent so many new requests; none: something else. No algorithm: this
    /// one offered none.
    pub fn note(&self, now: Duration, of: Neighbour, algorithm: Option<Algorithm>, new: u32) {
        let key = of.key.max(1);
        match self.find(key).or_else(|| self.join(now, key)) {
            Some(place) => {
                let place = &self.places[place];
                place.weight.store(of.weight, Relaxed);
                // Who offers it with some requests takes part with all.
                if algorithm.is_some() {
                    place.algorithm.store(number(algorithm), Relaxed);
                }
                place.heard.store(tick(now), Relaxed);
                if new > 0 {
                    place.offered.fetch_add(new, Relaxed);
                }
            }
            None => self.note_others(now, new),
        }
        self.divide_if_due(now);
    }

    /// Nobody behind the server had room for a new request of a neighbour.
    pub fn note_in_vain(&self, key: u64) {
        if let Some(place) = self.find(key.max(1)) {
            self.places[place].in_vain.fetch_add(1, Relaxed);
        }
    }

    /// A new request of a neighbour went to somebody behind the server who has room for all that comes.
    pub fn note_freely(&self, now: Duration, key: u64) {
        if let Some(place) = self.find(key.max(1)) {
            self.places[place].freely_at.store(ns(now), Relaxed);
        }
    }

    /// Somebody behind the server who had room for all has none for some.
    pub fn note_full(&self, now: Duration) {
        self.full_at.store(ns(now), Relaxed);
    }

    /// Whether somebody behind the server still has room for more of what found room there at that time.
    #[must_use]
    pub fn may_find_room(&self, now: Duration, freely_at: Duration) -> bool {
        let full_at = Duration::from_nanos(self.full_at.load(Relaxed));
        full_at < freely_at && now < freely_at + ROOM_FOR
    }

    /// Somebody without a place of their own sent so many new requests.
    pub fn note_others(&self, now: Duration, new: u32) {
        self.others.fetch_add(new, Relaxed);
        self.divide_if_due(now);
    }

    /// What to tell a neighbour; the sequence number is the time of the division in nanoseconds. None: it does
    /// not take part.
    #[must_use]
    pub fn terms(&self, now: Duration, key: u64) -> Option<Terms> {
        if self.is_empty() {
            return None;
        }
        let place = &self.places[self.find(key.max(1))?];
        let algorithm = algorithm(place.algorithm.load(Relaxed))?;
        self.divide_if_due(now);
        let sequence = Some(self.divided_at.load(Relaxed));
        let terms = unpack(place.terms.load(Relaxed), sequence);
        // Nothing was divided yet with this algorithm: it doesn't restrict.
        let is_of_it = terms.algorithm == algorithm;
        Some(Terms {
            algorithm,
            validity: if is_of_it {
                terms.validity
            } else {
                Duration::ZERO
            },
            ..terms
        })
    }

    /// What a neighbour may send in a second, as it was divided last; infinite if the server is not over. It takes a lock.
    #[must_use]
    pub fn granted(&self, key: u64) -> f64 {
        let number = self.find(key.max(1)).unwrap_or(OTHERS);
        let division = self.division.lock().unwrap_or_else(PoisonError::into_inner);
        division.allotment.granted(number)
    }

    /// Whether a neighbour was told how much to send, and sends no more: what it sends is limited already.
    #[must_use]
    pub fn obeys(&self, key: u64) -> bool {
        let place = || self.find(key.max(1));
        self.are_restricted() && place().is_some_and(|place| self.places[place].obeys.load(Relaxed))
    }

    /// Whether a neighbour sends more than its share, and nothing that it is told will change that.
    #[must_use]
    pub fn overruns(&self, key: u64) -> bool {
        let place = || self.find(key.max(1));
        self.are_restricted()
            && place().is_some_and(|place| self.places[place].overruns.load(Relaxed))
    }

    /// How many neighbours have a place.
    #[must_use]
    pub fn followed(&self) -> usize {
        self.followed.load(Relaxed)
    }

    fn ways(&self, key: u64) -> impl Iterator<Item = usize> {
        let first = (key % NEIGHBOURS_MAX as u64) as usize;
        (first..first + WAYS).map(|place| place % NEIGHBOURS_MAX)
    }

    fn find(&self, key: u64) -> Option<usize> {
        self.ways(key)
            .find(|&place| self.places[place].key.load(Relaxed) == key)
    }

    fn join(&self, now: Duration, key: u64) -> Option<usize> {
        let tick = tick(now);
        let rank = |&place: &usize| {
            let place = &self.places[place];
            let is_free = place.key.load(Relaxed) == NONE;
            (!is_free, place.heard.load(Relaxed))
        };
        let place = self.ways(key).min_by_key(rank)?;
        let Place {
            key: of,
            heard,
            offered,
            in_vain,
            freely_at,
            terms,
            algorithm,
            obeys,
            overruns,
            ..
        } = &self.places[place];
        let old = of.load(Relaxed);
        let silent = tick.saturating_sub(heard.load(Relaxed));
        if old != NONE && u128::from(silent) * INTERVAL.as_nanos() < REPLACED_AFTER.as_nanos() {
            return None;
        }
        of.compare_exchange(old, key, Relaxed, Relaxed).ok()?;
        if old == NONE {
            self.followed.fetch_add(1, Relaxed);
        }
        heard.store(tick, Relaxed);
        offered.store(0, Relaxed);
        in_vain.store(0, Relaxed);
        freely_at.store(0, Relaxed);
        terms.store(0, Relaxed);
        obeys.store(false, Relaxed);
        overruns.store(false, Relaxed);
        algorithm.store(number(None), Relaxed);
        Some(place)
    }

    fn divide_if_due(&self, now: Duration) {
        let (at, due_at) = (ns(now), self.due_at.load(Relaxed));
        if at < due_at {
            return;
        }
        let next = ns(now + INTERVAL);
        let is_ours = self
            .due_at
            .compare_exchange(due_at, next, Relaxed, Relaxed)
            .is_ok();
        if is_ours && let Ok(mut division) = self.division.try_lock() {
            self.divide(now, &mut division);
        }
    }

    fn divide(&self, now: Duration, division: &mut Division) {
        let Division { allotment, keys } = division;
        for (number, (place, known)) in self.places.iter().zip(keys.iter_mut()).enumerate() {
            let key = place.key.load(Relaxed);
            if key != *known {
                *known = key;
                allotment.join(number);
            }
            if key == NONE {
                allotment.forget(number);
                continue;
            }
            allotment.weigh(number, place.weight.load(Relaxed).into());
            let algorithm = algorithm(place.algorithm.load(Relaxed));
            allotment.count(number, algorithm, place.offered.swap(0, Relaxed));
            let in_vain = place.in_vain.swap(0, Relaxed);
            let freely_at = Duration::from_nanos(place.freely_at.load(Relaxed));
            allotment.count_in_vain(number, in_vain, self.may_find_room(now, freely_at));
            let silent = tick(now).saturating_sub(place.heard.load(Relaxed));
            if u128::from(silent) * INTERVAL.as_nanos() >= FORGOTTEN_AFTER.as_nanos() {
                self.forget(place, key);
            }
        }
        let others = self.others.swap(0, Relaxed);
        allotment.count(
            OTHERS,
            None,
            others.saturating_add(others.div_ceil(MORE_OF_OTHERS)),
        );
        allotment.allot(now, self.capacity());
        self.are_restricted.store(allotment.is_over(), Relaxed);
        for (number, place) in self.places.iter().enumerate() {
            if let Some(terms) = allotment.terms(number) {
                place.terms.store(pack(&terms), Relaxed);
            }
            place.obeys.store(allotment.obeys(number), Relaxed);
            place.overruns.store(allotment.overruns(number), Relaxed);
        }
        self.divided_at.store(ns(now), Relaxed);
    }

    fn forget(&self, place: &Place, key: u64) {
        let forgotten = place.key.compare_exchange(key, NONE, Relaxed, Relaxed);
        if forgotten.is_ok() {
            self.followed.fetch_sub(1, Relaxed);
        }
    }
}

fn number(algorithm: Option<Algorithm>) -> u8 {
    match algorithm {
        None => 0,
        Some(Algorithm::Loss) => 1,
        Some(Algorithm::Rate) => 2,
    }
}

fn algorithm(number: u8) -> Option<Algorithm> {
    match number {
        1 => Some(Algorithm::Loss),
        2 => Some(Algorithm::Rate),
        _ => None,
    }
}

fn tick(now: Duration) -> u32 {
    (now.as_nanos() / INTERVAL.as_nanos()) as u32
}

fn ns(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn neighbour(key: u64) -> Neighbour {
        Neighbour { key, weight: 1 }
    }

    const RATE: Option<Algorithm> = Some(Algorithm::Rate);

    /// An OPTIONS without an offer took a neighbour out, whose other requests had one.
    #[test]
    fn who_offers_now_and_then_takes_part() {
        let neighbours = Neighbours::new(1);
        neighbours.set_capacity(0, Some(10.0));
        neighbours.note(ms(0), neighbour(1), RATE, 1);
        neighbours.note(ms(1), neighbour(1), None, 1);
        assert!(neighbours.terms(ms(2), 1).is_some());
        assert!(neighbours.terms(ms(2), 2).is_none());
    }

    /// What is granted is let in. Who ignores the terms is found out: at once, or soon if it sends only a little more.
    #[test]
    fn who_sends_more_than_granted_does_not_obey() {
        let neighbours = Neighbours::new(1);
        neighbours.set_capacity(0, Some(300.0));
        let run = |from: u64, to: u64| {
            for tick in from..to {
                // 105 requests per second are granted to each.
                for (key, requests) in [(1, 10), (2, 16), (3, 60)] {
                    neighbours.note(ms(100 * tick), neighbour(key), RATE, requests);
                }
            }
            [1, 2, 3].map(|key| neighbours.obeys(key))
        };
        assert_eq!(run(1, 30), [true, true, false]);
        assert_eq!(run(30, 80), [true, false, false]);
        assert!(!neighbours.obeys(4));
    }

    /// A neighbour that took no part had nine times as much served as those who obeyed.
    #[test]
    fn who_takes_no_part_and_sends_too_much_is_known() {
        let neighbours = Neighbours::new(1);
        neighbours.set_capacity(0, Some(300.0));
        let run = |from: u64, to: u64, excess: u32| {
            for tick in from..to {
                let sent = [
                    (1, RATE, 10),
                    (2, RATE, excess),
                    (3, None, excess),
                    (4, None, 3),
                ];
                for (key, algorithm, requests) in sent {
                    neighbours.note(ms(100 * tick), neighbour(key), algorithm, requests);
                }
            }
            [1, 2, 3, 4].map(|key| neighbours.overruns(key))
        };
        assert_eq!(
            run(1, 20, 60),
            [false, false, true, false],
            "copies may explain the second"
        );
        assert_eq!(run(20, 70, 60), [false, true, true, false]);
        assert_eq!(run(70, 90, 10), [false; 4]);
    }

    /// Those without a place had half of the capacity set aside, though next to nothing of what they sent was served.
    #[test]
    fn those_without_a_place_claim_a_little_more_than_what_is_counted() {
        let neighbours = Neighbours::new(1);
        neighbours.set_capacity(0, Some(100.0));
        for tick in 1..200 {
            neighbours.note_others(ms(100 * tick), 4);
            neighbours.note(ms(100 * tick + 50), neighbour(1), RATE, 20);
        }
        let granted = neighbours.granted(1);
        assert!((granted - 55.0).abs() < 1.0, "{granted}");
        for tick in 200..400 {
            neighbours.note(ms(100 * tick), neighbour(1), RATE, 20);
        }
        let granted = neighbours.granted(1);
        assert!((granted - 105.0).abs() < 1.0, "{granted}");
    }

    /// A neighbour offers up to 200 requests a second. Behind there is room for so many a tick.
    fn offer(neighbours: &Neighbours, ticks: std::ops::Range<u64>, key: u64, room: u32) {
        for tick in ticks {
            let offered = (neighbours.granted(key) / 10.0).min(20.0) as u32;
            (room..offered).for_each(|_| neighbours.note_in_vain(key));
            neighbours.note(ms(100 * tick), neighbour(key), RATE, offered);
        }
    }

    /// The first of three nodes sent on what the last had no room for, and the one between refused it.
    #[test]
    fn who_sends_what_nobody_behind_takes_is_told() {
        let neighbours = Neighbours::new(1);
        offer(&neighbours, 1..50, 1, 10);
        neighbours.note(ms(4_900), neighbour(2), RATE, 1);
        let granted = neighbours.granted(1);
        assert!((100.0..120.0).contains(&granted), "{granted}");
        let terms = neighbours.terms(ms(4_900), 1).unwrap();
        assert!(
            !terms.validity.is_zero() && (100..120).contains(&terms.value),
            "{terms:?}"
        );
        assert!(
            neighbours.granted(2).is_infinite(),
            "its requests find room"
        );
        assert!(
            !neighbours.are_restricted(),
            "the server itself is not over"
        );
        offer(&neighbours, 50..150, 1, 20);
        assert!(
            neighbours.granted(1).is_infinite(),
            "{}",
            neighbours.granted(1)
        );
    }

    /// Who has room behind would get less, too, if the neighbour were told to send less.
    #[test]
    fn who_may_find_room_behind_is_told_nothing() {
        let neighbours = Neighbours::new(1);
        neighbours.note(ms(100), neighbour(1), RATE, 1);
        neighbours.note_full(ms(1_000));
        neighbours.note_freely(ms(2_000), 1);
        offer(&neighbours, 21..100, 1, 10);
        assert!(neighbours.granted(1).is_infinite());
        assert!(neighbours.may_find_room(ms(31_999), ms(2_000)));
        neighbours.note_full(ms(10_000));
        offer(&neighbours, 101..150, 1, 10);
        assert!(neighbours.granted(1) < 115.0, "{}", neighbours.granted(1));
        assert!(
            !neighbours.may_find_room(ms(12_000), ms(2_000)),
            "it is full now"
        );
        assert!(
            !neighbours.may_find_room(ms(45_000), ms(15_000)),
            "long ago"
        );
    }

    #[test]
    fn the_silent_are_forgotten() {
        let neighbours = Neighbours::new(1);
        for key in 1..=20 {
            neighbours.note(ms(key), neighbour(key), RATE, 1);
        }
        assert_eq!(neighbours.followed(), 20);
        for tenths in 1..=110 {
            neighbours.note(ms(100 * tenths), neighbour(7), RATE, 0);
        }
        assert_eq!(neighbours.followed(), 1);
        assert!(neighbours.terms(ms(11_000), 7).is_some());
    }

    /// Keys that share all their places.
    #[test]
    fn who_was_silent_for_longest_makes_room() {
        let neighbours = Neighbours::new(1);
        let key = |number: u64| 1 + number * NEIGHBOURS_MAX as u64;
        for number in 0..WAYS as u64 {
            neighbours.note(ms(number), neighbour(key(number)), RATE, 1);
        }
        neighbours.note(ms(500), neighbour(key(99)), RATE, 1);
        assert!(
            neighbours.terms(ms(500), key(99)).is_none(),
            "all are active"
        );
        for number in 1..WAYS as u64 {
            neighbours.note(ms(1_900), neighbour(key(number)), RATE, 1);
        }
        neighbours.note(ms(2_000), neighbour(key(99)), RATE, 1);
        assert!(neighbours.terms(ms(2_000), key(99)).is_some());
        assert!(neighbours.terms(ms(2_000), key(0)).is_none());
        assert_eq!(neighbours.followed(), WAYS);
    }

    #[test]
    fn a_thread_that_is_not_over_can_serve_as_much_as_those_that_are() {
        let neighbours = Neighbours::new(4);
        assert_eq!(neighbours.capacity(), None);
        neighbours.set_capacity(1, Some(30.0));
        neighbours.set_capacity(2, Some(10.0));
        assert_eq!(neighbours.capacity(), Some(80.0));
        neighbours.set_capacity(1, None);
        neighbours.set_capacity(2, Some(0.0));
        assert!(neighbours.is_over() && neighbours.capacity().unwrap() < 1e-9);
    }
}
