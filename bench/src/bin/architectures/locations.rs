//! The location service: records in memory, which all threads share and which answers at once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use net::{Answerer, Reply};
use node::{Answer, Ask, Record};

/// Records by key. Copies share them. None expires while a measurement lasts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locations(Arc<Mutex<HashMap<Box<[u8]>, Record>>>);

impl Locations {
    /// Answers a node's question.
    pub(crate) fn answer(&self, ask: Ask) -> Answer {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match ask {
            Ask::Read { key } => Answer::Record(records.get(&key).cloned()),
            Ask::Change { key, seen, next } => {
                let current = records.get(&key);
                if current != seen.as_ref() {
                    return Answer::Record(current.cloned());
                }
                match next {
                    Some(next) => records.insert(key, next),
                    None => records.remove(&key),
                };
                Answer::Changed
            }
            Ask::Locate { .. } => Answer::Located(Vec::new()),
        }
    }
}

impl Answerer for Locations {
    fn answer(&self, ask: Ask, _reply: Reply) -> Option<Answer> {
        Some(self.answer(ask))
    }

    fn is_often_later(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_made_to_what_was_seen_and_to_nothing_else() {
        let record = |value: &[u8]| Record {
            value: value.into(),
            expires: None,
        };
        let key: Box<[u8]> = b"key".as_slice().into();
        let locations = Locations::default();
        let change = |seen: Option<&[u8]>, next: Option<&[u8]>| {
            locations.clone().answer(Ask::Change {
                key: key.clone(),
                seen: seen.map(record),
                next: next.map(record),
            })
        };
        let one = || Answer::Record(Some(record(b"one")));
        assert_eq!(change(None, Some(b"one")), Answer::Changed);
        assert_eq!(change(None, Some(b"two")), one());
        assert_eq!(locations.answer(Ask::Read { key: key.clone() }), one());
        assert_eq!(change(Some(b"one"), None), Answer::Changed);
        assert_eq!(
            locations.answer(Ask::Read { key: key.clone() }),
            Answer::Record(None)
        );
    }
}
