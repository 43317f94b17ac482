//! How many of those who have waited too long are told so.

/// Refusals for each request that is served. All others that wait too long are dropped.
const EARNED: f64 = 1.0;
/// One over a stream counts for so many: it takes a read and a write of its own.
const ON_STREAM: f64 = 2.0;
/// Refusals that may be saved up.
const MOST: f64 = 512.0;

/// The refusals that may be sent.
#[derive(Debug)]
pub(super) struct Refusals(f64);

impl Default for Refusals {
    fn default() -> Self {
        Self(MOST)
    }
}

impl Refusals {
    /// A request was served.
    pub(super) fn earn(&mut self) {
        self.0 = MOST.min(self.0 + EARNED);
    }

    /// Whether so many may be sent.
    pub(super) fn are_enough_for(&self, requests: usize) -> bool {
        self.0 >= requests as f64
    }

    /// Whether no more than half are spent.
    pub(super) fn are_many(&self) -> bool {
        self.0 >= MOST / 2.0
    }

    /// One is sent.
    pub(super) fn spend(&mut self) {
        self.0 -= 1.0;
    }

    /// One is sent over a stream, whether there are enough or not.
    pub(super) fn spend_on_stream(&mut self) {
        self.0 = (self.0 - ON_STREAM).max(0.0);
    }
}
