//! The answers of the DNS, and how long each is valid.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{Answer, Error, Question};

/// How long known servers stay in use while the DNS fails: RFC 8767 §5 allows one to three days.
const STALE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Answers by question.
pub(crate) struct Cache(moka::sync::Cache<Question, Kept>);

#[derive(Clone)]
struct Kept {
    answer: Result<Arc<Answer>, Error>,
    good_until: Instant,
}

/// An answer from the cache.
pub(crate) struct Known {
    pub(crate) answer: Result<Arc<Answer>, Error>,
    /// Whether it is out of date, so that the client should ask the DNS again.
    pub(crate) is_due: bool,
}

impl Cache {
    pub(crate) fn new(answers: u64) -> Self {
        let cache = moka::sync::Cache::builder().max_capacity(answers);
        Self(cache.time_to_live(STALE_MAX).build())
    }

    /// The latest answer. An out-of-date answer that a name has no server does not count.
    pub(crate) fn get(&self, question: &Question, now: Instant) -> Option<Known> {
        let kept = self.0.get(question)?;
        let is_due = kept.good_until <= now;
        (!is_due || kept.answer.is_ok()).then_some(Known {
            answer: kept.answer,
            is_due,
        })
    }

    /// The last known servers, of any age.
    pub(crate) fn last(&self, question: &Question) -> Option<Arc<Answer>> {
        self.0.get(question)?.answer.ok()
    }

    pub(crate) fn put(
        &self,
        question: Question,
        answer: Result<Arc<Answer>, Error>,
        good_until: Instant,
    ) {
        self.0.insert(question, Kept { answer, good_until });
    }
}
