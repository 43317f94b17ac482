//! The calls that a server refused with the wish to be left alone.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::nanos;

/// How long a wish counts.
const WINDOW: Duration = Duration::from_secs(10);

/// The calls that are remembered: one less than the calls that it takes.
const REMEMBERED: usize = 2;

/// One call proves nothing: its callee may have sent the 503, and when the call fails over, each
/// server relays it. So a wish is granted when several calls in a row were refused.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// When the first of them came.
    since: AtomicU64,
    /// The calls' hashes; zero is none.
    calls: [AtomicU64; REMEMBERED],
}

impl Wishes {
    /// Records that a call was refused; whether enough calls were.
    pub(crate) fn is_enough(&self, now: u64, call: u64) -> bool {
        let call = call.max(1);
        if self.since.load(Relaxed).saturating_add(nanos(WINDOW)) <= now {
            self.forget();
        }
        for (place, known) in self.calls.iter().enumerate() {
            match known.compare_exchange(0, call, Relaxed, Relaxed) {
                Ok(_) => {
                    if place == 0 {
                        self.since.store(now, Relaxed);
                    }
                    return false;
                }
                Err(same) if same == call => return false,
                Err(_) => {}
            }
        }
        true
    }

    /// The server has served a call.
    pub(crate) fn forget(&self) {
        if self.calls[0].load(Relaxed) != 0 {
            for call in &self.calls {
                call.store(0, Relaxed);
            }
        }
    }
}
