//! The part of a worker that other threads see.

use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use socket::udp::{Sent, Socket};

use crate::{
    answerer::Answerer,
    lanes::Lanes,
    mailbox::Mailbox,
    streams::{Common, ConnectionStats, Security},
    witness::Witness,
    worker::TICK,
};

/// All workers of a node.
pub(crate) struct Team {
    pub(crate) seats: Vec<Seat>,
    pub(crate) stopping: AtomicBool,
    /// Workers that read no socket any more.
    pub(crate) left: AtomicUsize,
    /// What the listeners are bound to, in their order.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) security: Mutex<Arc<Security>>,
    pub(crate) connections: Arc<Common>,
    /// None: every question fails.
    pub(crate) answerer: Option<Arc<dyn Answerer>>,
    pub(crate) witness: Option<Arc<dyn Witness>>,
    pub(crate) lanes: Lanes,
}

/// A worker as other threads see it. Its counters have a cache line of their own.
#[repr(align(128))]
pub(crate) struct Seat {
    pub(crate) counters: Counters,
    /// Its UDP sockets.
    pub(crate) sockets: Vec<Socket>,
    /// The listener that each of them is of.
    pub(crate) listeners: Vec<u8>,
    pub(crate) mailbox: Mailbox,
    /// Its connections at its last tick.
    connections: Mutex<ConnectionStats>,
}

/// Only the worker writes it.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    received: AtomicU64,
    receive_errors: AtomicU64,
    sent: AtomicU64,
    too_long: AtomicU64,
    unreachable: AtomicU64,
    no_room: AtomicU64,
    refused: AtomicU64,
}

/// The counters of a worker's sockets since the start, in datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Received.
    pub received: u64,
    /// Dropped by the kernel because a receive buffer was full.
    pub receive_dropped: u64,
    /// Receive calls that returned an error, mostly from ICMP.
    pub receive_errors: u64,
    /// Sent.
    pub sent: u64,
    /// Not sent: longer than the path or the protocol allows.
    pub send_too_long: u64,
    /// Not sent: no route.
    pub send_unreachable: u64,
    /// Not sent: the kernel had no buffer space.
    pub send_no_room: u64,
    /// Not sent: refused for another reason, such as a filter or an address of the other family.
    pub send_refused: u64,
}

impl Team {
    /// How connections are secured now.
    pub(crate) fn security(&self) -> Arc<Security> {
        let security = self.security.lock();
        Arc::clone(&security.unwrap_or_else(PoisonError::into_inner))
    }
}

impl Seat {
    /// A seat with these UDP sockets of these listeners. `polls`: its worker waits for all of them, and can be
    /// woken.
    pub(crate) fn new(
        listeners: Vec<u8>,
        sockets: Vec<Socket>,
        handovers_max: usize,
        polls: bool,
    ) -> io::Result<Self> {
        if !polls {
            sockets
                .iter()
                .try_for_each(|socket| socket.set_recv_timeout(Some(TICK)))?;
        }
        Ok(Self {
            counters: Counters::default(),
            sockets,
            listeners,
            mailbox: Mailbox::new(handovers_max, polls)?,
            connections: Mutex::default(),
        })
    }

    /// What its worker waits for besides connections: the waker, then the UDP sockets.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let waker = self.mailbox.waker().map(AsFd::as_fd);
        waker
            .into_iter()
            .chain(self.sockets.iter().map(AsFd::as_fd))
    }

    /// Lets others see its connections.
    pub(crate) fn show_connections(&self, stats: ConnectionStats) {
        *self.locked_connections() = stats;
    }

    pub(crate) fn connections(&self) -> ConnectionStats {
        self.locked_connections().clone()
    }

    fn locked_connections(&self) -> MutexGuard<'_, ConnectionStats> {
        let connections = self.connections.lock();
        connections.unwrap_or_else(PoisonError::into_inner)
    }

    /// Datagrams that the kernel dropped because a receive buffer was full.
    pub(crate) fn receive_dropped(&self) -> u64 {
        let drops = |socket: &Socket| socket.kernel_drops().map_or(0, u64::from);
        self.sockets.iter().map(drops).sum()
    }

    pub(crate) fn stats(&self) -> Stats {
        let counters = &self.counters;
        Stats {
            received: counters.received.load(Relaxed),
            receive_dropped: self.receive_dropped(),
            receive_errors: counters.receive_errors.load(Relaxed),
            sent: counters.sent.load(Relaxed),
            send_too_long: counters.too_long.load(Relaxed),
            send_unreachable: counters.unreachable.load(Relaxed),
            send_no_room: counters.no_room.load(Relaxed),
            send_refused: counters.refused.load(Relaxed),
        }
    }
}

impl Counters {
    pub(crate) fn count_received(&self, datagrams: usize) {
        add(&self.received, datagrams as u64);
    }

    /// Datagrams received so far.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    pub(crate) fn count_receive_error(&self) {
        add(&self.receive_errors, 1);
    }

    pub(crate) fn count_sent(&self, sent: &Sent) {
        add(&self.sent, sent.sent);
        if sent.lost() > 0 {
            add(&self.too_long, sent.too_long);
            add(&self.unreachable, sent.unreachable);
            add(&self.no_room, sent.no_room);
            add(&self.refused, sent.refused);
        }
    }
}

/// With a single writer, a locked instruction is not necessary.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Relaxed) + count, Relaxed);
}
