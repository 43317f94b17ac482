//! OPTIONS probes: whether servers answer that have no calls to show it.

use std::time::Duration;

use balance::ServerId;

use crate::{
    branch::{Branch, Purpose},
    io::{Datagram, Outbox},
    node::{Context, State},
    response::Response,
    shared::Member,
    stats::Dropped,
};

/// The probes of one worker; only the first worker has any to send.
#[derive(Debug)]
pub(crate) struct Probes {
    is_prober: bool,
    /// By server number.
    probes: Vec<Probe>,
    rng: fastrand::Rng,
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
    pub(crate) fn new(is_prober: bool, mut rng: fastrand::Rng) -> Self {
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

impl State {
    /// Sends the probes that are due, and counts those that were not answered.
    pub(crate) fn probe(&mut self, cx: Context<'_>, out: &mut Outbox) {
        if !self.probes.is_prober || cx.now < self.probes.due {
            return;
        }
        self.probes.due = cx.now + Duration::from_secs(1);
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
        let probe = self.probes.of(member.server.id());
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
        let probe = *self.probes.of(member.server.id());
        let next = probe
            .outstanding
            .map_or(probe.next_at, |(_, at)| at.min(probe.next_at));
        self.probes.due = self.probes.due.min(next);
    }

    fn send_probe(
        &mut self,
        cx: Context<'_>,
        member: &Member,
        timeout: Duration,
        out: &mut Outbox,
    ) {
        let Some(listener) = cx.snapshot.listener_towards(member.address, 0) else {
            return;
        };
        let id = self.probes.rng.u64(..);
        self.probes.of(member.server.id()).outstanding = Some((id, cx.now + timeout));
        let nonce = self.probes.nonce;
        let branch = Branch {
            purpose: Purpose::Probe,
            listener,
            id,
        };
        let us = &cx.snapshot.listener(listener).advertise;
        out.send(listener, member.address, |out| {
            let start = format!("OPTIONS sip:{} SIP/2.0\r\nVia: ", member.address);
            out.extend_from_slice(start.as_bytes());
            crate::relay::write_via(cx.snapshot, listener, branch, out);
            let rest = format!(
                "\r\nMax-Forwards: 70\r\nFrom: <sip:{us}>;tag={nonce:x}\r\nTo: <sip:{}>\r\nCall-ID: {id:x}-{nonce:x}\r\n\
                 CSeq: 1 OPTIONS\r\nContact: <sip:{us}>\r\nAccept: application/sdp\r\nContent-Length: 0\r\n\r\n",
                member.address,
            );
            out.extend_from_slice(rest.as_bytes());
        });
    }

    /// Any final answer but 503 shows that a server is there.
    pub(crate) fn on_probe_answer(
        &mut self,
        cx: Context<'_>,
        datagram: &Datagram<'_>,
        id: u64,
        response: &Response<'_>,
    ) {
        if !response.is_final() {
            return;
        }
        let is_waiting = |(_, probe): &(usize, &mut Probe)| {
            probe.outstanding.is_some_and(|(sent, _)| sent == id)
        };
        let found = self.probes.probes.iter_mut().enumerate().find(is_waiting);
        let member = found.and_then(|(place, probe)| {
            let member = cx.snapshot.members().get(place)?.as_ref()?;
            let is_there = member.address == datagram.from;
            is_there.then(|| {
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

    /// Nobody listens at a server's address: it is down at once, not after `fall` timeouts.
    pub(crate) fn on_unreachable(&mut self, cx: Context<'_>, address: std::net::SocketAddr) {
        for member in cx.snapshot.members_at(address) {
            if member.server.unreachable(cx.now) {
                cx.shared.server_fell();
            }
        }
    }
}

impl Probes {
    fn of(&mut self, server: ServerId) -> &mut Probe {
        let place = usize::from(server.0);
        if self.probes.len() <= place {
            self.probes.resize(place + 1, Probe::default());
        }
        &mut self.probes[place]
    }
}
