//! Logs when there is more than the node or a server can serve, and when that is over, with its figures.

use std::{collections::HashMap, mem, net::IpAddr, sync::Arc, time::Duration};

use balance::ServerId;
use node::{
    Shared,
    stats::{Dropped, Event},
};
use settings::value::show;
use tokio::time::interval;

use super::Control;

const TICK: Duration = Duration::from_millis(100);
/// An overload begins when it has lasted for so long, and is over when it has not been there for so long.
const BEGINS_AFTER: u32 = 10;
const ENDS_AFTER: u32 = 50;

/// Logs the beginning and the end of each overload. It never returns.
pub(super) async fn watch(control: Arc<Control>) {
    let mut tick = interval(TICK);
    let mut log = Log::default();
    loop {
        tick.tick().await;
        for line in log.look(control.shared(), control.now()) {
            tracing::warn!("{line}");
        }
    }
}

/// The overloads that go on.
#[derive(Debug, Default)]
struct Log {
    node: Spell,
    before: Counts,
    least_share: f64,
    /// Whether it has told that the kernel refuses filters.
    is_filter_told: bool,
    /// The changes of the unruly neighbours that it has told.
    unruly_changes: u64,
    servers: HashMap<ServerId, Spell>,
}

/// Something that is there for a time.
#[derive(Debug, Default)]
struct Spell {
    /// Ticks since it began; 0: it is not there.
    lasts: u32,
    /// Ticks in a row that tell the other thing.
    doubts: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum Turn {
    Begins,
    Ends(Duration),
}

impl Spell {
    fn tick(&mut self, is_there: bool) -> Option<Turn> {
        let is_on = self.lasts > 0;
        self.lasts += u32::from(is_on);
        self.doubts = if is_there == is_on {
            0
        } else {
            self.doubts + 1
        };
        if !is_on && self.doubts >= BEGINS_AFTER {
            (self.lasts, self.doubts) = (BEGINS_AFTER, 0);
            return Some(Turn::Begins);
        }
        if is_on && self.doubts >= ENDS_AFTER {
            let lasted = TICK * (self.lasts - ENDS_AFTER);
            *self = Self::default();
            return Some(Turn::Ends(lasted));
        }
        None
    }

    fn is_idle(&self) -> bool {
        self.lasts == 0 && self.doubts == 0
    }
}

/// What workers have counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counts([u64; COUNTED.len() + 1]);

const COUNTED: [(Event, &str); 10] = [
    (Event::EmergencyOut, "calls for help"),
    (Event::CallOut, "calls"),
    (Event::CallFiltered, "calls unread"),
    (Event::LoginOut, "REGISTERs with credentials"),
    (Event::RegisterOut, "REGISTERs"),
    (Event::RegisterFiltered, "REGISTERs unread"),
    (Event::OtherOut, "others"),
    (Event::OfCallsOut, "parts of calls"),
    (Event::OverloadRefused, "of them refused"),
    (Event::OverloadWaited, "waited"),
];

impl Counts {
    fn of(shared: &Shared) -> Self {
        let sum = |event| {
            shared
                .workers()
                .iter()
                .map(|worker| worker.event(event))
                .sum()
        };
        let mut counts = [0; COUNTED.len() + 1];
        for (count, (event, _)) in counts.iter_mut().zip(COUNTED) {
            *count = sum(event);
        }
        let dropped = shared
            .workers()
            .iter()
            .map(|worker| worker.dropped(Dropped::Overload));
        counts[COUNTED.len()] = dropped.sum();
        Self(counts)
    }

    fn since(self, before: Self) -> String {
        let names = COUNTED
            .iter()
            .map(|(_, name)| *name)
            .chain(["dropped unanswered"]);
        let counts = self
            .0
            .iter()
            .zip(before.0)
            .map(|(now, before)| now - before);
        let named = counts.zip(names).filter(|(count, _)| *count > 0);
        let named: Vec<String> = named
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        if named.is_empty() {
            return "nobody stayed out".to_owned();
        }
        format!("stayed out: {}", named.join(", "))
    }
}

impl Log {
    fn look(&mut self, shared: &Shared, now: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(self.look_at_node(shared));
        lines.extend(self.look_at_neighbours(shared));
        lines.extend(self.look_at_filters(shared).map(str::to_owned));
        self.look_at_servers(shared, now, &mut lines);
        lines
    }

    fn look_at_node(&mut self, shared: &Shared) -> Option<String> {
        let capacity = shared.neighbours().capacity();
        let shares = shared.workers().iter().flat_map(|worker| worker.shares());
        let share = shares.fold(1.0, f64::min);
        let counts = Counts::of(shared);
        if self.node.is_idle() {
            (self.before, self.least_share) = (counts, share);
        }
        self.least_share = self.least_share.min(share);
        match self.node.tick(capacity.is_some())? {
            Turn::Begins => Some(format!(
                "an overload begins: {:.0} new requests per second are served, {:.1} % are let in",
                capacity.unwrap_or_default(),
                share * 100.0
            )),
            Turn::Ends(lasted) => Some(format!(
                "the overload is over after {}: {}; {:.1} % were let in at least",
                show(lasted),
                counts.since(self.before),
                self.least_share * 100.0
            )),
        }
    }

    fn look_at_neighbours(&mut self, shared: &Shared) -> Option<String> {
        let changes = shared.unruly_changes();
        let is_news = mem::replace(&mut self.unruly_changes, changes) != changes;
        let hosts = shared.unruly_hosts();
        let names: Vec<_> = hosts.iter().map(IpAddr::to_string).collect();
        (is_news && !hosts.is_empty()).then(|| {
            format!(
                "more than their share comes from {}, so their new requests wait as those of strangers do: turn \
                 overload_control on there",
                names.join(", ")
            )
        })
    }

    fn look_at_filters(&mut self, shared: &Shared) -> Option<&'static str> {
        let mut workers = shared.workers().iter();
        let is_refused = workers.any(|worker| worker.event(Event::FilterRefused) > 0);
        let is_news = is_refused && !self.is_filter_told;
        self.is_filter_told |= is_refused;
        is_news.then_some(
            "the kernel refuses the filter that stops surplus at the sockets, so the node reads and drops it: \
             does net.core.optmem_max show 131072 or more?",
        )
    }

    fn look_at_servers(&mut self, shared: &Shared, now: Duration, lines: &mut Vec<String>) {
        for member in shared.snapshot().members().iter().flatten() {
            let most = member.unanswered_max(now);
            let id = member.server.id();
            if most.is_none() && !self.servers.contains_key(&id) {
                continue;
            }
            let spell = self.servers.entry(id).or_default();
            let (pool, address) = (&member.pool, member.address);
            match spell.tick(most.is_some()) {
                None => {}
                Some(Turn::Begins) => lines.push(format!(
                    "server {address} of pool {pool} answers slowly: {} requests may wait there, all others go \
                     elsewhere or are refused",
                    most.unwrap_or_default()
                )),
                Some(Turn::Ends(lasted)) => lines.push(format!(
                    "server {address} of pool {pool} answers in time again, after {}",
                    show(lasted)
                )),
            }
        }
        self.servers.retain(|_, spell| !spell.is_idle());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spell_begins_and_ends_once() {
        let mut spell = Spell::default();
        let mut ticks = |number, is_there| {
            let turns = (0..number).filter_map(|_| spell.tick(is_there));
            turns.collect::<Vec<_>>()
        };
        assert_eq!(ticks(BEGINS_AFTER - 1, true), []);
        assert_eq!(ticks(1, false), []);
        assert_eq!(ticks(BEGINS_AFTER, true), [Turn::Begins]);
        assert_eq!(ticks(90, true), []);
        assert_eq!(ticks(ENDS_AFTER - 1, false), []);
        assert_eq!(ticks(1, true), []);
        let lasted = TICK * (BEGINS_AFTER + 90 + ENDS_AFTER);
        assert_eq!(ticks(ENDS_AFTER, false), [Turn::Ends(lasted)]);
        assert_eq!(ticks(100, false), []);
    }

    #[test]
    fn counts_name_what_has_grown() {
        let before = Counts([1, 5, 0, 0, 0, 0, 0, 0, 2, 7, 0]);
        let after = Counts([1, 25, 90, 0, 3, 0, 0, 0, 4, 7, 21]);
        let told = "stayed out: 20 calls, 90 calls unread, 3 REGISTERs, 2 of them refused, 21 dropped unanswered";
        assert_eq!(after.since(before), told);
        assert_eq!(after.since(after), "nobody stayed out");
    }
}
