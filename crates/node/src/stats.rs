//! What a node counts. A worker alone writes its counters; readers may come any time.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

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
        Banned = "banned", "Its source is banned",
        Limited = "limited", "Its source has cost too much lately",
        Scanner = "scanner", "A request of a program that is known to look for victims",
        TooManyHeaders = "too_many_headers", "More header fields than the limit, in a response or in a request that can't be answered",
        KeepAlive = "keep_alive", "A keep-alive that wants no answer: empty lines",
        FromUs = "from_us", "A datagram with an address of this node as its source: the node sends itself nothing",
        MalformedResponse = "malformed_response", "A response that can't be understood",
        ForeignResponse = "foreign_response", "A response whose topmost Via is not ours. RFC 3261 §18.1.2",
        ForgedWay = "forged_way", "A response that was to go where its request did not come from",
        ForgedBranch = "forged_branch", "A response with a branch that we did not make of the Via below ours",
        ReturnsToUs = "returns_to_us", "A response whose Via below ours names this node, too",
        NoReturnPath = "no_return_path", "A response with no Via below ours that says where to",
        AnswerTooLong = "answer_too_long", "A request so short that its answer would have more than twice its bytes",
        AckOfOurs = "ack_of_ours", "An ACK of a refusal of the node's own: it ends there",
        RefusedAck = "refused_ack", "An ACK that would have been refused",
        Overload = "overload", "A new request that had to wait too long while the node was behind, and was one too many to be told",
        Repeated = "repeated", "A copy of a REGISTER that waits while the node is behind",
        Superseded = "superseded", "A response from a server that the request was taken away from",
        HandoverFull = "handover_full", "The queue to the worker that owns the call was full; half full for strangers",
        Unmatched = "unmatched", "A response to a request of a stateful route for which no transaction waits. RFC 6026 §7.3",
        OfACopy = "of_a_copy", "A 481 to a CANCEL that went to several servers, because the node did not know which had the INVITE",
        StaleProbe = "stale_probe", "A response to a probe or re-check that nobody waits for",
        UnmatchedQuote = "unmatched_quote", "An ICMP error that quotes no request or probe of ours that is open: forged, late, or too short",
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
        KeptAlive = "kept_alive", "A keep-alive was answered: empty lines, or a STUN binding request. RFC 5626 §3.5",
        Retransmission = "retransmission", "A request was a retransmission",
        FailedOver = "failed_over", "A request went to another server",
        NotOfServer = "not_of_server", "A request claimed to be of a server's side, and its sender was not trusted",
        Unreachable = "unreachable", "An ICMP error quoted a request or probe that was open",
        ForgedToken = "forged_token", "An affinity token was not ours or not of this call",
        Rebuilt = "rebuilt", "A session was built again from its token",
        ExpiredEarly = "expired_early", "The session table was full, so an expired session was forgotten early",
        SessionsFull = "sessions_full", "The session table was full of active sessions, so a call was refused",
        TransactionsFull = "transactions_full", "The transaction table was full, so a request was refused or not counted",
        Uncounted = "uncounted", "A request within a dialog passed without a transaction, as the table was full",
        RegistrationsFull = "registrations_full", "Too many REGISTERs waited for the store, so one was refused",
        CallersFull = "callers_full", "Too many requests waited for the store to tell who sent them, so one was refused",
        StoreFailed = "store_failed", "The store failed a request, or was silent for too long",
        UnlocatedFull = "unlocated_full", "Too many requests waited for the DNS, so one was refused",
        NameNotFound = "name_not_found", "The DNS had no address for a next hop, or was silent for too long",
        ContactsFull = "contacts_full", "A user was refused another binding",
        ContactsReplaced = "contacts_replaced", "A user's oldest binding went, as there was another one too many",
        ForbiddenContact = "forbidden_contacts", "A user was refused a contact that leads to us, our servers, our peers or a denied network",
        ForbiddenTarget = "forbidden_targets", "An address of a contact was left out, because no contact may lead there",
        Bound = "bound", "A binding came, or was refreshed",
        Unbound = "unbound", "A binding was taken away by its user",
        FlowFailed = "flows_failed", "A phone's flow was found dead, as a request was to take it: its connection is gone, or nobody listens there. RFC 5626 §5.3.1",
        ToOtherEdge = "to_other_edges", "A request went to another edge, which keeps the connection that it is to take",
        LargeByTcp = "large_by_tcp", "A request that is too long for a datagram went to a UDP server by TCP. RFC 3261 §18.1.1",
        LargeByUdp = "large_by_udp", "A server of UDP did not take TCP, so a long request went by UDP after all",
        FlowRemoved = "flows_removed", "A binding was taken away, as its flow is dead",
        KeptFlow = "keep_alives_sent", "A keep-alive went to a binding",
        KeepAlivesFull = "keep_alives_full", "A binding got no keep-alives, as too many others get them",
        RemovalsFull = "removals_full", "A binding whose flow is dead stayed, as too many others waited for the store to be taken away",
        LookedUp = "looked_up", "A request asked where a user is",
        WrongCredentials = "wrong_credentials", "The credentials of a request were wrong, or those of another user",
        GuessRefused = "guess_refused", "Credentials were not looked at, as somebody guesses at their user",
        SourceBanned = "source_banned", "A source was banned",
        BansFull = "bans_full", "A source was not banned, as there were too many bans",
        RetainedFull = "retained_full", "A request could not be kept for another try",
        CallsAnswered = "calls_answered", "A new INVITE that was sent on got a 2xx. RFC 6076 §4.6",
        CallsDeclined = "calls_declined", "A new INVITE that was sent on got 480, 486, 600 or 603: its user did not answer. RFC 6076 §4.7",
        CallsIneffective = "calls_ineffective", "A new INVITE that was sent on got 408, 500, 503 or 504. RFC 6076 §4.8",
        CallsFailed = "calls_failed", "A new INVITE that was sent on got another failure, but no challenge or redirection",
        TimedOut = "timed_out", "A transaction had no final response in time",
        RangTooLong = "rang_too_long", "An INVITE rang until Timer C: its server was told to end it",
        RangOnFallen = "rang_on_fallen", "An INVITE rang on a server that went down: its caller was answered",
        Rechecked = "rechecked", "A server was asked whether a silent dialog lives",
        Leaked = "leaked", "A dialog was found to be over without a BYE",
        DialogsFull = "dialogs_full", "A dialog of a call was not noted, as its call has too many or all calls have: it has no part in counts and re-checks",
        Stray = "stray", "A response without an open transaction: of a fork, or a retransmission",
        OrphanedCancel = "orphaned_cancels", "A CANCEL of an INVITE that is not known went to each server that may have it",
        CancelsFull = "cancels_full", "A CANCEL of an INVITE that is not known was refused, as its source had sent too many, or those that may be forged had",
        OverloadWaited = "overload_waited", "A new request had to wait, as the node was behind",
        OverloadRefused = "overload_refused", "A new request had to wait too long while the node was behind, and was refused",
        FilterRefused = "filters_refused", "The kernel refused the rule or the filter that keeps surplus from the node: it reads and drops it",
        EmergencyOut = "emergencies_out", "A call for help stayed out of a node that was behind: dropped or refused",
        CallOut = "calls_out", "A call stayed out of a node that was behind: dropped or refused, once for each time that it came",
        LoginOut = "logins_out", "A REGISTER with credentials stayed out of a node that was behind",
        RegisterOut = "registers_out", "A REGISTER without credentials stayed out of a node that was behind",
        OtherOut = "others_out", "Another new request stayed out of a node that was behind",
        CallFiltered = "calls_filtered", "A call of a stranger was dropped by the system, unread, once for each time that it came: it would have stayed out of a node that was behind",
        RegisterFiltered = "registers_filtered", "The same for a REGISTER",
        OfCallsOut = "of_calls_out", "What a stranger sent as a part of a call was dropped, as it had waited too long or found no room",
        SessionBusy = "session_busy", "A call had as many open requests as it may have, so another was refused",
        Restricted = "restricted", "A request was refused, as the servers that could take it had asked for less. RFC 7339 §5.10",
        NoRoom = "no_room", "A request was refused, as the servers that could take it answer slowly and have as many as they answer in time",
        ControlTaken = "overload_control_taken", "A server told how much to send it. RFC 7339 §5.4",
        ControlIgnored = "overload_control_ignored", "A response told how much to send, but not from a server at which its request is open, or too late",
        RepeatWithheld = "overload_control_repeat_withheld", "An INVITE without an answer was not sent again, as its server had no room or had told how much to send",
        Unruly = "overload_unruly", "A neighbour began to send more than its share whatever it was told, so its new requests wait as those of strangers do",
        ControlRefused = "overload_control_refused", "A server refused or ignored what had an offer of overload control twice, so it gets none for an hour",
        Held = "held", "A transaction was begun, and not only passed on",
        Proven = "proven", "The sender of a request that is no REGISTER has proven who they are",
        LeftUnchecked = "left_unchecked", "It was left to a node behind to check who sent a request",
        LeftOpen = "left_open", "The transaction of a request was left to a node behind, which has told of room",
        HeldBefore = "held_before", "The transaction of a request is held by a node before",
        ReportSent = "reports_sent", "A report of open work went to a peer",
        ReportReceived = "reports_received", "A peer's report was taken",
    }
}

/// The statuses that a node itself answers with. The last place is for all others: of an answer of a branch that could not
/// be kept its status is left.
pub const REPLIES: [u16; 25] = [
    100, 200, 400, 401, 403, 404, 405, 407, 408, 416, 420, 423, 430, 439, 440, 480, 481, 482, 483,
    487, 500, 503, 505, 513, 0,
];

/// Counters by place; the standard library's arrays have no default beyond 32.
#[derive(Debug)]
struct Counters<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// Which counters have moved since a tap last asked: a bit for each, by its place.
#[derive(Debug, Default)]
struct Moved {
    events: [AtomicU64; 2],
    dropped: AtomicU64,
    replies: AtomicU64,
}

const _: () = assert!(Event::ALL.len() <= 128 && Dropped::ALL.len() <= 64 && REPLIES.len() <= 64);

/// The counters that moved during a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moves {
    events: [u64; 2],
    dropped: u64,
    replies: u64,
}

impl Moves {
    /// The events of the messages themselves.
    const USUAL: u128 = 1 << Event::Received as u32 | 1 << Event::Sent as u32;

    fn unusual(self) -> u128 {
        let [low, high] = self.events.map(u128::from);
        (high << 64 | low) & !Self::USUAL
    }

    /// Whether nothing moved but what each message moves.
    pub(crate) fn are_usual(self) -> bool {
        self.unusual() == 0 && self.dropped == 0 && self.replies == 0
    }

    pub(crate) fn events(self) -> impl Iterator<Item = Event> {
        places(self.unusual()).map(|place| Event::ALL[place])
    }

    pub(crate) fn dropped(self) -> impl Iterator<Item = Dropped> {
        places(self.dropped.into()).map(|place| Dropped::ALL[place])
    }

    pub(crate) fn replies(self) -> impl Iterator<Item = u16> {
        places(self.replies.into()).map(|place| REPLIES[place])
    }

    /// Whether a message was dropped, or refused as the node is overloaded.
    pub(crate) fn turn_away(self) -> bool {
        self.dropped != 0 || self.unusual() & (1 << Event::OverloadRefused as u32) != 0
    }

    /// Whether the message was dropped before it was looked at.
    pub(crate) fn is_unheard(self) -> bool {
        self.dropped & (1 << Dropped::Banned as u32 | 1 << Dropped::Limited as u32) != 0
    }
}

/// The places of the bits that are set.
fn places(mut bits: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (place < u128::BITS).then_some(place as usize)
    })
}

/// One worker's counters.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerStats {
    dropped: Counters<{ Dropped::ALL.len() }>,
    events: Counters<{ Event::ALL.len() }>,
    replies: Counters<{ REPLIES.len() }>,
    sessions_active: AtomicU64,
    sessions_expired: AtomicU64,
    transactions: AtomicU64,
    held_transactions: AtomicU64,
    retained_bytes: AtomicU64,
    held_bytes: AtomicU64,
    unlocated_bytes: AtomicU64,
    registrations_bytes: AtomicU64,
    lobby_bytes: AtomicU64,
    /// Numbers of 64 bits: of calls, and of REGISTERs.
    shares: [AtomicU64; 2],
    /// Numbers of 64 bits: requests held per second, and how many could be.
    custody: [AtomicU64; 2],
    moved: Moved,
    /// All workers change it.
    handover_bytes: AtomicUsize,
}

/// What a worker holds at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) sessions_active: usize,
    pub(crate) sessions_expired: usize,
    pub(crate) transactions: usize,
    pub(crate) held_transactions: usize,
    pub(crate) retained_bytes: usize,
    pub(crate) held_bytes: usize,
    pub(crate) unlocated_bytes: usize,
    pub(crate) registrations_bytes: usize,
    pub(crate) lobby_bytes: usize,
}

impl WorkerStats {
    /// Counts a dropped message.
    pub fn drop_one(&self, reason: Dropped) {
        self.drop_many(reason, 1);
    }

    /// Counts so many dropped messages.
    pub(crate) fn drop_many(&self, reason: Dropped, number: u64) {
        add(&self.dropped.0[reason as usize], number);
        mark(&self.moved.dropped, reason as usize);
    }

    pub(crate) fn count(&self, event: Event, number: usize) {
        let place = event as usize;
        add(&self.events.0[place], number as u64);
        mark(&self.moved.events[place / 64], place % 64);
    }

    /// The counters that have moved since this was last called.
    pub(crate) fn take_moves(&self) -> Moves {
        let take = |bits: &AtomicU64| {
            let taken = bits.load(Relaxed);
            bits.store(0, Relaxed);
            taken
        };
        let [low, high] = &self.moved.events;
        Moves {
            events: [low, high].map(take),
            dropped: take(&self.moved.dropped),
            replies: take(&self.moved.replies),
        }
    }

    pub(crate) fn reply(&self, status: u16) {
        let place = REPLIES.iter().position(|&known| known == status);
        let place = place.unwrap_or(REPLIES.len() - 1);
        add(&self.replies.0[place], 1);
        mark(&self.moved.replies, place);
    }

    pub(crate) fn set_sizes(&self, sizes: &Sizes) {
        for (gauge, size) in [
            (&self.sessions_active, sizes.sessions_active),
            (&self.sessions_expired, sizes.sessions_expired),
            (&self.transactions, sizes.transactions),
            (&self.held_transactions, sizes.held_transactions),
            (&self.retained_bytes, sizes.retained_bytes),
            (&self.held_bytes, sizes.held_bytes),
            (&self.unlocated_bytes, sizes.unlocated_bytes),
            (&self.registrations_bytes, sizes.registrations_bytes),
            (&self.lobby_bytes, sizes.lobby_bytes),
        ] {
            gauge.store(size as u64, Relaxed);
        }
    }

    /// Counts bytes that wait for the worker, unless there would be more than `most`.
    pub(crate) fn add_handover(&self, bytes: usize, most: usize) -> bool {
        let fits = self.handover_bytes.fetch_add(bytes, Relaxed) + bytes <= most;
        if !fits {
            self.remove_handover(bytes);
        }
        fits
    }

    pub(crate) fn remove_handover(&self, bytes: usize) {
        self.handover_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Messages dropped for a reason.
    pub fn dropped(&self, reason: Dropped) -> u64 {
        self.dropped.0[reason as usize].load(Relaxed)
    }

    /// How often something happened.
    pub fn event(&self, event: Event) -> u64 {
        self.events.0[event as usize].load(Relaxed)
    }

    /// Requests that the node answered itself, by the place of their status in [`REPLIES`]; the
    /// last place holds all other statuses.
    pub fn replies(&self, place: usize) -> u64 {
        self.replies.0[place].load(Relaxed)
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

    /// Memory of INVITEs that may go to another server, in bytes.
    pub fn retained_bytes(&self) -> u64 {
        self.retained_bytes.load(Relaxed)
    }

    /// The shares of new calls and of REGISTERs that are let in, of 1; 1 unless there are more than can be served.
    pub fn shares(&self) -> [f64; 2] {
        [0, 1].map(|kind: usize| f64::from_bits(self.shares[kind].load(Relaxed)))
    }

    pub(crate) fn set_shares(&self, shares: [f64; 2]) {
        for (known, share) in self.shares.iter().zip(shares) {
            known.store(share.to_bits(), Relaxed);
        }
    }

    /// Requests of routes with dynamic state that it holds per second, and how many it could hold; no numbers where there
    /// are none, or where it is not known yet what one costs.
    pub fn custody(&self) -> [f64; 2] {
        [0, 1].map(|which: usize| f64::from_bits(self.custody[which].load(Relaxed)))
    }

    pub(crate) fn set_custody(&self, custody: [f64; 2]) {
        for (known, rate) in self.custody.iter().zip(custody) {
            known.store(rate.to_bits(), Relaxed);
        }
    }

    /// Memory of new requests that wait while the node is behind, in bytes.
    pub fn lobby_bytes(&self) -> u64 {
        self.lobby_bytes.load(Relaxed)
    }

    /// Memory of the messages of stateful routes, in bytes.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Relaxed)
    }

    /// Memory of requests that wait for the DNS, in bytes.
    pub fn unlocated_bytes(&self) -> u64 {
        self.unlocated_bytes.load(Relaxed)
    }

    /// Memory of REGISTERs that wait for the store, in bytes.
    pub fn registrations_bytes(&self) -> u64 {
        self.registrations_bytes.load(Relaxed)
    }

    /// Bytes of messages that wait for the worker, which others received.
    pub fn handover_bytes(&self) -> u64 {
        self.handover_bytes.load(Relaxed) as u64
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

fn mark(bits: &AtomicU64, place: usize) {
    bits.store(bits.load(Relaxed) | 1 << place, Relaxed);
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
