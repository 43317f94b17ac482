//! Bindings that go because their flow is dead: RFC 5626 §7.

use std::time::Duration;

use location::Binding;
use slots::{Table, Ticket};

use super::bindings;
use crate::{
    context::Context,
    io::Outbox,
    question::{Answer, Ask, Asker, Question, QuestionId, Record},
    stats::Event,
};

/// How many are under way on a worker.
const REMOVALS_MAX: usize = 1_024;

/// How long one waits for the store, and how often it is tried while others change the record.
const WAIT_MAX: Duration = Duration::from_secs(3);
const TRIES_MAX: u8 = 8;

/// A binding as it was read. One that its phone has refreshed since is another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    contact: Box<str>,
    device: u64,
    reg_id: u32,
    updated: Duration,
}

impl Bound {
    pub(crate) fn of(binding: &Binding<'_>) -> Self {
        Self {
            contact: binding.contact.into(),
            device: binding.device,
            reg_id: binding.reg_id,
            // As it is stored: whole milliseconds.
            updated: Duration::from_millis(binding.updated.as_millis() as u64),
        }
    }

    /// The device that it is of; zero if it does not name itself.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    /// When its phone set it.
    pub(crate) fn updated(&self) -> Duration {
        self.updated
    }

    fn is(&self, binding: &Binding<'_>) -> bool {
        *self.contact == *binding.contact
            && (self.device, self.reg_id) == (binding.device, binding.reg_id)
            && self.updated == binding.updated
    }
}

/// Removals that wait for the store.
#[derive(Debug)]
pub(crate) struct Removals {
    table: Table<Removal>,
    asker: fn(Ticket) -> Asker,
}

#[derive(Debug)]
struct Removal {
    key: Box<[u8]>,
    bound: Bound,
    tries: u8,
}

impl Removals {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            table: Table::new(REMOVALS_MAX, now),
            asker: Asker::Removal,
        }
    }

    /// Those that keep-alives have found.
    pub(super) fn of_keep_alives(now: Duration) -> Self {
        Self {
            asker: Asker::Unanswered,
            ..Self::new(now)
        }
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.table.deadline()
    }

    /// Has a binding go, unless its phone refreshes it meanwhile. `key` is of its address-of-record.
    pub(crate) fn remove(&mut self, cx: Context<'_>, key: &[u8], bound: &Bound, out: &mut Outbox) {
        let registrar = cx.snapshot.config().registrar.as_ref();
        if !registrar.is_some_and(|registrar| registrar.removes_dead) {
            return;
        }
        let removal = Removal {
            key: key.into(),
            bound: bound.clone(),
            tries: 0,
        };
        let Some(place) = self.table.insert(removal) else {
            return cx.stats.count(Event::RemovalsFull, 1);
        };
        self.table.arm(place, cx.now + WAIT_MAX);
        let ask = Ask::Read { key: key.into() };
        self.ask_store(self.table.ticket(place), ask, out);
    }

    /// The store has answered.
    pub(crate) fn on_answer(
        &mut self,
        cx: Context<'_>,
        ticket: Ticket,
        answer: Answer,
        out: &mut Outbox,
    ) {
        let Some(place) = self.table.find(ticket) else {
            return;
        };
        let removal = self.table.get_mut(place);
        removal.tries += 1;
        let ask = match answer {
            Answer::Record(Some(seen)) if removal.tries <= TRIES_MAX => removal.change(cx, seen),
            Answer::Changed => {
                cx.stats.count(Event::FlowRemoved, 1);
                None
            }
            Answer::Record(_) | Answer::Located(_) | Answer::Failed => None,
        };
        match ask {
            Some(ask) => self.ask_store(ticket, ask, out),
            None => drop(self.table.remove(place)),
        }
    }

    fn ask_store(&self, ticket: Ticket, ask: Ask, out: &mut Outbox) {
        let id = QuestionId((self.asker)(ticket));
        out.questions.push(Question { id, ask });
    }

    /// The store lets no removal wait for ever.
    pub(crate) fn on_timers(&mut self, cx: Context<'_>) {
        while let Some(place) = self.table.pop_due(cx.now) {
            self.table.remove(place);
        }
    }
}

impl Removal {
    /// None: the binding is gone, or another.
    fn change(&self, cx: Context<'_>, seen: Record) -> Option<Ask> {
        let mut location = bindings::read(Some(&seen), cx.wall()).ok()?;
        let before = location.bindings.len();
        location.bindings.retain(|binding| !self.bound.is(binding));
        let has_it = location.bindings.len() < before;
        let next = bindings::record(&location);
        has_it.then(|| Ask::Change {
            key: self.key.clone(),
            next,
            seen: Some(seen),
        })
    }
}
