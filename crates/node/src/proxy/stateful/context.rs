//! What one request has become: RFC 3261 §16.7's response context.

use std::time::Duration;

use sip::Message;
use slots::{Buffers, Id, Table, Ticket};
use transaction::{Flow, Transaction};

use super::{best::Best, target::Targets};
use crate::{
    registrar::Target,
    wire::{
        gruu::Device,
        kept::{KeptRequest, copies_of},
        keys::SessionKey,
        mark::Mark,
        request::Request,
    },
    work::OpenId,
};

/// Names a response context of this worker.
pub(super) type ContextId = Id<ResponseContext>;

/// Names a transaction of a response context.
pub(super) type TransactionId = Id<Transaction<ContextId>>;

/// A request that is held, its branches, and the best answer so far.
#[derive(Debug)]
pub(super) struct ResponseContext {
    pub(super) key: SessionKey,
    /// None while somebody works with it.
    pub(super) request: Option<KeptRequest>,
    /// Its server transaction; none when that is over.
    pub(super) server: Option<TransactionId>,
    pub(super) is_invite: bool,
    /// It is an INVITE outside a dialog.
    pub(super) begins_call: bool,
    /// It was placed, and may be placed on another server of the pool.
    pub(super) may_move: bool,
    /// What the next node is told of who holds it, if nodes settle that among themselves.
    pub(super) mark: Option<Mark>,
    /// What the ledger has of it.
    pub(super) record: Option<OpenId>,
    pub(super) branches: Vec<Branch>,
    pub(super) targets: Targets,
    pub(super) best: Best,
    /// Its Max-Breadth: RFC 5393 §5.3.3.
    pub(super) breadth: u32,
    /// It goes where its user is, by what a loop leaves as it is: RFC 5393 §4.2.1.
    pub(super) route: Option<u32>,
    /// The key of the user's bindings, if it goes where they are.
    pub(super) aor: Box<[u8]>,
    /// It goes to this device of theirs alone.
    pub(super) device: Option<Device>,
    /// Each hop of its way must be secure. RFC 5630
    pub(super) is_sips: bool,
    pub(super) phase: Phase,
    /// Its 100 was due while it was looked up.
    pub(super) owes_trying: bool,
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
    /// Its client transaction; none when that is over.
    pub(super) transaction: Option<TransactionId>,
    /// Where it is; none: no listener reaches that.
    pub(super) flow: Option<Flow>,
    /// Its share of Max-Breadth.
    pub(super) breadth: u32,
    /// What it is at, with the addresses and flows that are left of it. None: it is a server, or another branch
    /// has gone on there.
    pub(super) target: Option<Target>,
    /// It goes over a flow that a token names. RFC 5626 §5.3
    pub(super) is_flow: bool,
    /// Something came back.
    pub(super) is_answered: bool,
    /// It has its final response, or nobody waits for that any more.
    pub(super) is_final: bool,
}

impl ResponseContext {
    /// The listener that the request came in by.
    pub(super) fn hit(&self) -> u8 {
        self.request.as_ref().map_or(0, |kept| kept.flow.listener)
    }

    /// Max-Breadth that no branch uses: RFC 5393 §5.3.3.
    pub(super) fn breadth_left(&self) -> u32 {
        let used = self.active().map(|branch| branch.breadth).sum();
        self.breadth.saturating_sub(used)
    }

    /// Branches whose final response is to come.
    pub(super) fn active(&self) -> impl Iterator<Item = &Branch> {
        self.branches.iter().filter(|branch| !branch.is_final)
    }

    /// Whether it goes where its user is.
    pub(super) fn is_look_up(&self) -> bool {
        self.route.is_some()
    }

    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// The number of the branch with this client transaction.
    pub(super) fn number_of(&self, transaction: TransactionId) -> Option<usize> {
        let is_its = |branch: &Branch| branch.transaction == Some(transaction);
        self.branches.iter().position(is_its)
    }
}

/// The response contexts of a worker. Each has a transaction at least, so the limit on those is
/// theirs as well. The timer of a context is its patience: with the store, the DNS, or a server.
#[derive(Debug)]
pub(super) struct Contexts {
    table: Table<ResponseContext>,
    copies: Buffers,
    message_bytes: usize,
    /// Memory that is used again.
    spare: Vec<(Vec<Branch>, Targets)>,
    looked_up: usize,
}

impl Contexts {
    pub(super) fn new(limit: usize, message_bytes: usize, now: Duration) -> Self {
        Self {
            table: Table::new(limit, now),
            copies: copies_of(limit, message_bytes),
            message_bytes,
            spare: Vec::new(),
            looked_up: 0,
        }
    }

    /// Whether [`Self::open`] has room for any request. A caller counts a request on a server before
    /// it is opened, so it has to know that before.
    pub(super) fn has_room(&self) -> bool {
        self.table.has_room(1) && self.copies.has_room(self.message_bytes)
    }

    /// Adds one that has no server transaction and no branch yet; none when there is no room.
    pub(super) fn open(&mut self, request: &Request<'_>) -> Option<ContextId> {
        let kept = KeptRequest::new(request, &mut self.copies)?;
        let (branches, targets) = self.spare.pop().unwrap_or_default();
        self.table.insert(ResponseContext {
            key: request.key,
            request: Some(kept),
            server: None,
            is_invite: false,
            begins_call: false,
            may_move: false,
            mark: None,
            record: None,
            branches,
            targets,
            best: Best::default(),
            breadth: 0,
            route: None,
            aor: Box::default(),
            device: None,
            is_sips: false,
            phase: Phase::Search,
            owes_trying: false,
            open: 0,
        })
    }

    /// Begins the search for where a request's user is.
    pub(super) fn look_up(
        &mut self,
        place: ContextId,
        route: u32,
        aor: &[u8],
        device: Option<Device>,
    ) {
        self.looked_up += 1;
        let context = self.get_mut(place);
        (context.phase, context.route) = (Phase::LookUp, Some(route));
        (context.aor, context.device) = (aor.into(), device);
    }

    /// No further target is tried.
    pub(super) fn stop_search(&mut self, place: ContextId, phase: Phase) {
        let context = self.table.get_mut(place);
        if phase == Phase::Over && !context.is_over() && context.route.is_some() {
            self.looked_up -= 1;
        }
        context.targets.clear();
        context.phase = phase;
    }

    pub(super) fn looked_up(&self) -> usize {
        self.looked_up
    }

    /// A final response came for a context; `write` appends it as it goes back.
    pub(super) fn offer(
        &mut self,
        place: ContextId,
        response: &Message<'_>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let best = &mut self.table.get_mut(place).best;
        best.offer(&mut self.copies, response, write);
    }

    /// The best response of a context has gone back.
    pub(super) fn clear_best(&mut self, place: ContextId) {
        self.table.get_mut(place).best.clear(&mut self.copies);
    }

    /// Memory that requests and best responses take, in bytes.
    pub(super) fn kept_bytes(&self) -> usize {
        self.copies.kept_bytes()
    }

    pub(super) fn ticket(&self, place: ContextId) -> Ticket {
        self.table.ticket(place)
    }

    pub(super) fn find(&self, ticket: Ticket) -> Option<ContextId> {
        self.table.find(ticket)
    }

    pub(super) fn get(&self, place: ContextId) -> &ResponseContext {
        self.table.get(place)
    }

    pub(super) fn get_mut(&mut self, place: ContextId) -> &mut ResponseContext {
        self.table.get_mut(place)
    }

    pub(super) fn arm(&mut self, place: ContextId, at: Duration) {
        self.table.arm(place, at);
    }

    pub(super) fn disarm(&mut self, place: ContextId) {
        self.table.disarm(place);
    }

    pub(super) fn pop_due(&mut self, now: Duration) -> Option<ContextId> {
        self.table.pop_due(now)
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.table.deadline()
    }

    pub(super) fn close(&mut self, place: ContextId) {
        let mut closed = self.table.remove(place);
        debug_assert!(closed.open == 0 && closed.record.is_none());
        if let Some(request) = closed.request.take() {
            self.copies.release(request.bytes);
        }
        closed.best.clear(&mut self.copies);
        let mut spare = (closed.branches, closed.targets);
        spare.0.clear();
        spare.1.clear();
        self.spare.push(spare);
    }

    /// Those with a branch that waits for its answer.
    pub(super) fn searching(&self) -> impl Iterator<Item = (ContextId, &ResponseContext)> {
        let contexts = self.table.iter();
        contexts.filter(|(_, context)| context.active().next().is_some())
    }
}
