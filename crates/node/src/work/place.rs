//! Choosing servers.

use std::{mem, time::Duration};

use balance::{Arrival, Policy, ServerId};

use super::{Work, room};
use crate::{
    admission::NotNow, context::Context, control, decisions::Ledgers, member::Member,
    snapshot::PoolView, wire::request::Request,
};

/// What became of calls behind the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Behind {
    /// No server had room for so many.
    pub(crate) in_vain: u32,
    /// When one went to a server that had room for all that came.
    pub(crate) freely_at: Duration,
}

impl Work {
    /// Chooses a server of a pool and counts the request on it.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn place<'s>(
        &mut self,
        cx: Context<'s>,
        request: &Request<'_>,
        pool: &PoolView,
        is_call: bool,
        avoid: &[ServerId],
    ) -> Result<&'s Member, NotNow> {
        let mut avoided = mem::take(&mut self.avoided);
        avoided.clear();
        avoided.extend_from_slice(avoid);
        let withheld = control::withhold(cx, request, pool, &mut avoided);
        let full = self.avoid_backed_up(cx, request, pool, &mut avoided)
            | room::avoid_full(cx, request, pool, &mut avoided);
        let arrival = Arrival {
            key: request.placement_key(pool.pool().policy() == Policy::UserHash),
            cost: pool.cost(request.method),
            call: is_call,
            avoid: &avoided,
        };
        let placed = self.place_arrival(cx, request, pool, &arrival);
        for &full in &avoided[avoid.len()..] {
            let member = cx.snapshot.member(full);
            if member.is_some_and(|member| member.note_full(cx.now)) {
                cx.shared.neighbours().note_full(cx.now);
            }
        }
        self.avoided = avoided;
        if is_call {
            self.note_behind(cx, request, placed, withheld || full);
        }
        let member = placed.ok_or(match (withheld, full) {
            (_, true) => NotNow::NoRoom,
            (true, false) => NotNow::Restricted,
            (false, false) => NotNow::NoServer,
        })?;
        if pool.config().overload_control {
            member.control.restriction.pass(cx.now);
        }
        Ok(member)
    }

    fn place_arrival<'s>(
        &mut self,
        cx: Context<'s>,
        request: &Request<'_>,
        pool: &PoolView,
        arrival: &Arrival<'_>,
    ) -> Option<&'s Member> {
        let policy = pool.pool().policy();
        let ledgers = Ledgers::of(pool, cx.now);
        let server = pool.pool().place(cx.now, arrival, &mut self.rng)?.id();
        self.decisions
            .record(request.key, cx.now, policy, server, ledgers);
        cx.snapshot.member(server).map(|member| &**member)
    }

    /// Counts whether a call found room behind the node, for whoever is to send less then: the neighbour it comes from, or
    /// else the node lets less in.
    fn note_behind(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        placed: Option<&Member>,
        some_are_full: bool,
    ) {
        let is_in_vain = match placed {
            Some(member) if member.has_room_for_all(cx.now) => false,
            None if some_are_full => true,
            Some(_) | None => return,
        };
        let neighbours = cx.shared.neighbours();
        match (control::key_of_neighbour(cx, request), is_in_vain) {
            (Some(neighbour), true) => neighbours.note_in_vain(neighbour),
            (Some(neighbour), false) => neighbours.note_freely(cx.now, neighbour),
            (None, true) => self.behind.in_vain += 1,
            (None, false) => self.behind.freely_at = cx.now,
        }
    }

    /// What became of the calls that came from no neighbour who is told how much to send; counted since this was asked last.
    pub(crate) fn take_behind(&mut self) -> Behind {
        let behind = self.behind;
        self.behind.in_vain = 0;
        behind
    }
}
