//! What a node counts. A worker alone writes its counters; readers may come any time.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use sip::Method;

/// What is counted one by one: each has a label for programs and a sentence for people.
macro_rules! counted {
    ($(#[$doc:meta])* pub enum $name:ident {
        $($variant:ident = $label:literal, $help:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $name {
            $(#[doc = $help] $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name for programs.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$variant => $label,)*
                }
            }

            /// What it means.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self {
                    $(Self::$variant => $help,)*
                }
            }
        }
    };
}

counted! {
    /// Why a message was not forwarded and nobody was told.
    pub enum Dropped {
        Malformed = "malformed", "Not SIP, or cut off before its headers ended",
        TooManyHeaders = "too_many_headers", "More header fields than the limit",
        KeepAlive = "keep_alive", "A keep-alive: empty lines",
        FromUs = "from_us", "A datagram with an address of this node as its source: the node sends itself nothing",
        MalformedResponse = "malformed_response", "A response that can't be understood",
        ForeignResponse = "foreign_response", "A response whose topmost Via is not ours. RFC 3261 §18.1.2",
        NoReturnPath = "no_return_path", "A response with no Via below ours that says where to",
        RefusedAck = "refused_ack", "An ACK that would have been refused",
        Superseded = "superseded", "A response from a server that the request was taken away from",
        HandoverFull = "handover_full", "The queue to the worker that owns the call was full",
        Unmatched = "unmatched", "A response to a request of a stateful route for which no transaction waits. RFC 6026 §7.3",
        OfACopy = "of_a_copy", "A 481 to a CANCEL that went to several servers, because the node did not know which had the INVITE",
        StaleProbe = "stale_probe", "A response to a probe or re-check that nobody waits for",
        ReportMalformed = "report_malformed", "A peer's report that can't be read: of another version, or cut off",
        ReportForged = "report_forged", "A report without the cluster's MAC",
        ReportStale = "report_stale", "A report older than what is known of its owner",
        ReportUnexpected = "report_unexpected", "A report to a node that has no peers, or its own",
        ReportNoRoom = "report_no_room", "A report of a peer that is one too many",
    }
}

counted! {
    /// Things worth a number that are neither drops nor refusals.
    pub enum Event {
        Received = "messages_received", "A datagram came in",
        Sent = "messages_sent", "A datagram was given to the sockets",
        HandedOver = "handed_over", "A message was handed to the worker that owns its call",
        Retransmission = "retransmission", "A request was a retransmission",
        FailedOver = "failed_over", "A request went to another server",
        NotOfServer = "not_of_server", "A request claimed to be of a server's side, and its sender was not trusted",
        ForgedToken = "forged_token", "An affinity token was not ours or not of this call",
        Rebuilt = "rebuilt", "A session was built again from its token",
        ExpiredEarly = "expired_early", "The session table was full, so an expired session was forgotten early",
        SessionsFull = "sessions_full", "The session table was full of active sessions, so a call was refused",
        TransactionsFull = "transactions_full", "The transaction table was full, so a request was refused or not counted",
        Uncounted = "uncounted", "A request within a dialog passed without a transaction, as the table was full",
        RegistrationsFull = "registrations_full", "Too many REGISTERs waited for the store, so one was refused",
        StoreFailed = "store_failed", "The store failed a request, or was silent for too long",
        UnlocatedFull = "unlocated_full", "Too many requests waited for the DNS, so one was refused",
        NameNotFound = "name_not_found", "The DNS had no address for a next hop, or was silent for too long",
        ContactsFull = "contacts_full", "A user was refused another binding",
        Bound = "bound", "A binding came, or was refreshed",
        Unbound = "unbound", "A binding was taken away by its user",
        LookedUp = "looked_up", "A request asked where a user is",
        WrongCredentials = "wrong_credentials", "The credentials of a REGISTER were wrong, or those of another user",
        RetainedFull = "retained_full", "A request could not be kept for another try",
        TimedOut = "timed_out", "A transaction had no final response in time",
        RangTooLong = "rang_too_long", "An INVITE rang until Timer C: its server was told to end it",
        RangOnFallen = "rang_on_fallen", "An INVITE rang on a server that went down: its caller was answered",
        Rechecked = "rechecked", "A server was asked whether a silent dialog lives",
        Leaked = "leaked", "A dialog was found to be over without a BYE",
        Stray = "stray", "A response without an open transaction: of a fork, or a retransmission",
        OrphanedCancel = "orphaned_cancels", "A CANCEL of an INVITE that is not known went to each server that may have it",
        ReportSent = "reports_sent", "A report of open work went to a peer",
        ReportReceived = "reports_received", "A peer's report was taken",
    }
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
