//! Keep-alives to bindings: they keep NATs open and find out which flows are dead. RFC 5626 §4.4
//!
//! The worker that has granted a REGISTER asks its contacts from then on. After a restart it asks those that
//! have registered again.

use std::{collections::BTreeMap, time::Duration};

use fastrand::Rng;
use location::{Aor, Binding};
use slots::{Id, Table, Ticket};
use transaction::Flow;

use super::removals::{Bound, Removals};
use crate::{
    config::{KeepAlive, KeepAliveMethod},
    context::Context,
    io::Outbox,
    question::Answer,
    registrar::targets::{Target, target_of},
    stats::{Dropped, Event},
    wire::{
        branch::{Branch, Purpose},
        relay::write_via,
        response::Response,
    },
};

/// Bindings that a worker keeps alive at most.
const KEPT_MAX: usize = 1 << 18;

/// Keep-alives that are sent together at most, and how soon the next follow.
const BURST: usize = 64;
const PAUSE: Duration = Duration::from_millis(5);

/// Tells the flows of an address-of-record apart.
type Name = (Box<[u8]>, Box<str>, u64, u32);

/// The bindings that a worker keeps alive.
#[derive(Debug)]
pub(crate) struct KeepAlives {
    kept: Table<Kept>,
    by_name: BTreeMap<Name, Id<Kept>>,
    /// What waits for an answer, by what its branch says.
    asked: BTreeMap<u64, Id<Kept>>,
    removals: Removals,
    worker: usize,
    rng: Rng,
    /// When the next may be sent.
    pause_ends: Duration,
}

/// A binding that is kept alive.
#[derive(Debug)]
struct Kept {
    name: Name,
    bound: Bound,
    flow: Flow,
    uri: Box<[u8]>,
    path: Box<[u8]>,
    ends: Duration,
    /// What the latest one's branch says, if nobody has answered.
    asked: Option<u64>,
    misses: u32,
    number: u32,
}

/// What a REGISTER makes of the bindings that are kept alive.
#[derive(Debug)]
pub(super) struct Change {
    aor: Box<[u8]>,
    /// All bindings that there are.
    names: Vec<Name>,
    set: Vec<Kept>,
}

impl Change {
    /// `is_set` tells which bindings the REGISTER has set.
    pub(super) fn new(
        cx: Context<'_>,
        aor: &Aor,
        bindings: &[Binding<'_>],
        hit: u8,
        is_set: impl Fn(&Binding<'_>) -> bool,
    ) -> Self {
        let set = bindings.iter().filter(|binding| is_set(binding));
        Self {
            aor: aor.key().into(),
            names: bindings
                .iter()
                .map(|binding| name(aor.key(), binding))
                .collect(),
            set: set
                .filter_map(|binding| Kept::new(cx, aor.key(), binding, hit))
                .collect(),
        }
    }
}

impl Kept {
    /// None: it has no address, or one that nothing may be sent to.
    fn new(cx: Context<'_>, aor: &[u8], binding: &Binding<'_>, hit: u8) -> Option<Self> {
        let Target {
            uri, path, flows, ..
        } = target_of(cx, binding, hit)?;
        Some(Self {
            name: name(aor, binding),
            bound: Bound::of(binding),
            flow: *flows.first()?,
            uri: uri.into(),
            path: path.into(),
            ends: cx.now + binding.expires.saturating_sub(cx.wall()),
            asked: None,
            misses: 0,
            number: 0,
        })
    }
}

/// A device is told by its number and its flow's; all others by their contact.
fn name(aor: &[u8], binding: &Binding<'_>) -> Name {
    let contact = if binding.device > 0 && binding.reg_id > 0 {
        ""
    } else {
        binding.contact
    };
    (aor.into(), contact.into(), binding.device, binding.reg_id)
}

impl KeepAlives {
    pub(super) fn new(worker: usize, rng: Rng, now: Duration) -> Self {
        Self {
            kept: Table::new(KEPT_MAX, now),
            by_name: BTreeMap::new(),
            asked: BTreeMap::new(),
            removals: Removals::of_keep_alives(now),
            worker,
            rng,
            pause_ends: Duration::ZERO,
        }
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        let due = self.kept.deadline().map(|due| due.max(self.pause_ends));
        [due, self.removals.deadline()].into_iter().flatten().min()
    }

    /// A REGISTER is granted. The first keep-alive comes after a random part of the interval, so that phones
    /// which have registered together are not asked together.
    pub(super) fn apply(&mut self, cx: Context<'_>, config: &KeepAlive, change: Change) {
        let Change { aor, names, set } = change;
        let first = (aor.clone(), Box::default(), 0, 0);
        let of_user = self
            .by_name
            .range(first..)
            .take_while(|((of, ..), _)| *of == aor);
        let gone = of_user.filter(|(name, _)| !names.contains(name));
        for place in gone.map(|(_, &place)| place).collect::<Vec<_>>() {
            self.forget(place);
        }
        for kept in set {
            if let Some(&place) = self.by_name.get(&kept.name) {
                let known = self.kept.get_mut(place);
                let asked = known.asked.take();
                *known = kept;
                asked.map(|id| self.asked.remove(&id));
                continue;
            }
            let name = kept.name.clone();
            let Some(place) = self.kept.insert(kept) else {
                cx.stats.count(Event::KeepAlivesFull, 1);
                continue;
            };
            self.by_name.insert(name, place);
            let wait = config.interval.mul_f64(0.1 + 0.9 * self.rng.f64());
            self.kept.arm(place, cx.now + wait);
        }
    }

    /// Sends what is due, a bounded part of it.
    pub(super) fn on_timers(&mut self, cx: Context<'_>, out: &mut Outbox) {
        self.removals.on_timers(cx);
        if cx.now < self.pause_ends {
            return;
        }
        let registrar = cx.snapshot.config().registrar.as_ref();
        let config = registrar.and_then(|registrar| registrar.keep_alive.as_ref());
        for _ in 0..BURST {
            let Some(place) = self.kept.pop_due(cx.now) else {
                return;
            };
            match config {
                Some(config) => self.keep(cx, config, place, out),
                None => self.forget(place),
            }
        }
        self.pause_ends = cx.now + PAUSE;
    }

    fn keep(&mut self, cx: Context<'_>, config: &KeepAlive, place: Id<Kept>, out: &mut Outbox) {
        let kept = self.kept.get_mut(place);
        if kept.ends <= cx.now {
            return self.forget(place);
        }
        if let Some(unanswered) = kept.asked.take() {
            kept.misses += 1;
            let is_dead = kept.misses >= config.fall;
            self.asked.remove(&unanswered);
            if is_dead {
                return self.bury(cx, place, out);
            }
        }
        let wait = config.interval.mul_f64(0.9 + 0.2 * self.rng.f64());
        self.kept.arm(place, cx.now + wait);
        cx.stats.count(Event::KeptFlow, 1);
        let kept = self.kept.get_mut(place);
        match config.method {
            KeepAliveMethod::Crlf => out.send(kept.flow, |out| out.extend_from_slice(b"\r\n\r\n")),
            KeepAliveMethod::Options => {
                let id = self.rng.u64(..) & !0xffff | self.worker as u64;
                kept.asked = Some(id);
                kept.number += 1;
                self.asked.insert(id, place);
                write_options(cx, self.kept.get(place), id, out);
            }
        }
    }

    /// Whatever a phone answers, it is there. An edge answers for one whose flow is dead.
    pub(crate) fn on_answer(&mut self, cx: Context<'_>, response: &Response<'_>, out: &mut Outbox) {
        let Some(place) = self.take(response.branch.id) else {
            return cx.stats.drop_one(Dropped::StaleProbe);
        };
        match response.status {
            430 => self.bury(cx, place, out),
            // A proxy between says that nobody has answered it.
            408 | 503 => self.kept.get_mut(place).misses += 1,
            _ => self.kept.get_mut(place).misses = 0,
        }
    }

    /// Nobody listens where a keep-alive went. False: none waits that had this in its branch.
    pub(crate) fn on_unreachable(
        &mut self,
        cx: Context<'_>,
        id: u64,
        flow: Flow,
        out: &mut Outbox,
    ) -> bool {
        let place = self.asked.get(&id).copied();
        let Some(place) = place.filter(|&place| self.kept.get(place).flow == flow) else {
            return false;
        };
        self.asked.remove(&id);
        self.kept.get_mut(place).asked = None;
        if self.kept.get(place).path.is_empty() {
            self.bury(cx, place, out);
        } else {
            // It is the edge that is gone; another may take its place.
            self.kept.get_mut(place).misses += 1;
        }
        true
    }

    /// The store has answered about a binding that goes.
    pub(crate) fn on_removal(
        &mut self,
        cx: Context<'_>,
        ticket: Ticket,
        answer: Answer,
        out: &mut Outbox,
    ) {
        self.removals.on_answer(cx, ticket, answer, out);
    }

    fn take(&mut self, id: u64) -> Option<Id<Kept>> {
        let place = self.asked.remove(&id)?;
        self.kept.get_mut(place).asked = None;
        Some(place)
    }

    /// The flow of a binding is dead.
    fn bury(&mut self, cx: Context<'_>, place: Id<Kept>, out: &mut Outbox) {
        cx.stats.count(Event::FlowFailed, 1);
        let kept = self.kept.get(place);
        self.removals.remove(cx, &kept.name.0, &kept.bound, out);
        self.forget(place);
    }

    fn forget(&mut self, place: Id<Kept>) {
        let kept = self.kept.remove(place);
        self.by_name.remove(&kept.name);
        if let Some(id) = kept.asked {
            self.asked.remove(&id);
        }
    }
}

fn write_options(cx: Context<'_>, kept: &Kept, id: u64, out: &mut Outbox) {
    let listener = kept.flow.listener;
    let branch = Branch {
        purpose: Purpose::KeepAlive,
        listener,
        id,
    };
    let us = &cx.snapshot.listener(listener).advertise;
    out.send(kept.flow, |out| {
        out.extend_from_slice(b"OPTIONS ");
        out.extend_from_slice(&kept.uri);
        out.extend_from_slice(b" SIP/2.0\r\nVia: ");
        write_via(cx.snapshot, listener, branch, out);
        if !kept.path.is_empty() {
            out.extend_from_slice(b"\r\nRoute: ");
            out.extend_from_slice(&kept.path);
        }
        out.extend_from_slice(b"\r\nTo: <");
        out.extend_from_slice(&kept.uri);
        let rest = format!(
            ">\r\nMax-Forwards: 70\r\nFrom: <sip:{us}>;tag=keep\r\nCall-ID: {id:016x}\r\nCSeq: {} OPTIONS\r\n\
             Contact: <sip:{us}>\r\nContent-Length: 0\r\n\r\n",
            kept.number
        );
        out.extend_from_slice(rest.as_bytes());
    });
}
