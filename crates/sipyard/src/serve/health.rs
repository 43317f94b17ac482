//! Logs changes of the servers' health.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use tokio::time::interval;

use super::Control;
use crate::view::{ServerState, members, state_of};

const TICK: Duration = Duration::from_secs(1);

/// Logs each server that goes down, comes back, or starts or stops draining. It never returns.
pub(super) async fn watch(control: Arc<Control>) {
    let mut states = HashMap::new();
    let mut tick = interval(TICK);
    loop {
        tick.tick().await;
        states = log_changes(&control, &states);
    }
}

type States = HashMap<(String, SocketAddr), ServerState>;

fn log_changes(control: &Control, before: &States) -> States {
    let snapshot = control.shared().snapshot();
    let now = control.now();
    let mut states = States::new();
    for member in members(&snapshot) {
        let state = state_of(member, Duration::ZERO, now);
        let name = (member.pool.clone(), member.address);
        if before.get(&name).is_some_and(|before| *before != state) {
            tell(&name.0, name.1, state);
        }
        states.insert(name, state);
    }
    states
}

fn tell(pool: &str, address: SocketAddr, state: ServerState) {
    let label = state.label();
    if state == ServerState::Down {
        tracing::warn!("server {address} of pool {pool} is {label}");
    } else {
        tracing::info!("server {address} of pool {pool} is {label}");
    }
}
