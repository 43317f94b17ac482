//! Entries that have a timer each, and may be asked for after they are gone.

use std::time::Duration;

use crate::{Id, Slab, Wheel};

/// Names an entry to somebody who may come back after the entry is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    place: u32,
    /// Tells the entry from those that had its place before.
    serial: u32,
}

/// Up to a limit of entries, each with a timer.
#[derive(Debug)]
pub struct Table<T> {
    entries: Slab<T>,
    timers: Wheel<T>,
    /// How often the entry of each place was removed.
    serials: Vec<u32>,
}

impl<T> Table<T> {
    /// Room for so many entries; memory is touched only when used.
    #[must_use]
    pub fn new(limit: usize, now: Duration) -> Self {
        Self {
            entries: Slab::new(limit),
            timers: Wheel::new(limit, now),
            serials: Vec::with_capacity(limit),
        }
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether there is room for so many more.
    #[must_use]
    pub fn has_room(&self, number: usize) -> bool {
        self.entries.has_room(number)
    }

    /// Adds an entry, whose timer does not run; none when there is no room.
    pub fn insert(&mut self, entry: T) -> Option<Id<T>> {
        let id = self.entries.insert(entry)?;
        if id.place() == self.serials.len() {
            self.serials.push(0);
        }
        Some(id)
    }

    /// Takes an entry out; its timer stops and its tickets are void.
    ///
    /// # Panics
    /// If it is not there.
    pub fn remove(&mut self, id: Id<T>) -> T {
        self.timers.disarm(id);
        let serial = &mut self.serials[id.place()];
        *serial = serial.wrapping_add(1);
        self.entries.remove(id)
    }

    /// The entry of this name.
    ///
    /// # Panics
    /// If it is not there.
    #[must_use]
    pub fn get(&self, id: Id<T>) -> &T {
        self.entries.get(id)
    }

    /// The same, to change it.
    ///
    /// # Panics
    /// If it is not there.
    #[must_use]
    pub fn get_mut(&mut self, id: Id<T>) -> &mut T {
        self.entries.get_mut(id)
    }

    /// All entries, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        self.entries.iter()
    }

    /// What somebody is to name who asks for this entry later.
    #[must_use]
    pub fn ticket(&self, id: Id<T>) -> Ticket {
        Ticket {
            place: id.place() as u32,
            serial: self.serials[id.place()],
        }
    }

    /// The entry that a ticket was made for, if it is still there.
    #[must_use]
    pub fn find(&self, ticket: Ticket) -> Option<Id<T>> {
        let id = Id::at(ticket.place as usize);
        let is_there = self.entries.find(id).is_some();
        (is_there && self.serials[id.place()] == ticket.serial).then_some(id)
    }

    /// Starts an entry's timer, or starts it anew. It never fires early.
    pub fn arm(&mut self, id: Id<T>, at: Duration) {
        self.timers.arm(id, at);
    }

    /// Stops an entry's timer, if it runs.
    pub fn disarm(&mut self, id: Id<T>) {
        self.timers.disarm(id);
    }

    /// The next entry whose timer has run out; the timer is stopped.
    pub fn pop_due(&mut self, now: Duration) -> Option<Id<T>> {
        self.timers.pop(now)
    }

    /// When [`Self::pop_due`] wants to be called next, at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.timers.deadline()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_void_once_its_entry_is_gone() {
        let mut table = Table::new(1, Duration::ZERO);
        let one = table.insert("one").unwrap();
        let ticket = table.ticket(one);
        assert_eq!(table.find(ticket), Some(one));
        table.remove(one);
        assert_eq!(table.find(ticket), None);
        let two = table.insert("two").unwrap();
        assert_eq!(two, one, "it has the place of the first");
        assert_eq!(table.find(ticket), None);
        assert_eq!(table.find(table.ticket(two)), Some(two));
    }

    #[test]
    fn the_timer_of_a_removed_entry_does_not_fire() {
        let mut table = Table::new(2, Duration::ZERO);
        let ids = ["one", "two"].map(|name| table.insert(name).unwrap());
        for id in ids {
            table.arm(id, Duration::from_secs(1));
        }
        table.remove(ids[0]);
        assert_eq!(table.pop_due(Duration::from_secs(2)), Some(ids[1]));
        assert_eq!(table.pop_due(Duration::from_secs(2)), None);
        assert_eq!(table.deadline(), None);
    }
}
