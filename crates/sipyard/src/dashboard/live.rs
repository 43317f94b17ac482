//! The node's state as server-sent events: first the whole, then what has changed.
//!
//! One task computes each state once a second while somebody looks, however many look.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::response::sse::Event;
use futures_util::{Stream, stream};
use serde::Serialize;
use serde_json::{Value, json};
use socket::wall;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use super::patch;
use crate::{
    serve::Control,
    view::{Pool, Server, Status},
};

/// How often a state is made.
const TICK: Duration = Duration::from_secs(1);
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
    control: Arc<Control>,
    latest: watch::Receiver<Arc<State>>,
    /// The state that they have.
    seen: u64,
    log_seen: u64,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.control.live().watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The events for one who looks; none: too many do.
pub(crate) fn watch_live(
    control: Arc<Control>,
) -> Option<impl Stream<Item = Result<Event, Infallible>>> {
    let live = control.live();
    if live.watchers.fetch_add(1, Ordering::Relaxed) >= WATCHERS_MAX {
        live.watchers.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    let watcher = Watcher {
        latest: live.latest.subscribe(),
        log_seen: control.log().latest().saturating_sub(100),
        seen: 0,
        control,
    };
    Some(stream::unfold(watcher, |mut watcher| async {
        watcher.next().await.map(|event| (Ok(event), watcher))
    }))
}

impl Watcher {
    /// The next event; none when the node stops.
    async fn next(&mut self) -> Option<Event> {
        if self.seen > 0 {
            let lines = self.control.log().after(self.log_seen);
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

/// Makes states while somebody looks. It never returns.
pub(crate) async fn run(control: Arc<Control>) {
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = Value::Null;
    let mut number = 0;
    loop {
        tick.tick().await;
        if control.live().watchers.load(Ordering::Relaxed) == 0 {
            continue;
        }
        let now = state(&control);
        let changed = patch::between(&before, &now).unwrap_or_else(|| json!({}));
        number += 1;
        let state = State {
            number,
            whole: now.to_string(),
            patch: changed.to_string(),
        };
        before = now;
        control.live().latest.send_replace(Arc::new(state));
    }
}

/// A pool whose servers have names, so that a patch can tell which has changed.
#[derive(Serialize)]
struct NamedPool<'a> {
    #[serde(flatten)]
    pool: Value,
    servers: BTreeMap<String, &'a Server>,
}

/// The whole state.
fn state(control: &Control) -> Value {
    let status = control.status();
    let mut pools = BTreeMap::new();
    for pool in &status.pools {
        pools.insert(pool.name.clone(), named(pool));
    }
    let counts = control.calls().counts();
    let calls = counts.map(|counts| {
        json!({
            "kept": counts.calls,
            "bytes": counts.bytes,
            "recorded": counts.recorded,
            "forgotten": counts.forgotten,
            "missed": counts.missed,
        })
    });
    let Status {
        name,
        version,
        state,
        figures,
        listeners,
        removed,
        registrar,
        peers,
        workers,
        limits,
        ..
    } = &status;
    json!({
        "at": wall().as_secs_f64(),
        "name": name,
        "version": version,
        "state": state,
        "figures": figures,
        "listeners": listeners,
        "pools": pools,
        "removed": removed,
        "registrar": registrar,
        "peers": peers,
        "workers": workers,
        "limits": limits,
        "recorder": calls,
    })
}

fn named(pool: &Pool) -> Value {
    let servers = pool.servers.iter();
    let named = NamedPool {
        pool: json!({
            "policy": pool.policy,
            "costs": pool.costs,
            "learns_costs": pool.learns_costs,
            "sources": pool.sources,
        }),
        servers: servers
            .map(|server| (server.address.to_string(), server))
            .collect(),
    };
    serde_json::to_value(named).unwrap_or_default()
}
