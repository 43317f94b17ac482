//! OPTIONS probes: whether servers answer that have no calls to show it.

use std::time::Duration;

use balance::ServerId;
use fastrand::Rng;
use transaction::Flow;

use crate::{
    context::Context,
    io::Outbox,
    member::Member,
    stats::Dropped,
    wire::{
        branch::{Branch, Purpose},
        relay::write_via,
        response::Response,
    },
};

/// The probes of one worker; only the first worker has any to send.
#[derive(Debug)]
pub(crate) struct Probes {
    is_prober: bool,
    /// By server number.
    probes: Vec<Probe>,
    rng: Rng,
    nonce: u64,
    due: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    next_at: Duration,
    /// What the outstanding probe's branch says, and when it has failed.
    outstanding: Option<(u64, Duration)>,
}

impl Probes {
    pub(crate) fn new(is_prober: bool, mut rng: Rng) -> Self {
        Self {
            is_prober,
            probes: Vec::new(),
            nonce: rng.u64(..),
            rng,
            due: Duration::ZERO,
        }
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.is_prober.then_some(self.due)
    }
}

impl Probes {
    /// Sends the probes that are due, and counts those that were not answered.
    pub(crate) fn on_timers(&mut self, cx: Context<'_>, out: &mut Outbox) {
        if !self.is_prober || cx.now < self.due {
            return;
        }
        self.due = cx.now + Duration::from_secs(1);
        for member in cx
            .snapshot
            .members()
            .iter()
            .flatten()
            .filter(|member| !member.server.is_removed())
        {
            self.probe_member(cx, member, out);
        }
    }

    fn probe_member(&mut self, cx: Context<'_>, member: &Member, out: &mut Outbox) {
        let Some(pool) = cx.snapshot.pool_of(member) else {
            return;
        };
        let Some(config) = &pool.config().probe else {
            return;
        };
        let probe = self.of(member.server.id());
        if let Some((_, fails_at)) = probe.outstanding
            && fails_at <= cx.now
        {
            probe.outstanding = None;
            let may_be_lost = cx
                .shared
                .has_lost_since(fails_at.saturating_sub(config.timeout));
            if !may_be_lost && member.server.probe_failed(cx.now, config.fall) {
                cx.shared.server_fell();
            }
        }
        if probe.next_at <= cx.now {
            let late = probe.next_at != Duration::ZERO && probe.next_at + config.interval > cx.now;
            probe.next_at = if late { probe.next_at } else { cx.now } + config.interval;
            self.send_probe(cx, member, config.timeout, out);
        }
        let probe = *self.of(member.server.id());
        let next = probe
            .outstanding
            .map_or(probe.next_at, |(_, at)| at.min(probe.next_at));
        self.due = self.due.min(next);
    }

    fn send_probe(
        &mut self,
        cx: Context<'_>,
        member: &Member,
        timeout: Duration,
        out: &mut Outbox,
    ) {
        let Some(flow) = cx.snapshot.flow_to(member.address, 0) else {
            return;
        };
        let listener = flow.listener;
        let id = self.rng.u64(..);
        self.of(member.server.id()).outstanding = Some((id, cx.now + timeout));
        let nonce = self.nonce;
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
        let id = response.branch.id;
        let mut from = cx.snapshot.members_of(response.flow);
        let is_waiting = |(_, probe): &(usize, &mut Probe)| {
            probe.outstanding.is_some_and(|(sent, _)| sent == id)
        };
        let found = self.probes.iter_mut().enumerate().find(is_waiting);
        let member = found.and_then(|(place, probe)| {
            let member = cx.snapshot.members().get(place)?.as_ref()?;
            let is_asked = from.any(|from| from.server.id() == member.server.id());
            is_asked.then(|| {
                probe.outstanding = None;
                member
            })
        });
        let Some(member) = member else {
            return cx.stats.drop_one(Dropped::StaleProbe);
        };
        let Some(config) = cx
            .snapshot
            .pool_of(member)
            .and_then(|pool| pool.config().probe.as_ref())
        else {
            return;
        };
        if response.status == 503 {
            if member.server.probe_failed(cx.now, config.fall) {
                cx.shared.server_fell();
            }
        } else {
            member.server.probe_passed(cx.now, config.rise);
        }
    }

    fn of(&mut self, server: ServerId) -> &mut Probe {
        let place = usize::from(server.0);
        if self.probes.len() <= place {
            self.probes.resize(place + 1, Probe::default());
        }
        &mut self.probes[place]
    }
}

/// Nobody listens at the other end of a flow: a server that is there is down at once, not after
/// `fall` timeouts.
pub(crate) fn on_unreachable(cx: Context<'_>, flow: Flow) {
    for member in cx.snapshot.members_of(flow) {
        if member.server.unreachable(cx.now) {
            cx.shared.server_fell();
        }
    }
}
