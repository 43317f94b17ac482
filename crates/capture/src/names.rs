//! Gives numbers to things that occur repeatedly.

use std::hash::Hash;

use crate::read::Map;

/// Things, numbered in the order in which they first occur.
#[derive(Debug)]
pub(crate) struct Names<T> {
    numbers: Map<T, u32>,
    things: Vec<T>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self {
            numbers: Map::default(),
            things: Vec::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Names<T> {
    pub(crate) fn number(&mut self, thing: &T) -> u32 {
        if let Some(&number) = self.numbers.get(thing) {
            return number;
        }
        let number = self.things.len() as u32;
        self.things.push(thing.clone());
        self.numbers.insert(thing.clone(), number);
        number
    }

    pub(crate) fn get(&self, number: u32) -> &T {
        &self.things[number as usize]
    }

    pub(crate) fn all(&self) -> &[T] {
        &self.things
    }
}
