//! Names of entries.

use std::{fmt, marker::PhantomData, num::NonZeroU32};

/// Names an entry of type `T` in the table that holds it. An `Option` of it takes four bytes.
pub struct Id<T> {
    /// The place plus one.
    number: NonZeroU32,
    of: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    /// The name of the entry at a place.
    ///
    /// # Panics
    /// If the place is beyond what 32 bits number.
    #[must_use]
    pub fn at(place: usize) -> Self {
        let number = u32::try_from(place + 1).ok().and_then(NonZeroU32::new);
        Self {
            number: number.expect("limits are far below 2^32"),
            of: PhantomData,
        }
    }

    /// The entry's place.
    #[must_use]
    pub fn place(self) -> usize {
        self.number.get() as usize - 1
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Id<T> {}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.place())
    }
}
