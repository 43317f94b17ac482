//! Entries by number; numbers are used again.

#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    /// Room for so many entries; memory is touched only when used.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            entries: Vec::with_capacity(limit),
            free: Vec::with_capacity(limit),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, entry: T) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = Some(entry);
                id
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() as u32 - 1
            }
        }
    }

    pub(crate) fn remove(&mut self, id: u32) -> T {
        self.free.push(id);
        let entry = self.entries[id as usize].take();
        entry.expect("an entry is named only while it is there")
    }

    pub(crate) fn get(&self, id: u32) -> &T {
        let entry = self.entries[id as usize].as_ref();
        entry.expect("an entry is named only while it is there")
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> &mut T {
        let entry = self.entries[id as usize].as_mut();
        entry.expect("an entry is named only while it is there")
    }
}
