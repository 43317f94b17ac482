//! OPTIONS probes: whether servers answer that have no calls to show it.
//!
//! A server is probed once in the pool's interval. It is probed again and again, and judged at once,
//! while much depends on it: when it is suspected, when it is new, and when no server of its pool is
//! up.

use std::time::Duration;

use balance::{Health, Judge, ServerId};
use fastrand::Rng;
use transaction::Flow;

use crate::{
    changes::Cause,
    config::Probe as ProbeConfig,
    context::Context,
    io::Outbox,
    member::Member,
    shared::Shared,
    snapshot::PoolView,
    stats::Dropped,
    wire::{
        branch::{Branch, Purpose},
        relay::write_via,
        response::Response,
    },
};

/// How often an urgent probe is sent, the same one until it is answered or has failed.
const URGENT: Duration = Duration::from_millis(250);

/// How long the probes of a server that never answered are urgent.
const NEW: Duration = Duration::from_secs(10);

/// How soon the first worker looks for servers that others suspect.
const NOTICE: Duration = Duration::from_millis(10);

/// The probes of one worker; only the first worker has any to send.
#[derive(Debug)]
pub(crate) struct Probes {
    is_prober: bool,
    /// By server number.
    probes: Vec<Probe>,
    rng: Rng,
    nonce: u64,
    due: Duration,
    /// [`Shared::suspicions`] at the last look.
    suspicions: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    next_at: Duration,
    sent_at: Duration,
    /// Since when it is asked and does not answer; none: it has answered.
    unknown_since: Option<Duration>,
    outstanding: Option<Outstanding>,
}

/// A probe that has no answer yet.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    /// What its branch says.
    id: u64,
    began_at: Duration,
    /// When it has failed.
    fails_at: Duration,
}

impl Probes {
    pub(crate) fn new(is_prober: bool, mut rng: Rng) -> Self {
        Self {
            is_prober,
            probes: Vec::new(),
            nonce: rng.u64(..),
            rng,
            due: Duration::ZERO,
            suspicions: 0,
        }
    }

    pub(crate) fn deadline(&self, shared: &Shared, now: Duration) -> Option<Duration> {
        let due = match shared.suspicions() == self.suspicions {
            true => self.due,
            false => self.due.min(now + NOTICE),
        };
        self.is_prober.then_some(due)
    }
}

impl Probes {
    /// Sends the probes that are due, and counts those that were not answered.
    pub(crate) fn on_timers(&mut self, cx: Context<'_>, out: &mut Outbox) {
        let suspicions = cx.shared.suspicions();
        if !self.is_prober || (cx.now < self.due && suspicions == self.suspicions) {
            return;
        }
        self.suspicions = suspicions;
        self.due = cx.now + Duration::from_secs(1);
        for member in cx
            .snapshot
            .members()
            .iter()
            .flatten()
            .filter(|member| !member.server.is_removed())
        {
            if let Some(pool) = cx.snapshot.pool_of(member)
                && let Some(config) = &pool.config().probe
            {
                self.probe_member(cx, member, pool, config, out);
            }
        }
    }

    fn probe_member(
        &mut self,
        cx: Context<'_>,
        member: &Member,
        pool: &PoolView,
        config: &ProbeConfig,
        out: &mut Outbox,
    ) {
        let probe = self.of(member.server.id());
        if let Some(failed) = probe.outstanding.filter(|probe| probe.fails_at <= cx.now) {
            probe.outstanding = None;
            if !cx.shared.has_lost_since(failed.began_at) {
                fail(cx, member, config, Cause::ProbesUnanswered);
            }
        }
        if member.server.is_known() {
            probe.unknown_since = None;
        } else {
            probe.unknown_since.get_or_insert(cx.now);
        }
        let is_new = probe.unknown_since.is_some_and(|at| cx.now < at + NEW);
        let is_urgent = is_new || member.is_suspected() || is_needed(member, pool);
        let again_at = probe.sent_at + URGENT.min(config.interval);
        if probe.next_at <= cx.now || (is_urgent && again_at <= cx.now) {
            let late = probe.next_at != Duration::ZERO && probe.next_at + config.interval > cx.now;
            let from = if late { probe.next_at } else { cx.now };
            probe.next_at = from.min(cx.now) + config.interval;
            self.send_probe(cx, member, config.timeout, out);
        }
        let probe = *self.of(member.server.id());
        let again_at = probe.sent_at + URGENT.min(config.interval);
        let next = if is_urgent { again_at } else { probe.next_at };
        let fails_at = probe.outstanding.map_or(next, |probe| probe.fails_at);
        self.due = self.due.min(next.min(fails_at).max(cx.now + NOTICE));
    }

    fn send_probe(
        &mut self,
        cx: Context<'_>,
        member: &Member,
        timeout: Duration,
        out: &mut Outbox,
    ) {
        let Some(flow) = cx.snapshot.flow_to(member.next_hop(), 0) else {
            return;
        };
        let listener = flow.listener;
        let (fresh, nonce) = (self.rng.u64(..), self.nonce);
        let probe = self.of(member.server.id());
        probe.sent_at = cx.now;
        let outstanding = probe.outstanding.get_or_insert(Outstanding {
            id: fresh,
            began_at: cx.now,
            fails_at: cx.now + timeout,
        });
        let id = outstanding.id;
        let branch = Branch {
            purpose: Purpose::Probe,
            listener,
            id,
        };
        let us = &cx.snapshot.listener(listener).advertise;
        out.send(flow, |out| {
            let start = format!("OPTIONS sip:{} SIP/2.0\r\nVia: ", member.address);
            out.extend_from_slice(start.as_bytes());
            write_via(cx.snapshot, listener, branch, out);
            let rest = format!(
                "\r\nMax-Forwards: 70\r\nFrom: <sip:{us}>;tag={nonce:x}\r\nTo: <sip:{}>\r\nCall-ID: {id:x}-{nonce:x}\r\n\
                 CSeq: 1 OPTIONS\r\nContact: <sip:{us}>\r\nAccept: application/sdp\r\nContent-Length: 0\r\n\r\n",
                member.address,
            );
            out.extend_from_slice(rest.as_bytes());
        });
    }

    /// Any final answer but 503 shows that a server is there.
    pub(crate) fn on_answer(&mut self, cx: Context<'_>, response: &Response<'_>) {
        if !response.is_final() {
            return;
        }
        let Some(member) = self.take(cx, response.branch.id, response.flow) else {
            return cx.stats.drop_one(Dropped::StaleProbe);
        };
        let Some(pool) = cx.snapshot.pool_of(member) else {
            return;
        };
        let Some(config) = &pool.config().probe else {
            return;
        };
        let is_first = !member.server.is_known();
        member.server.hear(cx.now);
        member.trust();
        if response.status == 503 {
            return fail(cx, member, config, Cause::ProbesRefused);
        }
        let is_enough = is_first || is_needed(member, pool);
        let rise = if is_enough { 1 } else { config.rise };
        if member.server.probe_passed(cx.now, rise) {
            cx.shared.tell(member, Cause::ProbeAnswered);
        }
    }

    /// An ICMP error that quotes a probe's branch comes from somebody who saw the probe. So the server
    /// is down at once. False: no such probe waits.
    pub(crate) fn on_unreachable(&mut self, cx: Context<'_>, id: u64, flow: Flow) -> bool {
        let Some(member) = self.take(cx, id, flow) else {
            return false;
        };
        member.trust();
        if member.server.unreachable(cx.now, Judge::Probes) {
            cx.shared.tell(member, Cause::Unreachable);
        }
        true
    }

    /// Ends the probe with this branch, if it went to the other end of a flow.
    fn take<'s>(&mut self, cx: Context<'s>, id: u64, flow: Flow) -> Option<&'s Member> {
        let is_it = |probe: &Probe| probe.outstanding.is_some_and(|probe| probe.id == id);
        let place = self.probes.iter().position(is_it)?;
        let asked = cx.snapshot.members().get(place)?.as_ref()?;
        let mut there = cx.snapshot.members_of(flow);
        there.find(|member| member.server.id() == asked.server.id())?;
        self.probes[place].outstanding = None;
        Some(asked)
    }

    fn of(&mut self, server: ServerId) -> &mut Probe {
        let place = usize::from(server.0);
        if self.probes.len() <= place {
            self.probes.resize(place + 1, Probe::default());
        }
        &mut self.probes[place]
    }
}

/// Whether calls wait for a server: it is down, as all others of its pool are.
fn is_needed(member: &Member, pool: &PoolView) -> bool {
    let is_up = |server: &std::sync::Arc<balance::Server>| server.health() == Health::Up;
    member.server.health() == Health::Down && !pool.pool().all_servers().any(is_up)
}

/// Counts a failed probe. With a request that was silent before, it is enough.
fn fail(cx: Context<'_>, member: &Member, config: &ProbeConfig, cause: Cause) {
    let fall = if member.is_suspected() {
        1
    } else {
        config.fall
    };
    if member.server.probe_failed(cx.now, fall) {
        cx.shared.tell(member, cause);
    }
    member.trust();
}
