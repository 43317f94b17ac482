//! Finds calls.

use std::{cmp::Reverse, time::Duration};

use crate::{
    mask::Mask,
    state::{State, Summary},
};

/// Which calls are wanted, and in what order.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Words that each must stand in its Call-ID, users, addresses, method or status, in any case.
    pub words: Vec<String>,
    /// What became of it; empty: whatever.
    pub states: Vec<State>,
    /// It had a message at this time or later, from the node's zero.
    pub since: Option<Duration>,
    /// It began at this time or earlier.
    pub until: Option<Duration>,
    /// What comes first.
    pub order: Order,
}

/// What comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Lost, refused and ringing calls, each with the newest first; then all others.
    #[default]
    Trouble,
    /// The newest.
    Newest,
}

impl Search {
    /// The first calls that match, and how many match in all.
    pub(crate) fn run<'a>(
        &self,
        calls: impl Iterator<Item = &'a Summary>,
        mask: &Mask,
        now: Duration,
        most: usize,
    ) -> (Vec<Summary>, usize) {
        // A hidden user is found by the whole user.
        let words = self
            .words
            .iter()
            .map(|word| (word.to_lowercase(), mask.hidden(word.as_bytes())));
        let words: Vec<(String, String)> = words.collect();
        let has = |call: &Summary, (plain, hidden): &(String, String)| {
            has_word(call, plain) || mask.users && has_word(call, hidden)
        };
        let mut found: Vec<_> = calls
            .filter(|call| self.has_time(call) && self.has_state(call, now))
            .filter(|call| words.iter().all(|word| has(call, word)))
            .map(|call| (self.rank(call, now), Reverse(call.began), call))
            .collect();
        let count = found.len();
        let by_rank = |left: &(u8, Reverse<Duration>, &Summary),
                       right: &(u8, Reverse<Duration>, &Summary)| {
            (left.0, left.1).cmp(&(right.0, right.1))
        };
        if most > 0 && count > most {
            found.select_nth_unstable_by(most - 1, by_rank);
        }
        found.truncate(most);
        found.sort_by(by_rank);
        (
            found.into_iter().map(|(.., call)| call.clone()).collect(),
            count,
        )
    }

    fn rank(&self, call: &Summary, now: Duration) -> u8 {
        match (self.order, call.state(now)) {
            (Order::Newest, _) => 0,
            (Order::Trouble, State::Lost) => 0,
            (Order::Trouble, State::Refused) => 1,
            (Order::Trouble, State::Ringing) => 2,
            (Order::Trouble, _) => 3,
        }
    }

    fn has_time(&self, call: &Summary) -> bool {
        self.since.is_none_or(|since| call.latest >= since)
            && self.until.is_none_or(|until| call.began <= until)
    }

    fn has_state(&self, call: &Summary, now: Duration) -> bool {
        self.states.is_empty() || self.states.contains(&call.state(now))
    }
}

/// Whether a word of lower case stands somewhere in a call.
fn has_word(call: &Summary, word: &str) -> bool {
    let texts = [&call.call_id, &call.from, &call.to, &call.method];
    texts.into_iter().any(|text| contains(text, word))
        || (call.status > 0 && word.len() == 3 && call.status.to_string() == word)
        || could_be_address(word)
            && (call.source.to_string().contains(word)
                || call
                    .server
                    .is_some_and(|server| server.to_string().contains(word)))
}

fn could_be_address(word: &str) -> bool {
    word.bytes()
        .all(|byte| byte.is_ascii_hexdigit() || b".:[]".contains(&byte))
}

/// Whether a text has a word of lower case in it, in any case of ASCII letters.
fn contains(text: &str, word: &str) -> bool {
    let (text, word) = (text.as_bytes(), word.as_bytes());
    let Some((&first, _)) = word.split_first() else {
        return true;
    };
    let upper = first.to_ascii_uppercase();
    let mut from = 0;
    while let Some(at) = memchr::memchr2(first, upper, &text[from..]) {
        let rest = &text[from + at..];
        if rest.len() < word.len() {
            return false;
        }
        if rest[..word.len()].eq_ignore_ascii_case(word) {
            return true;
        }
        from += at + 1;
    }
    false
}
