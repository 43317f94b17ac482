//! Several edges before the same servers: each tells the others what it has open.
//!
//! The first worker looks at the ledgers every 10 ms. What is open at three looks in a row stays
//! open; the rest comes and goes faster than it could be told. It reports at every interval, and
//! at once when something begins or ceases to stay open on a server, so that a server that has
//! stopped is known to all edges in some 30 ms, before each of them has lost a call to it.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use balance::{Elsewhere, ServerId};

use transaction::{Flow, NextHop};

use super::{
    peers::Peers,
    report::{self, ENTRIES_MAX, Entry, Header, Report},
};
use crate::{
    context::Context,
    io::Outbox,
    member::Member,
    stats::{Dropped, Event},
};

/// Time between two looks at the ledgers.
const LOOK: Duration = Duration::from_millis(10);

/// A peer that misses so many reports has died, or the way to it has: nothing of it counts.
const REPORTS_MISSED: u32 = 5;

/// The part of a new measurement in the smoothed rate of arrivals.
const SMOOTHING: f64 = 0.1;

/// The exchange of ledgers with other edges; only the first worker takes part.
#[derive(Debug)]
pub(crate) struct Exchange {
    is_exchanger: bool,
    owner: u64,
    sequence: u64,
    looked_at: Option<Duration>,
    report_due: Duration,
    /// Whether there is anybody to exchange with, as far as was seen.
    is_on: bool,
    /// Whether something was open at the last look.
    is_busy: bool,
    looks: BTreeMap<SocketAddr, Looks>,
    rate: Rate,
    peers: Peers,
}

/// What is open on one server.
#[derive(Debug, Default)]
struct Looks {
    earlier: [Elsewhere; 2],
    /// What has been open since the look before the last.
    staying: Elsewhere,
    /// Whether the last report said that something stays open.
    told: bool,
}

/// Arrivals per second that this edge places.
#[derive(Debug, Default)]
struct Rate {
    smoothed: f64,
    placed: u64,
    measured_at: Duration,
}

impl Exchange {
    pub(crate) fn new(is_exchanger: bool, owner: u64) -> Self {
        Self {
            is_exchanger,
            owner,
            sequence: 0,
            looked_at: None,
            report_due: Duration::ZERO,
            is_on: is_exchanger,
            is_busy: false,
            looks: BTreeMap::new(),
            rate: Rate::default(),
            peers: Peers::default(),
        }
    }

    /// While anything is open it is looked at, and reports wait for a look; `is_busy` says whether this worker has something.
    pub(crate) fn deadline(&self, is_busy: bool) -> Option<Duration> {
        let next_look = self.looked_at.map_or(Duration::ZERO, |at| at + LOOK);
        let next = if is_busy || self.is_busy {
            next_look
        } else {
            self.report_due.max(next_look)
        };
        self.is_on.then_some(next)
    }
}

impl Exchange {
    /// Looks at the ledgers and reports, when either is due.
    pub(crate) fn on_timers(&mut self, cx: Context<'_>, out: &mut Outbox) {
        if !self.is_exchanger {
            return;
        }
        if cx.snapshot.config().exchange.peers.is_empty() {
            return self.end(cx);
        }
        if self.looked_at.is_some_and(|at| cx.now < at + LOOK) {
            return;
        }
        self.looked_at = Some(cx.now);
        self.look(cx);
        let is_due = self.report_due <= cx.now;
        if is_due {
            self.rate.measure(cx);
            self.forget_the_silent(cx);
        }
        if is_due || self.looks.values().any(Looks::is_news) {
            self.report(cx, out);
        }
        self.is_on = true;
        self.is_busy = self.looks.values().any(Looks::is_open);
    }

    /// Takes what a peer has told, and counts it at once.
    pub(crate) fn on_report(&mut self, cx: Context<'_>, from: Flow, report: Report<'_>) {
        match self.take(cx, from, report) {
            Ok(()) => cx.stats.count(Event::ReportReceived, 1),
            Err(reason) => cx.stats.drop_one(reason),
        }
    }

    fn take(&mut self, cx: Context<'_>, from: Flow, report: Report<'_>) -> Result<(), Dropped> {
        let Report {
            header,
            mut entries,
        } = report;
        if cx.snapshot.config().exchange.peers.is_empty() || header.owner == self.owner {
            return Err(Dropped::ReportUnexpected);
        }
        entries.retain(|entry| cx.snapshot.member_at(entry.address).is_some());
        self.peers
            .take(cx.now, silence(cx), from.remote, &header, &entries)?;
        entries
            .iter()
            .for_each(|entry| self.count(cx, entry.address));
        Ok(())
    }

    /// Adds up what the peers have open on a server.
    fn count(&self, cx: Context<'_>, address: SocketAddr) {
        let open = self.peers.open_on(cx.now, silence(cx), address);
        for member in cx.snapshot.members_at(address) {
            member.server.set_elsewhere(open);
        }
    }

    fn look(&mut self, cx: Context<'_>) {
        let listed = cx.snapshot.addresses();
        self.looks
            .retain(|address, _| listed.binary_search_by_key(address, |(at, _)| *at).is_ok());
        for same in listed.chunk_by(|(left, _), (right, _)| left == right) {
            let looks = self.looks.entry(same[0].0).or_default();
            looks.add(open_here(cx, same));
        }
    }

    fn report(&mut self, cx: Context<'_>, out: &mut Outbox) {
        self.report_due = cx.now + cx.snapshot.config().exchange.interval;
        let entries: Vec<Entry> = self
            .looks
            .iter_mut()
            .map(|(&address, looks)| Entry {
                address,
                open: looks.tell(),
            })
            .collect();
        for entries in entries.chunks(ENTRIES_MAX) {
            self.sequence += 1;
            self.send(cx, entries, out);
        }
    }

    fn send(&self, cx: Context<'_>, entries: &[Entry], out: &mut Outbox) {
        let config = cx.snapshot.config();
        let header = Header {
            owner: self.owner,
            incarnation: cx.shared.incarnation(),
            sequence: self.sequence,
            rate: self.rate.smoothed.round() as u32,
            name: config.name.as_bytes(),
        };
        for &peer in &config.exchange.peers {
            if let Some(flow) = cx.snapshot.flow_to(NextHop::udp(peer), 0) {
                cx.stats.count(Event::ReportSent, 1);
                out.send(flow, |out| {
                    report::write(cx.snapshot.keys(), &header, entries, out);
                });
            }
        }
    }

    /// Counts the peers anew, so that those not heard of for a while drop out.
    fn forget_the_silent(&self, cx: Context<'_>) {
        for &address in self.looks.keys() {
            self.count(cx, address);
        }
        self.prefer(cx);
        cx.shared.set_peers(self.peers.views(cx.now, silence(cx)));
        cx.shared.set_edges(self.peers.edges(cx.now, silence(cx)));
    }

    /// Prefers a part of each pool: side by side in the order of their owners, the edges' parts
    /// cover its servers, each in proportion to the arrivals that its edge places.
    fn prefer(&self, cx: Context<'_>) {
        let ours = self.rate.smoothed;
        let peers = || self.peers.rates(cx.now, silence(cx));
        let sum = |rates: &mut dyn Iterator<Item = (u64, f64)>| rates.map(|(_, rate)| rate).sum();
        let before: f64 = sum(&mut peers().filter(|(owner, _)| *owner < self.owner));
        let all: f64 = ours + sum(&mut peers());
        let part = if all > 0.0 {
            (before / all, (before + ours) / all)
        } else {
            (0.0, 1.0)
        };
        for pool in cx.snapshot.pools() {
            let name = &pool.config().name;
            let members = cx.snapshot.addresses().iter();
            let members = members.filter_map(|(_, id)| cx.snapshot.member(*id));
            let eligible = |member: &&&std::sync::Arc<Member>| member.server.is_eligible(cx.now);
            let in_pool = members.filter(|member| member.pool == *name);
            let members: Vec<_> = in_pool.filter(|member| eligible(&member)).collect();
            let total: f64 = members.iter().map(|member| member.server.capacity()).sum();
            let mut end = 0.0;
            for member in members {
                let start = end;
                end += member.server.capacity() / total;
                member.server.set_preference(overlap(part, (start, end)));
            }
        }
    }

    /// There is nobody to exchange with, or no longer: everything is ours.
    fn end(&mut self, cx: Context<'_>) {
        self.is_on = false;
        if self.looked_at.take().is_none() {
            return;
        }
        self.looks.clear();
        self.peers = Peers::default();
        cx.shared.set_peers(Vec::new());
        cx.shared.set_edges(Vec::new());
        for member in cx.snapshot.members().iter().flatten() {
            member.server.set_elsewhere(Elsewhere::default());
            member.server.set_preference(1.0);
        }
    }
}

/// How much of `of` lies in `part`: 1 when all does.
fn overlap(part: (f64, f64), of: (f64, f64)) -> f64 {
    let common = part.1.min(of.1) - part.0.max(of.0);
    common.max(0.0) / (of.1 - of.0)
}

fn silence(cx: Context<'_>) -> Duration {
    cx.snapshot.config().exchange.interval * REPORTS_MISSED
}

/// What this edge has open on the server that these are.
fn open_here(cx: Context<'_>, same: &[(SocketAddr, ServerId)]) -> Elsewhere {
    let members = same.iter().filter_map(|(_, id)| cx.snapshot.member(*id));
    members.fold(Elsewhere::default(), |sum, member| Elsewhere {
        calls: sum.calls + member.server.calls(),
        transactions: sum.transactions + member.server.transactions(),
        work_thousandths: sum.work_thousandths + (member.server.work() * 1_000.0).round() as u64,
    })
}

impl Looks {
    fn add(&mut self, open: Elsewhere) {
        let [last, before] = self.earlier;
        let least =
            |count: fn(&Elsewhere) -> u64| count(&open).min(count(&last)).min(count(&before));
        self.staying = Elsewhere {
            calls: open.calls,
            transactions: least(|open| open.transactions),
            work_thousandths: least(|open| open.work_thousandths),
        };
        self.earlier = [open, last];
    }

    fn is_open(&self) -> bool {
        self.earlier[0].transactions > 0
    }

    fn is_news(&self) -> bool {
        (self.staying.transactions > 0) != self.told
    }

    fn tell(&mut self) -> Elsewhere {
        self.told = self.staying.transactions > 0;
        self.staying
    }
}

impl Rate {
    fn measure(&mut self, cx: Context<'_>) {
        let members = cx.snapshot.members().iter().flatten();
        let placed: u64 = members.map(|member| member.server.placed()).sum();
        let passed = cx.now.saturating_sub(self.measured_at).as_secs_f64();
        if passed > 0.0 {
            let rate = placed.saturating_sub(self.placed) as f64 / passed;
            self.smoothed += (rate - self.smoothed) * SMOOTHING;
        }
        (self.placed, self.measured_at) = (placed, cx.now);
    }
}
