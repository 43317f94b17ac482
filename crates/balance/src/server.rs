//! One server: its ledger, its response times and its standing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::cost::Cost;
use crate::elsewhere::Elsewhere;
use crate::hash;
use crate::ledger::Ledger;
use crate::peak::PeakEwma;
use crate::response_times::ResponseTimes;
use crate::standing::{Health, Ineligible, Judge, Standing};
use crate::{Padded, ServerId, nanos};

/// A server. Its pools, and everything that is open on it, share it behind an `Arc`.
///
/// Times (`now`, `until`) count from the driver's zero. A new server is up and has nothing open.
#[derive(Debug)]
pub struct Server {
    ledger: Padded<Ledger>,
    standing: Padded<Standing>,
    first_responses: Padded<ResponseTimes>,
    final_responses: Padded<ResponseTimes>,
    first_response_peak: Padded<PeakEwma>,
    final_response_peak: Padded<PeakEwma>,
    backlog: AtomicU64,
    id: ServerId,
    name: Box<str>,
    name_hash: u64,
}

impl Server {
    /// A server with nothing open. `user-hash` ranks it by its name, which is usually its address.
    ///
    /// # Panics
    /// If the capacity is not within [`CAPACITY`](crate::CAPACITY).
    pub fn new(id: ServerId, name: &str, capacity: f64) -> Self {
        Self {
            ledger: Padded::default(),
            standing: Padded(Standing::new(capacity)),
            first_responses: Padded::default(),
            final_responses: Padded::default(),
            first_response_peak: Padded::default(),
            final_response_peak: Padded::default(),
            backlog: AtomicU64::new(0),
            id,
            name: name.into(),
            name_hash: hash::fnv1a(name.as_bytes()),
        }
    }

    /// Its number.
    pub fn id(&self) -> ServerId {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn name_hash(&self) -> u64 {
        self.name_hash
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger.0
    }

    pub(crate) fn standing(&self) -> &Standing {
        &self.standing.0
    }
}

/// The ledger: what is open on the server. Each opening is closed exactly once.
impl Server {
    /// Counts a call that no pool placed here, such as one found again after a restart.
    pub fn open_call(&self) {
        self.ledger().open_call();
    }

    /// Counts the end of a call.
    pub fn close_call(&self) {
        self.ledger().close_call();
    }

    /// Counts a transaction within a call, or one that affinity sent here.
    pub fn open_transaction(&self, cost: Cost) {
        self.ledger().open_transaction(cost);
    }

    /// Counts the end of a transaction; `cost` is the cost with which it was opened.
    pub fn close_transaction(&self, cost: Cost) {
        self.ledger().close_transaction(cost);
    }

    /// Open calls.
    pub fn calls(&self) -> u64 {
        self.ledger().calls()
    }

    /// Open transactions.
    pub fn transactions(&self) -> u64 {
        self.ledger().open().transactions()
    }

    /// The cost of the open transactions; 1.0 is a BYE.
    pub fn work(&self) -> f64 {
        self.ledger().open().work()
    }

    /// Arrivals that pools placed here since the start.
    pub fn placed(&self) -> u64 {
        self.ledger().placed()
    }

    /// Failures counted by [`count_failed`](Self::count_failed) since the start.
    pub fn failed(&self) -> u64 {
        self.ledger().failed()
    }

    /// Counts a transaction that the server failed: a timeout, a transport error, a 5xx.
    pub fn count_failed(&self) {
        self.ledger().count_failed();
    }

    /// Closings without an opening. Anything but zero is a bug of the caller.
    pub fn underflows(&self) -> u64 {
        self.ledger().underflows()
    }
}

/// Several balancers before the same servers.
impl Server {
    /// Stores the latest report of what other balancers have open here. Policies that compare
    /// counts add it to our own counts.
    pub fn set_elsewhere(&self, elsewhere: Elsewhere) {
        self.standing().elsewhere().set(elsewhere);
    }

    /// The latest report of what other balancers have open here.
    pub fn elsewhere(&self) -> Elsewhere {
        self.standing().elsewhere().get()
    }

    /// Sets our preference for this server, 0 to 1, among servers that the policy finds equal.
    /// Balancers that prefer different servers collide less. New servers have 1.
    pub fn set_preference(&self, preference: f64) {
        self.standing().elsewhere().set_preference(preference);
    }

    /// Open calls, ours and others'.
    pub(crate) fn calls_anywhere(&self) -> u64 {
        self.calls() + self.standing().elsewhere().calls()
    }
}

/// Response times: means of the last 20 samples with linear weights, 20 for the newest, and means
/// that rise at once to a sample above them and fall slowly.
impl Server {
    /// Records the time from a request to its first response. Times over an hour saturate.
    pub fn first_response(&self, now: Duration, after: Duration) {
        self.first_responses.0.record(after);
        self.first_response_peak.0.record(nanos(now), after);
    }

    /// Records the time from a request to its final response. Times over an hour saturate.
    pub fn final_response(&self, now: Duration, after: Duration) {
        self.final_responses.0.record(after);
        self.final_response_peak.0.record(nanos(now), after);
    }

    /// The weighted mean time to the first response; `None` before the first sample.
    pub fn first_response_time(&self) -> Option<Duration> {
        self.first_responses.0.mean()
    }

    /// The weighted mean time to the final response; `None` before the first sample.
    pub fn final_response_time(&self) -> Option<Duration> {
        self.final_responses.0.mean()
    }

    pub(crate) fn first_response_peak(&self) -> &PeakEwma {
        &self.first_response_peak.0
    }

    pub(crate) fn final_response_peak(&self) -> &PeakEwma {
        &self.final_response_peak.0
    }

    /// Sets the server's real backlog: how long it would be busy if no more requests came. Only a
    /// simulator knows it, for `oracle`.
    pub fn set_backlog(&self, backlog: Duration) {
        self.backlog.store(nanos(backlog), Relaxed);
    }

    /// The value of [`set_backlog`](Self::set_backlog).
    pub fn backlog(&self) -> Duration {
        Duration::from_nanos(self.backlog.load(Relaxed))
    }
}

/// Capacity and administration.
impl Server {
    /// The configured capacity, relative to the other servers'.
    pub fn capacity(&self) -> f64 {
        self.standing().capacity()
    }

    /// Changes the capacity. Open calls and transactions stay open.
    ///
    /// # Panics
    /// If the capacity is not within [`CAPACITY`](crate::CAPACITY).
    pub fn set_capacity(&self, capacity: f64) {
        self.standing().set_capacity(capacity);
    }

    /// The effective capacity at `now`. During `slow_start` after the server came up, was undrained
    /// or was added, it rises evenly from a tenth to the whole.
    pub fn effective_capacity(&self, now: Duration, slow_start: Duration) -> f64 {
        self.capacity() * self.standing().share(nanos(now), nanos(slow_start))
    }

    /// Stops new calls to the server; open calls continue.
    pub fn drain(&self) {
        self.standing().drain();
    }

    /// Ends draining, with a slow start.
    pub fn undrain(&self, now: Duration) {
        self.standing().undrain(nanos(now));
    }

    /// Whether it drains.
    pub fn is_draining(&self) -> bool {
        self.standing().is_draining()
    }

    /// Records that the server left the configuration: it gets no new calls, but its open calls
    /// continue.
    pub fn remove(&self) {
        self.standing().remove();
    }

    /// Records that the server joined the configuration at run time: it is up until something else
    /// is known, and a slow start begins.
    pub fn add(&self, now: Duration) {
        self.ledger().forget_heard();
        self.standing().add(nanos(now));
    }

    /// Whether it has left the configuration.
    pub fn is_removed(&self) -> bool {
        self.standing().is_removed()
    }
}

/// Health. Failures in a row take a server down. Probes or calls bring it up, as its [`Judge`] says.
/// Methods that can change the health return whether they did, so that exactly one caller reports
/// the change.
impl Server {
    /// Whether the server seems to answer.
    pub fn health(&self) -> Health {
        if self.standing().is_up() {
            Health::Up
        } else {
            Health::Down
        }
    }

    /// Records that the server answered something that only it can have received.
    pub fn hear(&self, now: Duration) {
        self.ledger().hear(nanos(now));
    }

    /// Whether the server answered anything at this time or later.
    pub fn is_heard_since(&self, since: Duration) -> bool {
        self.ledger().heard_at() >= nanos(since).max(1)
    }

    /// Whether the server ever answered anything.
    pub fn is_known(&self) -> bool {
        self.ledger().heard_at() != 0
    }

    /// Counts a successful probe: the `rise`th in a row brings the server up, with a slow start.
    pub fn probe_passed(&self, now: Duration, rise: u32) -> bool {
        self.standing().probe_passed(nanos(now), rise)
    }

    /// Counts a failed probe: the `fall`th in a row takes the server down, until probes succeed.
    pub fn probe_failed(&self, now: Duration, fall: u32) -> bool {
        self.standing().probe_failed(nanos(now), fall)
    }

    /// Records that nobody listens at the server's address. The server is down at once.
    pub fn unreachable(&self, now: Duration, judge: Judge) -> bool {
        self.standing().unreachable(nanos(now), judge)
    }

    /// Counts an unanswered request of a server without probes: the `fall`th in a row takes it down.
    /// After [`RETRY_AFTER`](crate::RETRY_AFTER) a call tries it.
    pub fn timed_out(&self, now: Duration, fall: u32) -> bool {
        self.standing().timed_out(nanos(now), fall)
    }

    /// Records that the server answered a request with anything but 503: failures count from zero
    /// again, and a server without probes is up.
    pub fn answered(&self, now: Duration) -> bool {
        self.standing().answered(nanos(now))
    }

    /// Records that probes have ended. If they took the server down, the next call tries it.
    pub fn judge_by_calls(&self, now: Duration) {
        self.standing().judge_by_calls(nanos(now));
    }

    /// Records that the server refused a call and asked for no new calls for this time; `call` is a
    /// hash of the call. When three calls in a row say so within 10 s, the server gets no new calls
    /// for this time, at most [`BACK_OFF_MAX`](crate::BACK_OFF_MAX). Returns whether it is so.
    pub fn back_off(&self, now: Duration, call: u64, wish: Duration) -> bool {
        self.standing().back_off(nanos(now), call, nanos(wish))
    }

    /// Records that the server did more for a call than to refuse it: earlier wishes to be left alone
    /// count no more.
    pub fn serves(&self) {
        self.standing().serves();
    }

    /// Whether it may get new calls: it is in the configuration and up, and neither drains nor
    /// backs off.
    pub fn is_eligible(&self, now: Duration) -> bool {
        self.eligibility(now).is_ok()
    }

    /// Like [`Self::is_eligible`], with the reason.
    ///
    /// # Errors
    /// The first reason that holds, in the order of [`Ineligible`].
    pub fn eligibility(&self, now: Duration) -> Result<(), Ineligible> {
        self.standing().eligibility(nanos(now))
    }
}
