//! Requests whose next hop is a name: they wait for the DNS, and nobody else does. RFC 3263 §4

use std::time::Duration;

use slots::{Buffers, Table, Ticket};
use transaction::Flow;

use super::routing::leads_outward;
use crate::{
    admission::NotNow,
    context::Context,
    io::{Origin, Outbox},
    question::{Answer, Ask, Asker, Question, QuestionId},
    wire::{
        kept::{KeptRequest, copies_of},
        request::Request,
    },
};

/// How many may wait on a worker; more are told to come again.
const WAITING_MAX: usize = 1_024;

/// How long one may wait.
pub(super) const NAME_WAIT_MAX: Duration = Duration::from_secs(4);

/// The requests of a worker that wait for the DNS.
#[derive(Debug)]
pub(super) struct Parked {
    table: Table<ParkedRequest>,
    copies: Buffers,
}

/// A request that waits for the DNS.
#[derive(Debug)]
pub(crate) struct ParkedRequest {
    pub(crate) request: KeptRequest,
    pub(crate) origin: Origin,
}

impl Parked {
    pub(super) fn new(message_bytes: usize, now: Duration) -> Self {
        Self {
            table: Table::new(WAITING_MAX, now),
            copies: copies_of(WAITING_MAX, message_bytes),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Memory that they take, in bytes.
    pub(super) fn kept_bytes(&self) -> usize {
        self.copies.kept_bytes()
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.table.deadline()
    }

    /// Lets a request wait if it leads outwards, to a name. False: it leads elsewhere.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn park(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        origin: Origin,
        out: &mut Outbox,
    ) -> Result<bool, NotNow> {
        if !request.leads_to_name() || !leads_outward(cx, request) {
            return Ok(false);
        }
        let Some(name) = request.next_name() else {
            return Ok(false);
        };
        if !self.table.has_room(1) {
            return Err(NotNow::UnlocatedFull);
        }
        let kept = KeptRequest::new(request, &mut self.copies);
        let parked = kept.and_then(|request| self.table.insert(ParkedRequest { request, origin }));
        let place = parked.ok_or(NotNow::UnlocatedFull)?;
        self.table.arm(place, cx.now + NAME_WAIT_MAX);
        let draw = cx.snapshot.keys().of_session(request.key, &[b"name"]);
        out.questions.push(Question {
            id: QuestionId(Asker::NextHop(self.table.ticket(place))),
            ask: Ask::Locate { name, draw },
        });
        Ok(true)
    }

    /// The request that waits with this ticket. It waits no longer; [`Self::release`] is to follow.
    pub(super) fn take(&mut self, ticket: Ticket) -> Option<ParkedRequest> {
        let place = self.table.find(ticket)?;
        Some(self.table.remove(place))
    }

    /// The next request that has waited for too long.
    pub(super) fn take_due(&mut self, now: Duration) -> Option<ParkedRequest> {
        let place = self.table.pop_due(now)?;
        Some(self.table.remove(place))
    }

    /// Gives the memory of a request back.
    pub(super) fn release(&mut self, parked: ParkedRequest) {
        self.copies.release(parked.request.bytes);
    }
}

/// Of the addresses of a host those that a listener reaches.
pub(super) fn reachable(cx: Context<'_>, answer: Answer, hit: u8, host: &str) -> Vec<Flow> {
    let Answer::Located(hops) = answer else {
        return Vec::new();
    };
    let flows = hops
        .into_iter()
        .filter_map(|hop| cx.snapshot.flow_to(hop, hit));
    let flows: Vec<Flow> = flows.collect();
    for flow in flows.iter().filter(|flow| flow.transport.is_secure()) {
        cx.shared.set_name(flow.remote, host);
    }
    flows
}
