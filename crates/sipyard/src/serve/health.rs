//! Logs changes of the servers' health.

use std::{sync::Arc, time::Duration};

use node::Change;
use tokio::time::interval;

use super::Control;

const TICK: Duration = Duration::from_millis(100);

/// Logs each server that goes down, comes back, or is left alone, and why. It never returns.
pub(super) async fn watch(control: Arc<Control>) {
    let mut tick = interval(TICK);
    loop {
        tick.tick().await;
        let now = control.now();
        for change in control.shared().take_changes() {
            control.servers().note(&change, now);
            tell(&change);
        }
    }
}

fn tell(change: &Change) {
    let Change {
        pool,
        address,
        cause,
    } = change;
    if cause.is_fall() {
        tracing::warn!("server {address} of pool {pool} {cause}");
    } else {
        tracing::info!("server {address} of pool {pool} {cause}");
    }
}
