//! The node's state as server-sent events: first the whole, then what has changed.
//!
//! One task computes each state once a second while somebody looks, however many look.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::response::sse::Event;
use futures_util::{Stream, stream};
use serde_json::Value;
use tokio::sync::watch;

use super::log::Lines;

/// Who may look at a time.
const WATCHERS_MAX: usize = 64;

/// The latest state, and how to get there from the one before.
#[derive(Debug, Default)]
struct State {
    number: u64,
    whole: String,
    patch: String,
}

/// The state that all see who look.
#[derive(Debug)]
pub(crate) struct Live {
    latest: watch::Sender<Arc<State>>,
    watchers: AtomicUsize,
}

impl Live {
    /// Whether anybody looks.
    pub(super) fn is_watched(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) > 0
    }

    /// Shows the next state.
    pub(super) fn show(&self, number: u64, whole: &Value, patch: &Value) {
        self.latest.send_replace(Arc::new(State {
            number,
            whole: whole.to_string(),
            patch: patch.to_string(),
        }));
    }
}

impl Default for Live {
    fn default() -> Self {
        Self {
            latest: watch::Sender::new(Arc::default()),
            watchers: AtomicUsize::new(0),
        }
    }
}

/// Somebody who looks.
struct Watcher {
    live: Arc<Live>,
    log: Lines,
    latest: watch::Receiver<Arc<State>>,
    /// The state that they have.
    seen: u64,
    log_seen: u64,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.live.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The events for one who looks; none: too many do.
pub(crate) fn watch_live(
    live: &Arc<Live>,
    log: &Lines,
) -> Option<impl Stream<Item = Result<Event, Infallible>> + use<>> {
    if live.watchers.fetch_add(1, Ordering::Relaxed) >= WATCHERS_MAX {
        live.watchers.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    let watcher = Watcher {
        latest: live.latest.subscribe(),
        log_seen: log.latest().saturating_sub(100),
        seen: 0,
        live: Arc::clone(live),
        log: log.clone(),
    };
    Some(stream::unfold(watcher, |mut watcher| async {
        watcher.next().await.map(|event| (Ok(event), watcher))
    }))
}

impl Watcher {
    /// The next event; none when the node stops.
    async fn next(&mut self) -> Option<Event> {
        if self.seen > 0 {
            let lines = self.log.after(self.log_seen);
            if let Some(last) = lines.last() {
                self.log_seen = last.number;
                let text = serde_json::to_string(&lines).unwrap_or_default();
                return Some(Event::default().event("log").data(text));
            }
            self.latest.changed().await.ok()?;
        } else {
            self.latest.wait_for(|state| state.number > 0).await.ok()?;
        }
        let state = Arc::clone(&self.latest.borrow_and_update());
        let follows = state.number == self.seen + 1 && self.seen > 0;
        self.seen = state.number;
        Some(if follows {
            Event::default().event("patch").data(&state.patch)
        } else {
            Event::default().event("state").data(&state.whole)
        })
    }
}
