//! What one request has become: RFC 3261 §16.7's response context.

use std::net::SocketAddr;

use super::{
    best::Best,
    target::{Target, Targets},
};
use crate::{keys::SessionKey, session::NONE, transaction::Retained};

/// A request that is held, its branches, and the best answer so far.
#[derive(Debug)]
pub(super) struct ResponseContext {
    /// Tells it from those that had its place before.
    pub(super) serial: u32,
    pub(super) key: SessionKey,
    /// The identity of its transaction, which our branches carry.
    pub(super) id: u64,
    pub(super) request: Retained,
    /// Its server transaction; [`NONE`] when that is over.
    pub(super) server: u32,
    pub(super) is_invite: bool,
    /// It was placed, and may be placed on another server of the pool.
    pub(super) may_move: bool,
    /// What the ledger has of it; [`NONE`]: nothing.
    pub(super) record: u32,
    pub(super) branches: Vec<Branch>,
    pub(super) targets: Targets,
    pub(super) best: Best,
    /// Its Max-Breadth: RFC 5393 §5.3.3.
    pub(super) breadth: u32,
    /// It goes where its user is, by what a loop leaves as it is: RFC 5393 §4.2.1.
    pub(super) route: Option<u32>,
    pub(super) phase: Phase,
    /// Transactions that are not over.
    pub(super) open: usize,
}

/// How far the search has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The store is asked where its user is.
    LookUp,
    /// The store is asked whether there is such a user.
    Identify,
    /// The DNS is asked where its targets are.
    Locate,
    /// It is at its targets.
    Search,
    /// It is at its targets and goes to no other.
    LastTargets,
    /// It has its final response, or may not have one any more.
    Over,
}

impl Phase {
    pub(super) fn is_look_up(self) -> bool {
        matches!(self, Self::LookUp | Self::Identify | Self::Locate)
    }
}

/// The request at one target.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    /// Its client transaction; [`NONE`] when that is over.
    pub(super) transaction: u32,
    pub(super) to: SocketAddr,
    /// Its share of Max-Breadth.
    pub(super) breadth: u32,
    /// What it is at, when that has further addresses.
    pub(super) target: Option<Target>,
    /// Something came back.
    pub(super) is_answered: bool,
    /// It has its final response, or nobody waits for that any more.
    pub(super) is_final: bool,
}

impl ResponseContext {
    /// Max-Breadth that no branch uses: RFC 5393 §5.3.3.
    pub(super) fn breadth_left(&self) -> u32 {
        let used = self.active().map(|branch| branch.breadth).sum();
        self.breadth.saturating_sub(used)
    }

    /// Branches whose final response is to come.
    pub(super) fn active(&self) -> impl Iterator<Item = &Branch> {
        self.branches.iter().filter(|branch| !branch.is_final)
    }

    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// The number of the branch with this client transaction.
    pub(super) fn number_of(&self, transaction: u32) -> Option<usize> {
        let is_its = |branch: &Branch| branch.transaction == transaction;
        self.branches.iter().position(is_its)
    }
}

/// The response contexts of a worker; their buffers are used again. Each has a transaction at
/// least, so the limit on those is theirs as well.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    entries: Vec<ResponseContext>,
    free: Vec<u32>,
    looked_up: usize,
}

impl Contexts {
    /// Adds one that has no server transaction and no branch yet.
    pub(super) fn open(
        &mut self,
        key: SessionKey,
        id: u64,
        request: &crate::io::Datagram<'_>,
    ) -> u32 {
        let Some(place) = self.free.pop() else {
            self.entries.push(ResponseContext {
                serial: 0,
                key,
                id,
                request: Retained {
                    listener: request.listener,
                    from: request.from,
                    bytes: request.bytes.to_vec(),
                },
                server: NONE,
                is_invite: false,
                may_move: false,
                record: NONE,
                branches: Vec::new(),
                targets: Targets::default(),
                best: Best::default(),
                breadth: 0,
                route: None,
                phase: Phase::Search,
                open: 0,
            });
            return self.entries.len() as u32 - 1;
        };
        let context = self.get_mut(place);
        (context.key, context.id, context.phase) = (key, id, Phase::Search);
        (context.server, context.record, context.route) = (NONE, NONE, None);
        context.request.listener = request.listener;
        context.request.from = request.from;
        context.request.bytes.extend_from_slice(request.bytes);
        place
    }

    /// Begins the search for where a request's user is.
    pub(super) fn look_up(&mut self, place: u32, route: u32) {
        self.looked_up += 1;
        let context = self.get_mut(place);
        (context.phase, context.route) = (Phase::LookUp, Some(route));
    }

    /// No further target is tried.
    pub(super) fn stop_search(&mut self, place: u32, phase: Phase) {
        let context = &mut self.entries[place as usize];
        if phase == Phase::Over && !context.is_over() && context.route.is_some() {
            self.looked_up -= 1;
        }
        context.targets.clear();
        context.phase = phase;
    }

    pub(super) fn looked_up(&self) -> usize {
        self.looked_up
    }

    /// The one of this serial number, if it is still there.
    pub(super) fn find(&mut self, place: u32, serial: u32) -> Option<&mut ResponseContext> {
        let context = self.entries.get_mut(place as usize)?;
        (context.serial == serial).then_some(context)
    }

    pub(super) fn get(&self, place: u32) -> &ResponseContext {
        &self.entries[place as usize]
    }

    pub(super) fn get_mut(&mut self, place: u32) -> &mut ResponseContext {
        &mut self.entries[place as usize]
    }

    pub(super) fn close(&mut self, place: u32) {
        let context = self.get_mut(place);
        debug_assert!(context.open == 0 && context.record == NONE);
        context.serial = context.serial.wrapping_add(1);
        context.request.bytes.clear();
        context.branches.clear();
        context.targets.clear();
        context.best.clear();
        self.free.push(place);
    }

    /// Those with a branch that waits for its answer.
    pub(super) fn searching(&self) -> impl Iterator<Item = (u32, &ResponseContext)> {
        let entries = (0..).zip(&self.entries);
        entries.filter(|(_, context)| context.active().next().is_some())
    }
}
