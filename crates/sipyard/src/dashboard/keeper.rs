//! Makes what the dashboard shows, from a running node.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::{Value, json};
use socket::wall;
use tokio::time::{MissedTickBehavior, interval};

use super::{
    history::{STEP, Subject},
    patch,
};
use crate::{
    certificates::of_admin,
    serve::Control,
    view::{Pool, Server, Status, status},
};

/// How often a state is made.
const TICK: Duration = Duration::from_secs(1);

/// Keeps the history and shows states. It never returns.
pub(crate) async fn run(control: Arc<Control>) {
    tokio::join!(keep_history(&control), show_states(&control));
}

/// The node at this moment.
pub(crate) fn status_of(control: &Control) -> Status {
    let mut status = status(
        control.shared(),
        control.workers(),
        control.members(),
        control.store_address(),
        control.servers(),
        control.now(),
    );
    status.certificates.extend(of_admin(&control.admin()));
    status
}

async fn keep_history(control: &Control) {
    let mut tick = interval(STEP);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        control.history().note(&Subject {
            shared: control.shared(),
            workers: control.workers(),
            now: control.now(),
        });
    }
}

/// Makes states while somebody looks.
async fn show_states(control: &Control) {
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = Value::Null;
    let mut number = 0;
    loop {
        tick.tick().await;
        if !control.live().is_watched() {
            continue;
        }
        let now = state(control);
        let changed = patch::between(&before, &now).unwrap_or_else(|| json!({}));
        number += 1;
        control.live().show(number, &now, &changed);
        before = now;
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
    let status = status_of(control);
    let mut pools = BTreeMap::new();
    for pool in &status.pools {
        pools.insert(pool.name.clone(), named(pool));
    }
    let counts = control.calls().counts(control.now());
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
        certificates,
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
        "certificates": certificates,
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
