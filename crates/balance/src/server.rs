//! One server: its ledger, its response times and its standing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::cost::Cost;
use crate::elsewhere::Elsewhere;
use crate::hash;
use crate::ledger::Ledger;
use crate::peak::PeakEwma;
use crate::response_times::ResponseTimes;
use crate::standing::{Health, Ineligible, Standing};
use crate::{Padded, ServerId, nanos};

/// One server, shared behind an `Arc` by the pools it is in and by everything open on it.
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
    /// A server with nothing open. Its name, usually its address, is what `user-hash` ranks it by.
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
    /// Counts a call that was not placed here by a pool, such as one met again after a restart.
    pub fn open_call(&self) {
        self.ledger().open_call();
    }

    /// A call ended.
    pub fn close_call(&self) {
        self.ledger().close_call();
    }

    /// Counts a transaction within a call, or one that affinity sent here.
    pub fn open_transaction(&self, cost: Cost) {
        self.ledger().open_transaction(cost);
    }

    /// A transaction ended; `cost` is what it was opened with.
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

    /// Arrivals that pools have placed here since the start.
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

    /// Closings without an opening; anything but zero is a bug of the caller.
    pub fn underflows(&self) -> u64 {
        self.ledger().underflows()
    }
}

/// Several balancers before the same servers.
impl Server {
    /// Takes what other balancers have open here, as they said last; the policies that compare
    /// counts add it to our own.
    pub fn set_elsewhere(&self, elsewhere: Elsewhere) {
        self.standing().elsewhere().set(elsewhere);
    }

    /// What other balancers have open here, as they said last.
    pub fn elsewhere(&self) -> Elsewhere {
        self.standing().elsewhere().get()
    }

    /// Makes this server ours to prefer to this degree, 0 to 1, among servers that the policy
    /// thinks equal: balancers that prefer different servers collide less. New servers have 1.
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

    /// Tells what the server has really left to do: how long it would be busy if nothing more came.
    /// Only a simulator knows it, for `oracle` to compare.
    pub fn set_backlog(&self, backlog: Duration) {
        self.backlog.store(nanos(backlog), Relaxed);
    }

    /// What [`set_backlog`](Self::set_backlog) told.
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

    /// Changes the capacity; what is open stays open.
    ///
    /// # Panics
    /// If the capacity is not within [`CAPACITY`](crate::CAPACITY).
    pub fn set_capacity(&self, capacity: f64) {
        self.standing().set_capacity(capacity);
    }

    /// The capacity that counts at `now`: it rises evenly from a tenth to the whole during
    /// `slow_start` after the server came up, was undrained or was added.
    pub fn effective_capacity(&self, now: Duration, slow_start: Duration) -> f64 {
        self.capacity() * self.standing().share(nanos(now), nanos(slow_start))
    }

    /// No new calls from here on; open ones go on.
    pub fn drain(&self) {
        self.standing().drain();
    }

    /// Ends draining, with a slow start.
    pub fn undrain(&self, now: Duration) {
        self.standing().undrain(nanos(now));
    }

    /// Whether it is being drained.
    pub fn is_draining(&self) -> bool {
        self.standing().is_draining()
    }

    /// The server left the configuration: no new calls, while its entries live on.
    pub fn remove(&self) {
        self.standing().remove();
    }

    /// The server joined the configuration at run time, or joined again: a slow start begins.
    pub fn add(&self, now: Duration) {
        self.standing().add(nanos(now));
    }

    /// Whether it has left the configuration.
    pub fn is_removed(&self) -> bool {
        self.standing().is_removed()
    }
}

/// Health. Failures in a row take a server down, probes passed in a row bring it up; methods that
/// can do so return whether they did, so that exactly one caller reports the change.
impl Server {
    /// Whether the server is believed to answer.
    pub fn health(&self, now: Duration) -> Health {
        if self.standing().is_up(nanos(now)) {
            Health::Up
        } else {
            Health::Down
        }
    }

    /// A probe was answered: the `rise`th in a row brings the server up, with a slow start.
    pub fn probe_passed(&self, now: Duration, rise: u32) -> bool {
        self.standing().probe_passed(nanos(now), rise)
    }

    /// A probe was not answered, or badly: the `fall`th failure in a row takes the server down,
    /// until probes pass.
    pub fn probe_failed(&self, now: Duration, fall: u32) -> bool {
        self.standing().probe_failed(nanos(now), fall)
    }

    /// The transport says that nobody is there: down at once, for
    /// [`RETRY_AFTER`](crate::RETRY_AFTER) or until probes pass, whichever is sooner, unless
    /// probes fail as well.
    pub fn unreachable(&self, now: Duration) -> bool {
        self.standing().unreachable(nanos(now))
    }

    /// A request went unanswered: counts like a failed probe, but takes the server down only for
    /// [`RETRY_AFTER`](crate::RETRY_AFTER), as there may be no probes to bring it up. The first
    /// failure after that takes it down again.
    pub fn timed_out(&self, now: Duration, fall: u32) -> bool {
        self.standing().timed_out(nanos(now), fall)
    }

    /// The server answered a request, whatever but 503: failures count from zero again.
    pub fn answered(&self) {
        self.standing().answered();
    }

    /// The server asked for no new calls until then; it counts as up. The latest wish holds.
    pub fn back_off(&self, until: Duration) {
        self.standing().back_off(nanos(until));
    }

    /// Whether it may get new calls: in the configuration, not draining, up, not backing off.
    pub fn is_eligible(&self, now: Duration) -> bool {
        self.eligibility(now).is_ok()
    }

    /// The same with the reason.
    ///
    /// # Errors
    /// The first of the reasons that hold, in the order of [`Ineligible`].
    pub fn eligibility(&self, now: Duration) -> Result<(), Ineligible> {
        self.standing().eligibility(nanos(now))
    }
}
