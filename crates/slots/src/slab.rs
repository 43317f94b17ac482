//! Entries by number; numbers are used again.

use crate::Id;

/// Up to a limit of entries, each named by its [`Id`] from [`Self::insert`] to [`Self::remove`].
#[derive(Debug)]
pub struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<Id<T>>,
    limit: usize,
}

impl<T> Slab<T> {
    /// Room for so many entries; memory is touched only when used.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            entries: Vec::with_capacity(limit),
            free: Vec::with_capacity(limit),
            limit,
        }
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is room for so many more.
    #[must_use]
    pub fn has_room(&self, number: usize) -> bool {
        self.len() + number <= self.limit
    }

    /// Adds an entry; none when there is no room.
    pub fn insert(&mut self, entry: T) -> Option<Id<T>> {
        if let Some(id) = self.free.pop() {
            self.entries[id.place()] = Some(entry);
            return Some(id);
        }
        if !self.has_room(1) {
            return None;
        }
        self.entries.push(Some(entry));
        Some(Id::at(self.entries.len() - 1))
    }

    /// Takes an entry out.
    ///
    /// # Panics
    /// If it is not there.
    pub fn remove(&mut self, id: Id<T>) -> T {
        let entry = self.entries[id.place()].take();
        self.free.push(id);
        entry.expect("an entry is named only while it is there")
    }

    /// The entry of this name.
    ///
    /// # Panics
    /// If it is not there.
    #[must_use]
    pub fn get(&self, id: Id<T>) -> &T {
        let entry = self.entries[id.place()].as_ref();
        entry.expect("an entry is named only while it is there")
    }

    /// The same, to change it.
    ///
    /// # Panics
    /// If it is not there.
    #[must_use]
    pub fn get_mut(&mut self, id: Id<T>) -> &mut T {
        let entry = self.entries[id.place()].as_mut();
        entry.expect("an entry is named only while it is there")
    }

    /// The entry at a name that may be out of date.
    #[must_use]
    pub fn find(&self, id: Id<T>) -> Option<&T> {
        self.entries.get(id.place())?.as_ref()
    }

    /// All entries, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        let taken = |(place, entry): (usize, _)| Some((Id::at(place), Option::as_ref(entry)?));
        self.entries.iter().enumerate().filter_map(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_up_to_the_limit() {
        let mut slab = Slab::new(2);
        let (one, two) = (slab.insert("one").unwrap(), slab.insert("two").unwrap());
        assert_eq!(slab.insert("three"), None);
        assert_eq!(slab.remove(one), "one");
        assert_eq!((slab.len(), slab.find(one)), (1, None));
        let three = slab.insert("three").unwrap();
        assert_eq!(three, one);
        let all: Vec<_> = slab.iter().collect();
        assert_eq!(all, [(three, &"three"), (two, &"two")]);
        assert!(!slab.has_room(1) && !slab.is_empty());
    }

    #[test]
    fn no_name_costs_no_memory() {
        assert_eq!(size_of::<Option<Id<String>>>(), 4);
    }
}
