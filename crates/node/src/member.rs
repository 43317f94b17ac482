//! The servers of the pools.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use balance::{Server, ServerId};
use sip::Method;
use transaction::{Flow, NextHop, Transport};

use crate::{
    config::{Pool, PoolServer},
    control::Control,
    histogram::Histogram,
    room::Room,
    service_times::ServiceTimes,
    stats::MethodLabel,
};

/// A server that had no room for a request counts as one without room for all for so long.
const FULL_FOR: Duration = Duration::from_secs(1);

/// How long a server that refused a connection is not asked for one.
const NO_TCP: Duration = Duration::from_secs(3_600);

/// A server of a pool, as long as the process runs or its last call lasts.
#[derive(Clone, Debug)]
pub struct Member {
    /// The pool's name.
    pub pool: String,
    /// What carries messages there.
    pub transport: Transport,
    /// Where the server listens.
    pub address: SocketAddr,
    /// What it is called, so that its certificate can be checked.
    pub host: Option<Arc<str>>,
    /// Its ledger, weight and health.
    pub server: Arc<Server>,
    pub(crate) responses: Arc<[Histogram; MethodLabel::ALL.len()]>,
    pub(crate) service: Arc<ServiceTimes>,
    /// Overload control with it, in whatever pool.
    pub(crate) control: Arc<Control>,
    /// How much it can take, in whatever pool.
    pub(crate) room: Arc<Room>,
    marks: Arc<Marks>,
}

/// What is noted of a server.
#[derive(Debug, Default)]
struct Marks {
    /// The operator has set its capacity.
    is_weighed: AtomicBool,
    /// It was silent, and shall be probed at once.
    is_suspected: AtomicBool,
    /// Until when it gets long requests by UDP, as it does not take TCP: nanoseconds.
    no_tcp_until: AtomicU64,
    /// Until when it counts as one without room for all that comes: nanoseconds.
    full_until: AtomicU64,
    /// The first reload that found it removed and with nothing open.
    idle_since: Mutex<Option<Duration>>,
}

impl Member {
    /// Where the server listens, and what carries messages there.
    pub fn next_hop(&self) -> NextHop {
        NextHop {
            transport: self.transport,
            address: self.address,
        }
    }

    /// Whether a peer is this server. One that connects to us does so from any port.
    pub(crate) fn is_at(&self, flow: Flow) -> bool {
        let may_connect = flow.transport.is_stream() && self.transport.is_stream();
        self.address == flow.remote || (may_connect && self.address.ip() == flow.remote.ip())
    }

    /// Times to the first response, by method.
    pub fn responses(&self, method: MethodLabel) -> &Histogram {
        &self.responses[method as usize]
    }

    /// Gives the server a capacity that lasts until the next reload, whatever is learned meanwhile.
    ///
    /// # Panics
    /// If it is not within [`balance::CAPACITY`].
    pub fn weigh(&self, capacity: f64) {
        self.marks.is_weighed.store(true, Ordering::Relaxed);
        self.server.set_capacity(capacity);
    }

    /// Requests that begin something and wait for their first response from it.
    #[must_use]
    pub fn unanswered(&self) -> u32 {
        self.room.waiting()
    }

    /// How many new requests may wait for their first response, if one kind of them has a limit: it answers slowly.
    pub fn unanswered_max(&self, now: Duration) -> Option<u32> {
        let calls = self.room.calls.get(now);
        calls.or_else(|| self.room.others.get(now))
    }

    /// Lets [`Self::weigh`] hold no longer; whether it did.
    pub(crate) fn forget_weight(&self) -> bool {
        self.marks.is_weighed.swap(false, Ordering::Relaxed)
    }

    /// Whether [`Self::weigh`] holds.
    pub(crate) fn is_weighed(&self) -> bool {
        self.marks.is_weighed.load(Ordering::Relaxed)
    }
}

impl Member {
    /// Whether it has room for a request. Whoever tells how much it takes has room for that: what its answers tell includes what it
    /// has lost before.
    pub(crate) fn has_room(&self, now: Duration, method: Method<'_>, pool: &Pool) -> bool {
        let tells = pool.overload_control && self.control.restriction.is_active(now);
        tells || !pool.learn_room || self.room.of(method).has_room(now)
    }

    /// It had no room for a request. Returns whether it had room for all before.
    pub(crate) fn note_full(&self, now: Duration) -> bool {
        let until = (now + FULL_FOR).as_nanos() as u64;
        let before = self.marks.full_until.swap(until, Ordering::Relaxed);
        before <= now.as_nanos() as u64
    }

    /// Whether it had room for all that came lately.
    pub(crate) fn has_room_for_all(&self, now: Duration) -> bool {
        self.marks.full_until.load(Ordering::Relaxed) <= now.as_nanos() as u64
    }

    /// Doubts that the server is there; whether nobody did before.
    pub(crate) fn suspect(&self) -> bool {
        !self.marks.is_suspected.swap(true, Ordering::Relaxed)
    }

    /// Doubts no more.
    pub(crate) fn trust(&self) {
        self.marks.is_suspected.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_suspected(&self) -> bool {
        self.marks.is_suspected.load(Ordering::Relaxed)
    }

    pub(crate) fn new(
        id: ServerId,
        pool: &str,
        of: &PoolServer,
        (control, room): (Arc<Control>, Arc<Room>),
        added_at: Option<Duration>,
    ) -> Self {
        let (transport, address) = (of.transport, of.address);
        let server = Arc::new(Server::new(id, &address.to_string(), of.capacity));
        if let Some(now) = added_at {
            server.add(now);
        }
        Self {
            pool: pool.to_owned(),
            transport,
            address,
            host: of.host.clone(),
            server,
            responses: Arc::default(),
            service: Arc::default(),
            control,
            room,
            marks: Arc::default(),
        }
    }

    /// The same server, if the configuration says the same of how it is reached.
    pub(crate) fn is_reached_as(&self, of: &PoolServer) -> bool {
        self.transport == of.transport && self.host == of.host
    }

    /// The same server, which is reached in another way.
    pub(crate) fn reached_as(&self, of: &PoolServer) -> Self {
        Self {
            transport: of.transport,
            host: of.host.clone(),
            ..self.clone()
        }
    }

    /// Where a request goes that is too long for a datagram. RFC 3261 §18.1.1
    pub(crate) fn hop_of_large(&self, now: Duration) -> NextHop {
        let takes_tcp = self.marks.no_tcp_until.load(Ordering::Relaxed) <= now.as_nanos() as u64;
        let transport = match self.transport {
            Transport::Udp if takes_tcp => Transport::Tcp,
            transport => transport,
        };
        NextHop {
            transport,
            ..self.next_hop()
        }
    }

    /// It does not take TCP, at least for an hour.
    pub(crate) fn refuse_tcp(&self, now: Duration) {
        let until = (now + NO_TCP).as_nanos() as u64;
        self.marks.no_tcp_until.store(until, Ordering::Relaxed);
    }

    /// Whether it must keep its number: it is configured, has entries in the ledger, or had some
    /// less than `linger` ago as far as reloads have seen, so that sessions and transactions that
    /// are not counted may still name it.
    pub(crate) fn is_needed(&self, now: Option<Duration>, linger: Duration) -> bool {
        let server = &self.server;
        let is_in_use = !server.is_removed() || server.calls() + server.transactions() > 0;
        let mut idle_since = self
            .marks
            .idle_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *idle_since = idle_since.or(now).filter(|_| !is_in_use);
        match (*idle_since, now) {
            (Some(since), Some(now)) => now < since + linger,
            _ => true,
        }
    }
}
