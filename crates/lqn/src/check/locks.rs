//! Checks semaphores and locks.

use crate::model::{Call, CallKind, EntryId, Locking, Model, Multiplicity, Role, Task};

pub(super) fn check_locks(model: &Model, task: &Task, say: &mut dyn FnMut(String)) {
    let name = &task.name;
    let rule = match task.role {
        Role::Reference { .. } | Role::Server => return check_no_locking(model, task, say),
        Role::Semaphore { initially } => {
            if let (Some(tokens), Multiplicity::Finite(all)) = (initially, task.multiplicity)
                && tokens > all
            {
                say(format!(
                    "semaphore {name} begins with {tokens} of its {all} tokens: write at most {all}"
                ));
            }
            "a semaphore has two entries, one that waits (V, semaphore=\"wait\") and one that \
             signals (P, semaphore=\"signal\")"
        }
        Role::ReadWriteLock => {
            "a lock has four entries: a read lock (R, rwlock=\"r-lock\") and its unlock (U, \
             r-unlock), a write lock (W, w-lock) and its unlock (X, w-unlock)"
        }
    };
    if task.multiplicity == Multiplicity::Infinite {
        say(format!(
            "task {name} never keeps a request waiting: write a number of tokens or readers"
        ));
    }
    let entries = || task.entries.iter().copied();
    let mut found: Vec<_> = entries().map(|entry| model[entry].locking).collect();
    let mut wanted: Vec<_> = task.role.locking().iter().copied().map(Some).collect();
    found.sort();
    wanted.sort();
    if found != wanted {
        return say(format!("entries of task {name}: {rule}"));
    }
    for entry in entries() {
        let counterpart = model[entry].locking.and_then(Locking::counterpart);
        let is_it = |other: &EntryId| model[*other].locking == counterpart;
        if let Some(back) = counterpart.and_then(|_| entries().find(is_it)) {
            check_pair(model, entry, back, say);
        }
    }
}

fn check_no_locking(model: &Model, task: &Task, say: &mut dyn FnMut(String)) {
    let entries = task.entries.iter().map(|&entry| &model[entry]);
    for entry in entries.filter(|entry| entry.locking.is_some()) {
        say(format!(
            "entry {} waits, signals, locks or unlocks, but task {} is neither a semaphore (S, \
             semaphore) nor a lock (W, rwlock)",
            entry.name, task.name
        ));
    }
}

/// An entry that takes, and the one that gives back.
fn check_pair(model: &Model, takes: EntryId, gives_back: EntryId, say: &mut dyn FnMut(String)) {
    let name = &model[takes].name;
    let is_sent = |call: &Call| call.kind == CallKind::Asynchronous;
    if model[takes].open_arrival_rate > 0.0 || calls_to(model, takes).any(is_sent) {
        say(format!(
            "entry {name} gets requests that nobody waits for, so it stops nobody: call it (y, \
             synch-call)"
        ));
    }
    if is_used(model, takes) && !is_used(model, gives_back) {
        say(format!(
            "entry {name} is called and entry {} is not, so what is taken never comes back: call \
             both",
            model[gives_back].name
        ));
    }
}

fn calls_to(model: &Model, entry: EntryId) -> impl Iterator<Item = &Call> {
    let phases = model.entries.iter().flat_map(|entry| &entry.phases);
    let calls = phases.flat_map(|phase| &phase.calls);
    calls.filter(move |call| call.target == entry && call.mean > 0.0)
}

fn is_used(model: &Model, entry: EntryId) -> bool {
    let mut forwards = model.entries.iter().flat_map(|entry| &entry.forwards);
    model[entry].open_arrival_rate > 0.0
        || calls_to(model, entry).next().is_some()
        || forwards.any(|forward| forward.target == entry && forward.probability > 0.0)
}
