//! Buckets, logins and bans.

use std::{
    hash::Hasher,
    net::IpAddr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use siphasher::sip::SipHasher13;

use crate::{
    Ban, Notice, Source,
    ban::{BANS_MAX, Bans},
    moments::Moments,
    notice::Notices,
};

/// How long a source is known after a login, or after it has shown that it hears us: as long as the
/// longest usual binding, so that a phone that refreshes stays known.
const KNOWN_FOR: Duration = Duration::from_secs(2 * 3600);

/// Places in the table of bans for each ban: with so many, hardly a ban finds none.
const PLACES_PER_BAN: usize = 4;

/// How much is taken from strangers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Tokens that a source's bucket gets in a second, at least 1.
    pub rate: u32,
    /// Tokens that it holds.
    pub burst: u32,
    /// Failed logins within a minute that are too many, from a source or as a user; at least 1.
    pub logins: u32,
    /// How long a source is banned that had too many.
    pub ban: Duration,
}

impl Default for Rules {
    /// Far from what any phone or exchange needs that is in order.
    fn default() -> Self {
        Self {
            rate: 100,
            burst: 1_000,
            logins: 10,
            ban: Duration::from_secs(600),
        }
    }
}

/// Whether a datagram is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hearing {
    /// It is.
    Heard,
    /// The bucket of its source is empty.
    Limited,
    /// Its source is banned.
    Banned,
}

/// Somebody who shows credentials.
#[derive(Clone, Copy, Debug)]
pub struct Login<'a> {
    /// The address that the datagram has.
    pub from: IpAddr,
    /// The user whom they claim to be; of a bounded length.
    pub user: &'a str,
    /// The realm.
    pub realm: &'a str,
    /// Whether the address has shown that it receives what we send to it.
    pub is_proven: bool,
}

/// What came of a failed login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It is counted, as far as it proves anything.
    Counted,
    /// It was one too many: its source is banned.
    Banned,
    /// The same, but there is no room for another ban.
    BansFull,
}

/// What is known of sources, shared by all threads.
#[derive(Debug)]
pub struct Guard {
    hasher: SipHasher13,
    /// When the bucket of a source is full again.
    buckets: Moments,
    /// The same of the failed logins of sources and users.
    failures: Moments,
    /// Until when sources are known.
    known: Moments,
    banned: Moments,
    /// Until when somebody may be banned or have an empty bucket: nobody is looked up after that.
    watchful_until: AtomicU64,
    bans: Mutex<Bans>,
    notices: Mutex<Notices>,
}

/// What a key stands for in a table that has several kinds.
#[derive(Clone, Copy)]
enum Kind {
    FailedFrom,
    FailedAs,
    LoggedIn,
    LoggedInAs,
    HearsUs,
}

impl Kind {
    /// The key of this kind: one keyed hash serves for all kinds.
    fn of(self, hash: u64) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        hash ^ (self as u64 + 1).wrapping_mul(ODD)
    }
}

impl Guard {
    /// Follows about so many sources at a time, as many failed logins, and as many known sources: 16 bytes
    /// for each of them. The key decides where they stand in the tables.
    #[must_use]
    pub fn new(key: &[u8; 16], sources: usize) -> Self {
        Self {
            hasher: SipHasher13::new_with_key(key),
            buckets: Moments::new(sources),
            failures: Moments::new(sources),
            known: Moments::new(sources),
            banned: Moments::new(sources.min(BANS_MAX) * PLACES_PER_BAN),
            watchful_until: AtomicU64::new(0),
            bans: Mutex::default(),
            notices: Mutex::default(),
        }
    }

    /// Whether a datagram from this address shall be looked at.
    #[must_use]
    pub fn hear(&self, now: Duration, rules: &Rules, from: IpAddr) -> Hearing {
        let at = ns(now);
        if at >= self.watchful_until.load(Relaxed) {
            return Hearing::Heard;
        }
        let source = self.source(from.into());
        if self.banned.get(source, at).is_some() {
            return Hearing::Banned;
        }
        let full = self.buckets.get(source, at).unwrap_or(at);
        if rules.is_empty(full - at) && !self.is_known(at, Kind::HearsUs, source) {
            return Hearing::Limited;
        }
        Hearing::Heard
    }

    /// Takes a token from the bucket of this address, for what anybody could have sent in its name.
    pub fn charge(&self, now: Duration, rules: &Rules, from: IpAddr) {
        let source = self.source(from.into());
        let at = ns(now);
        let full = take_token(&self.buckets, source, at, rules.token(), rules.burst);
        if rules.is_empty(full - at) {
            self.watchful_until.fetch_max(full, Relaxed);
        }
    }

    /// This address has shown that it receives what we send to it, by something that only the receiver
    /// knows: its bucket no longer silences it. That says nothing of its failed logins.
    pub fn hears_us(&self, now: Duration, from: IpAddr) {
        let key = Kind::HearsUs.of(self.source(from.into()));
        let half = ns(now + KNOWN_FOR / 2);
        if self.known.get(key, half).is_none() {
            self.known.set_moment(key, ns(now + KNOWN_FOR));
        }
    }

    /// Whether this address has shown lately that it receives what we send to it.
    #[must_use]
    pub fn has_heard_us(&self, now: Duration, from: IpAddr) -> bool {
        self.is_known(ns(now), Kind::HearsUs, self.source(from.into()))
    }

    /// Whether the credentials of a login shall be looked at. They are not if its address is banned, which shows only here
    /// behind an edge, or if the user is being guessed at, unless the user has logged in from there lately. A user who is
    /// unknown is treated alike.
    #[must_use]
    pub fn may_log_in(&self, now: Duration, rules: &Rules, login: &Login<'_>) -> bool {
        let at = ns(now);
        let user = self.user(login);
        let forgiven = self.failures.get(Kind::FailedAs.of(user), at).unwrap_or(at);
        let source = self.source(login.from.into());
        self.banned.get(source, at).is_none()
            && (!rules.are_too_many(forgiven - at)
                || self.is_known(at, Kind::LoggedInAs, source ^ user))
    }

    /// The credentials of a login were right.
    pub fn logged_in(&self, now: Duration, login: &Login<'_>) {
        if !login.is_proven {
            return;
        }
        self.hears_us(now, login.from);
        let source = self.source(login.from.into());
        let pair = source ^ self.user(login);
        for key in [Kind::LoggedIn.of(source), Kind::LoggedInAs.of(pair)] {
            self.known.set_moment(key, ns(now + KNOWN_FOR));
        }
    }

    /// The credentials of a login were wrong.
    pub fn login_failed(&self, now: Duration, rules: &Rules, login: &Login<'_>) -> Failure {
        let (at, source) = (ns(now), self.source(login.from.into()));
        let is_held_against = login.is_proven && !self.is_known(at, Kind::LoggedIn, source);
        lock(&self.notices).push(Notice::LoginFailed {
            from: login.from.to_canonical(),
            user: login.user.into(),
            realm: login.realm.into(),
            is_held_against,
        });
        let take = |key| take_token(&self.failures, key, at, rules.login(), rules.logins);
        take(Kind::FailedAs.of(self.user(login)));
        if !is_held_against {
            return Failure::Counted;
        }
        let forgiven = take(Kind::FailedFrom.of(source));
        if !rules.are_too_many(forgiven - at) {
            return Failure::Counted;
        }
        self.ban(Ban {
            source: login.from.into(),
            since: now,
            until: now + rules.ban,
            last_user: login.user.into(),
        })
    }

    fn ban(&self, ban: Ban) -> Failure {
        let source = self.source(ban.source);
        let (since, until) = (ns(ban.since), ns(ban.until));
        let mut bans = lock(&self.bans);
        if !bans.has_room(ban.since, ban.source) || !self.banned.set_if_room(source, until, since) {
            return Failure::BansFull;
        }
        self.watchful_until.fetch_max(until, Relaxed);
        bans.add(ban.clone());
        drop(bans);
        lock(&self.notices).push(Notice::Banned(ban));
        Failure::Banned
    }

    /// The bans that have not ended, by source.
    #[must_use]
    pub fn bans(&self, now: Duration) -> Vec<Ban> {
        lock(&self.bans).list(now).cloned().collect()
    }

    /// Lifts the ban of a source and forgets its failed logins. Returns whether there was a ban.
    pub fn unban(&self, now: Duration, source: Source) -> bool {
        let lifted = lock(&self.bans).remove(source);
        let key = self.source(source);
        self.banned.remove(key);
        self.failures.remove(Kind::FailedFrom.of(key));
        let is_lifted = lifted.is_some_and(|ban| ban.until > now);
        if is_lifted {
            lock(&self.notices).push(Notice::Unbanned(source));
        }
        is_lifted
    }

    /// What has happened since it was asked last, in order, and how much of it had no room.
    pub fn take_notices(&self) -> (Vec<Notice>, u64) {
        lock(&self.notices).take()
    }

    /// Sources whose buckets are not full. It reads the whole table.
    #[must_use]
    pub fn followed(&self, now: Duration) -> usize {
        self.buckets.count(ns(now))
    }

    fn is_known(&self, at: u64, as_what: Kind, source: u64) -> bool {
        self.known.get(as_what.of(source), at).is_some()
    }

    /// A source as the tables know it.
    fn source(&self, source: Source) -> u64 {
        let mut hasher = self.hasher;
        hasher.write(&source.octets());
        hasher.finish()
    }

    /// The same of the user of a login, wherever they come from.
    fn user(&self, login: &Login<'_>) -> u64 {
        let mut hasher = self.hasher;
        hasher.write(login.user.as_bytes());
        hasher.write_u8(b'@');
        hasher.write(login.realm.as_bytes());
        hasher.finish()
    }
}

impl Rules {
    /// The time in which a bucket gets a token.
    fn token(&self) -> u64 {
        1_000_000_000 / u64::from(self.rate.max(1))
    }

    /// Whether a bucket is empty that is full again after this time.
    fn is_empty(&self, left: u64) -> bool {
        left > self.token() * u64::from(self.burst)
    }

    /// The time in which a failed login is forgiven.
    fn login(&self) -> u64 {
        60_000_000_000 / u64::from(self.logins.max(1))
    }

    /// Whether there were too many failed logins, if so much time is left until all are forgiven.
    fn are_too_many(&self, left: u64) -> bool {
        left > self.login() * u64::from(self.logins.saturating_sub(1))
    }
}

/// Takes a token from the bucket of a key; returns when it is full again. A bucket lacks at most one
/// token more than it holds.
fn take_token(buckets: &Moments, key: u64, now: u64, token: u64, burst: u32) -> u64 {
    let full = buckets.get(key, now).unwrap_or(now);
    let full = (full + token).min(now + token * (u64::from(burst) + 1));
    buckets.set_moment(key, full);
    full
}

fn ns(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// No lock is held while anything can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
