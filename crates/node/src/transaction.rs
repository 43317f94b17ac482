//! The open transactions of a worker: what the ledger counts, and how long it waits for answers.

use std::{net::SocketAddr, time::Duration};

use balance::{Cost, ServerId};

use crate::{io::Datagram, session::NONE, stats::MethodLabel};

/// Placements of one request at most, the first included.
pub(crate) const ATTEMPTS_MAX: usize = 4;

/// A request that was forwarded and has no final response yet.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    /// What our branch says, without the attempt.
    pub(crate) id: u64,
    /// When it was sent to its present server.
    pub(crate) sent_at: Duration,
    /// When it was first forwarded.
    pub(crate) began_at: Duration,
    pub(crate) session: u32,
    /// The next open transaction of the session.
    pub(crate) next: u32,
    /// Its request's place among the retained ones.
    pub(crate) retained: u32,
    pub(crate) cost: Cost,
    /// The servers it was sent to, in order.
    pub(crate) tried: [ServerId; ATTEMPTS_MAX],
    pub(crate) attempt: u8,
    pub(crate) kind: Kind,
    pub(crate) label: MethodLabel,
    pub(crate) progress: Progress,
    /// The tags of the dialog that is over when it ends.
    pub(crate) ends_dialog: Option<u32>,
    /// It is counted on its server; those towards clients are not.
    pub(crate) is_charged: bool,
    /// Outside any dialog: it may go to another server.
    pub(crate) is_initial: bool,
    /// The stateful proxy waits for its answer, and closes it.
    pub(crate) is_held: bool,
    /// A CANCEL for it went out.
    pub(crate) is_cancelled: bool,
    /// It is among those that its server's service times are learned from, and has no response
    /// past 100.
    pub(crate) waits: bool,
    /// It was sent when no other waited.
    pub(crate) met_idle: bool,
}

/// How a request is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Invite,
    Cancel,
    Other,
}

/// How far the answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing came back.
    Unanswered,
    /// Nothing came back in time, and there was nowhere else to send it.
    Overdue,
    /// A provisional response came.
    Provisional,
}

impl Transaction {
    /// The server it is open on.
    pub(crate) fn server(&self) -> ServerId {
        self.tried[usize::from(self.attempt)]
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.progress == Progress::Provisional
    }

    /// Whether it may still go to another server.
    pub(crate) fn may_move(&self) -> bool {
        self.is_initial && self.may_move_within_cluster()
    }

    /// The same, where one server is as good as another in a dialog, too.
    pub(crate) fn may_move_within_cluster(&self) -> bool {
        !self.is_cancelled && !self.is_answered() && usize::from(self.attempt) + 1 < ATTEMPTS_MAX
    }
}

/// All open transactions of a worker.
#[derive(Debug)]
pub(crate) struct Transactions {
    entries: Vec<Option<Transaction>>,
    free: Vec<u32>,
    limit: usize,
}

impl Transactions {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            entries: Vec::with_capacity(limit),
            free: Vec::with_capacity(limit),
            limit,
        }
    }

    pub(crate) fn open(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.open() >= self.limit
    }

    /// Adds a transaction; there must be room.
    pub(crate) fn insert(&mut self, transaction: Transaction) -> u32 {
        debug_assert!(!self.is_full());
        if let Some(entry) = self.free.pop() {
            self.entries[entry as usize] = Some(transaction);
            return entry;
        }
        self.entries.push(Some(transaction));
        self.entries.len() as u32 - 1
    }

    pub(crate) fn get(&self, entry: u32) -> &Transaction {
        self.entries[entry as usize]
            .as_ref()
            .expect("entries are named only while open")
    }

    pub(crate) fn get_mut(&mut self, entry: u32) -> &mut Transaction {
        self.entries[entry as usize]
            .as_mut()
            .expect("entries are named only while open")
    }

    pub(crate) fn remove(&mut self, entry: u32) -> Transaction {
        self.free.push(entry);
        self.entries[entry as usize]
            .take()
            .expect("entries are named only while open")
    }

    /// The transaction with this identity in the list that starts at `first`, unless the stateful
    /// proxy has it.
    pub(crate) fn find(&self, first: u32, id: u64, is_cancel: bool) -> Option<u32> {
        self.list(first).find(|&entry| {
            let transaction = self.get(entry);
            let is_its = transaction.id == id && (transaction.kind == Kind::Cancel) == is_cancel;
            is_its && !transaction.is_held
        })
    }

    /// The list that starts at `first`.
    pub(crate) fn list(&self, first: u32) -> impl Iterator<Item = u32> {
        let exists = |entry: u32| (entry != NONE).then_some(entry);
        std::iter::successors(exists(first), move |&entry| exists(self.get(entry).next))
    }

    /// Every open transaction.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Transaction)> {
        let open = |(place, entry): (usize, _)| Some((place as u32, Option::as_ref(entry)?));
        self.entries.iter().enumerate().filter_map(open)
    }
}

/// A request kept until it is answered, so that it can be sent to another server.
#[derive(Clone, Debug)]
pub(crate) struct Retained {
    pub(crate) listener: u8,
    pub(crate) from: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

impl Retained {
    pub(crate) fn datagram(&self) -> Datagram<'_> {
        Datagram {
            listener: self.listener,
            from: self.from,
            bytes: &self.bytes,
            truncated: false,
        }
    }
}

/// The retained requests of a worker; their buffers are used again.
#[derive(Debug)]
pub(crate) struct RetainedRequests {
    entries: Vec<Retained>,
    free: Vec<u32>,
    limit: usize,
}

impl RetainedRequests {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            entries: Vec::with_capacity(limit),
            free: Vec::with_capacity(limit),
            limit,
        }
    }

    /// Keeps a copy; [`NONE`] when there is no room.
    pub(crate) fn keep(&mut self, listener: u8, from: SocketAddr, bytes: &[u8]) -> u32 {
        if let Some(entry) = self.free.pop() {
            let retained = &mut self.entries[entry as usize];
            (retained.listener, retained.from) = (listener, from);
            retained.bytes.clear();
            retained.bytes.extend_from_slice(bytes);
            return entry;
        }
        if self.entries.len() == self.limit {
            return NONE;
        }
        self.entries.push(Retained {
            listener,
            from,
            bytes: bytes.to_vec(),
        });
        self.entries.len() as u32 - 1
    }

    /// Takes the request out to work with it; [`Self::put_back`] must follow.
    pub(crate) fn take(&mut self, entry: u32) -> Retained {
        let retained = &mut self.entries[entry as usize];
        Retained {
            bytes: std::mem::take(&mut retained.bytes),
            ..*retained
        }
    }

    /// Gives the buffer back to its place.
    pub(crate) fn put_back(&mut self, entry: u32, retained: Retained) {
        self.entries[entry as usize] = retained;
    }

    /// Forgets a request; [`NONE`] is none.
    pub(crate) fn release(&mut self, entry: u32) {
        if entry != NONE {
            self.free.push(entry);
        }
    }
}
