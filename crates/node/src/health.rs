//! What silences, answers and ICMP errors tell of a server.
//!
//! Whoever sends a request that servers ignore, or forges what the network says, must not take a
//! server down. So a server is heard when it answers with a branch of ours, which nobody else knows,
//! and a suspicion only makes the [probes](crate::probes) ask at once. A server without probes has
//! no other witness than its calls.

use std::time::Duration;

use balance::{Health, Judge};
use transaction::Flow;

use crate::{changes::Cause, context::Context, member::Member, wire::response::Response};

/// Holds a silence since `sent_at` against a server, if nothing at all came from it since.
pub(crate) fn on_silence(cx: Context<'_>, member: &Member, sent_at: Duration) {
    if cx.shared.has_lost_since(sent_at) || member.server.is_heard_since(sent_at) {
        return;
    }
    let Some(pool) = cx.snapshot.pool_of(member) else {
        return;
    };
    if pool.config().probe.is_some() {
        suspect(cx, member);
    } else if member.server.timed_out(cx.now, pool.fall()) {
        cx.shared.tell(member, Cause::Silent);
    }
}

/// Nobody listens at the other end of a flow, says an ICMP error about a request that was open there.
pub(crate) fn on_unreachable(cx: Context<'_>, flow: Flow) {
    for member in cx.snapshot.members_of(flow) {
        let pool = cx.snapshot.pool_of(member);
        if pool.is_some_and(|pool| pool.config().probe.is_some()) {
            suspect(cx, member);
        } else if member.server.unreachable(cx.now, Judge::Calls) {
            cx.shared.tell(member, Cause::Unreachable);
        }
    }
}

/// A server answered a request that was open there.
pub(crate) fn on_answer(cx: Context<'_>, member: &Member, response: &Response<'_>) {
    let server = &member.server;
    server.hear(cx.now);
    if response.status == 503 {
        return;
    }
    if server.answered(cx.now) {
        cx.shared.tell(member, Cause::Answered);
    }
    if response.status > 100 {
        server.serves();
    }
}

/// Leaves a server alone that refuses calls, unless it is the last that takes any.
pub(crate) fn on_refusal(cx: Context<'_>, member: &Member, response: &Response<'_>) {
    let (Some(pool), Some(seconds)) = (cx.snapshot.pool_of(member), response.message.retry_after())
    else {
        return;
    };
    let (server, wish) = (&member.server, Duration::from_secs(seconds.into()));
    if pool.pool().has_another(cx.now, server.id())
        && server.back_off(cx.now, response.key.bits(), wish)
    {
        cx.shared.tell(member, Cause::Refuses);
    }
}

fn suspect(cx: Context<'_>, member: &Member) {
    if member.server.health() == Health::Up && member.suspect() {
        cx.shared.ask_probes();
    }
}
