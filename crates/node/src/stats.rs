//! What a node counts. A worker alone writes its counters; readers may come any time.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use sip::Method;

/// Why a message was not forwarded and nobody was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Dropped {
    /// Not SIP, or cut off before its headers ended.
    Malformed,
    /// More header fields than the limit.
    TooManyHeaders,
    /// A keep-alive: empty lines.
    KeepAlive,
    /// A response that can't be understood.
    MalformedResponse,
    /// A response whose topmost Via is not ours. RFC 3261 §18.1.2
    ForeignResponse,
    /// A response with no Via below ours that says where to.
    NoReturnPath,
    /// An ACK that would have been refused.
    RefusedAck,
    /// A response from a server that the request was taken away from.
    Superseded,
    /// The queue to the worker that owns the call was full.
    HandoverFull,
    /// A response to a request of a stateful route that no transaction waits for. RFC 6026 §7.3
    Unmatched,
    /// A 481 to a CANCEL that several servers got, as it was not known which of them had its INVITE.
    OfACopy,
    /// A response to a probe or re-check that nobody waits for.
    StaleProbe,
    /// A peer's report that can't be read: of another version, or cut off.
    ReportMalformed,
    /// A report without the cluster's MAC.
    ReportForged,
    /// A report older than what is known of its owner.
    ReportStale,
    /// A report to a node that has no peers, or its own.
    ReportUnexpected,
    /// A report of one peer too many.
    ReportNoRoom,
}

impl Dropped {
    /// All reasons, with their labels.
    pub const ALL: [(Self, &'static str); 17] = [
        (Self::Malformed, "malformed"),
        (Self::TooManyHeaders, "too_many_headers"),
        (Self::KeepAlive, "keep_alive"),
        (Self::MalformedResponse, "malformed_response"),
        (Self::ForeignResponse, "foreign_response"),
        (Self::NoReturnPath, "no_return_path"),
        (Self::RefusedAck, "refused_ack"),
        (Self::Superseded, "superseded"),
        (Self::HandoverFull, "handover_full"),
        (Self::Unmatched, "unmatched"),
        (Self::OfACopy, "of_a_copy"),
        (Self::StaleProbe, "stale_probe"),
        (Self::ReportMalformed, "report_malformed"),
        (Self::ReportForged, "report_forged"),
        (Self::ReportStale, "report_stale"),
        (Self::ReportUnexpected, "report_unexpected"),
        (Self::ReportNoRoom, "report_no_room"),
    ];
}

/// Things worth a number that are neither drops nor refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Event {
    /// A datagram came in.
    Received,
    /// A datagram was queued for sending.
    Sent,
    /// A message was handed to the worker that owns its call.
    HandedOver,
    /// A request was a retransmission.
    Retransmission,
    /// A request went to another server.
    FailedOver,
    /// An affinity token was not ours or not of this call.
    ForgedToken,
    /// A session was built again from its token.
    Rebuilt,
    /// The session table was full, an expired session went early.
    ExpiredEarly,
    /// The session table was full of active sessions.
    SessionsFull,
    /// The transaction table was full.
    TransactionsFull,
    /// A request within a dialog passed without a transaction, as the table was full.
    Uncounted,
    /// Too many REGISTERs waited for the store.
    RegistrationsFull,
    /// The store failed a request, or was silent for too long.
    StoreFailed,
    /// Too many requests waited for the DNS.
    UnlocatedFull,
    /// The DNS had no address for a next hop, or was silent for too long.
    NameNotFound,
    /// A user was refused another binding.
    ContactsFull,
    /// A binding came, or was refreshed.
    Bound,
    /// A binding was taken away by its user.
    Unbound,
    /// A request asked where a user is.
    LookedUp,
    /// Credentials were nobody's, or another user's than the one who registers.
    WrongCredentials,
    /// A request could not be kept for another try.
    RetainedFull,
    /// A transaction had no final response in time.
    TimedOut,
    /// An INVITE rang until Timer C: its server was told to end it.
    RangTooLong,
    /// An INVITE rang on a server that went down: its caller was answered.
    RangOnFallen,
    /// A dialog without a sign of life was asked for.
    Rechecked,
    /// A dialog was found to be over without a BYE.
    Leaked,
    /// A response without an open transaction: of a fork, or a retransmission.
    Stray,
    /// A CANCEL of an INVITE that is not known went to each server that may have it.
    OrphanedCancel,
    /// A report of open work went to a peer.
    ReportSent,
    /// A peer's report was taken.
    ReportReceived,
}

impl Event {
    /// All events, with their labels.
    pub const ALL: [(Self, &'static str); 30] = [
        (Self::Received, "received"),
        (Self::Sent, "sent"),
        (Self::HandedOver, "handed_over"),
        (Self::Retransmission, "retransmission"),
        (Self::FailedOver, "failed_over"),
        (Self::ForgedToken, "forged_token"),
        (Self::Rebuilt, "rebuilt"),
        (Self::ExpiredEarly, "expired_early"),
        (Self::SessionsFull, "sessions_full"),
        (Self::TransactionsFull, "transactions_full"),
        (Self::Uncounted, "uncounted"),
        (Self::RegistrationsFull, "registrations_full"),
        (Self::StoreFailed, "store_failed"),
        (Self::UnlocatedFull, "unlocated_full"),
        (Self::NameNotFound, "name_not_found"),
        (Self::ContactsFull, "contacts_full"),
        (Self::Bound, "bound"),
        (Self::Unbound, "unbound"),
        (Self::LookedUp, "looked_up"),
        (Self::WrongCredentials, "wrong_credentials"),
        (Self::RetainedFull, "retained_full"),
        (Self::TimedOut, "timed_out"),
        (Self::RangTooLong, "rang_too_long"),
        (Self::RangOnFallen, "rang_on_fallen"),
        (Self::Rechecked, "rechecked"),
        (Self::Leaked, "leaked"),
        (Self::Stray, "stray"),
        (Self::OrphanedCancel, "orphaned_cancels"),
        (Self::ReportSent, "reports_sent"),
        (Self::ReportReceived, "reports_received"),
    ];
}

/// The statuses that a node itself answers with.
pub const REPLIES: [u16; 19] = [
    200, 400, 401, 403, 404, 405, 408, 416, 420, 423, 480, 481, 482, 483, 500, 503, 505, 513, 0,
];

/// One worker's counters.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerStats {
    dropped: [AtomicU64; Dropped::ALL.len()],
    events: [AtomicU64; Event::ALL.len()],
    replies: [AtomicU64; REPLIES.len()],
    sessions_active: AtomicU64,
    sessions_expired: AtomicU64,
    transactions: AtomicU64,
    held_transactions: AtomicU64,
}

impl WorkerStats {
    /// Counts a dropped message.
    pub fn drop_one(&self, reason: Dropped) {
        add(&self.dropped[reason as usize], 1);
    }

    pub(crate) fn count(&self, event: Event, number: usize) {
        add(&self.events[event as usize], number as u64);
    }

    pub(crate) fn reply(&self, status: u16) {
        let place = REPLIES
            .iter()
            .position(|&known| known == status)
            .unwrap_or(REPLIES.len() - 1);
        add(&self.replies[place], 1);
    }

    pub(crate) fn set_sizes(
        &self,
        active: usize,
        expired: usize,
        transactions: usize,
        held: usize,
    ) {
        self.held_transactions.store(held as u64, Relaxed);
        self.sessions_active.store(active as u64, Relaxed);
        self.sessions_expired.store(expired as u64, Relaxed);
        self.transactions.store(transactions as u64, Relaxed);
    }

    /// Messages dropped for a reason.
    pub fn dropped(&self, reason: Dropped) -> u64 {
        self.dropped[reason as usize].load(Relaxed)
    }

    /// How often something happened.
    pub fn event(&self, event: Event) -> u64 {
        self.events[event as usize].load(Relaxed)
    }

    /// Requests that the node answered itself, by the place of their status in [`REPLIES`]; the
    /// last place holds all other statuses.
    pub fn replies(&self, place: usize) -> u64 {
        self.replies[place].load(Relaxed)
    }

    /// Sessions that are alive.
    pub fn sessions_active(&self) -> u64 {
        self.sessions_active.load(Relaxed)
    }

    /// Sessions that are over and kept for strays.
    pub fn sessions_expired(&self) -> u64 {
        self.sessions_expired.load(Relaxed)
    }

    /// Open transactions, those towards clients too.
    pub fn transactions(&self) -> u64 {
        self.transactions.load(Relaxed)
    }

    /// Transactions of stateful routes on both sides, those that are over and linger too.
    pub fn held_transactions(&self) -> u64 {
        self.held_transactions.load(Relaxed)
    }
}

/// With a single writer a locked instruction is not needed.
fn add(counter: &AtomicU64, number: u64) {
    counter.store(counter.load(Relaxed) + number, Relaxed);
}

/// Methods that response times are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum MethodLabel {
    /// INVITE, re-INVITE too.
    Invite,
    /// BYE.
    Bye,
    /// CANCEL.
    Cancel,
    /// REGISTER.
    Register,
    /// OPTIONS.
    Options,
    /// MESSAGE.
    Message,
    /// SUBSCRIBE, NOTIFY, PUBLISH, REFER.
    Event,
    /// Every other method.
    Other,
}

impl MethodLabel {
    /// All labels.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Invite, "INVITE"),
        (Self::Bye, "BYE"),
        (Self::Cancel, "CANCEL"),
        (Self::Register, "REGISTER"),
        (Self::Options, "OPTIONS"),
        (Self::Message, "MESSAGE"),
        (Self::Event, "event"),
        (Self::Other, "other"),
    ];
}

impl From<Method<'_>> for MethodLabel {
    fn from(method: Method<'_>) -> Self {
        match method {
            Method::Invite => Self::Invite,
            Method::Bye => Self::Bye,
            Method::Cancel => Self::Cancel,
            Method::Register => Self::Register,
            Method::Options => Self::Options,
            Method::Message => Self::Message,
            Method::Subscribe | Method::Notify | Method::Publish | Method::Refer => Self::Event,
            Method::Ack | Method::Prack | Method::Update | Method::Info | Method::Other(_) => {
                Self::Other
            }
        }
    }
}

/// Upper bounds of the response-time buckets, in microseconds.
pub const BUCKETS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// A histogram of times from a request to its first response, which all workers write.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    pub(crate) fn record(&self, time: Duration) {
        let us = time.as_micros() as u64;
        let bucket = BUCKETS_US.partition_point(|&bound| bound < us);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }

    /// Counts per bucket (the last is beyond all bounds) and the sum in microseconds.
    pub fn read(&self) -> ([u64; BUCKETS_US.len() + 1], u64) {
        (
            std::array::from_fn(|place| self.buckets[place].load(Relaxed)),
            self.sum_us.load(Relaxed),
        )
    }
}
