//! What the service manager is told, and what it keeps for the next process: sd_notify(3).
//!
//! Without a service manager, all of this does nothing.

use std::{env, sync::Arc, time::Duration};

use sd_notify::{NotifyState, notify, notify_with_fds};
use tokio::time::interval;

use super::Control;

/// The name under which sockets are kept.
const SOCKETS: &str = "sip";
/// Descriptors in one message; the kernel takes 253.
const AT_ONCE: usize = 64;
/// How often the workers are asked if there is no watchdog to feed.
const PAUSE: Duration = Duration::from_secs(3_600);

/// Tells that the node serves, and leaves its sockets with the manager.
pub(super) fn ready(control: &Control, status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
    tell(&[NotifyState::FdStoreRemove, NotifyState::FdName(SOCKETS)]);
    let sockets: Vec<_> = control.workers().descriptors().collect();
    for some in sockets.chunks(AT_ONCE) {
        let told = notify_with_fds(&[NotifyState::FdStore, NotifyState::FdName(SOCKETS)], some);
        if let Err(error) = told {
            tracing::warn!("the service manager does not keep the sockets: {error}");
        }
    }
}

/// Whether somebody may keep the sockets.
pub(super) fn is_there() -> bool {
    env::var_os("NOTIFY_SOCKET").is_some()
}

/// Tells that a reload begins.
pub(super) fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// Tells that a reload is over.
pub(super) fn reloaded(outcome: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(outcome)]);
}

/// Tells that the node stops, and until when at most.
pub(super) fn stopping(within: Duration) {
    let patience = u32::try_from((within + Duration::from_secs(5)).as_micros()).unwrap_or(u32::MAX);
    tell(&[
        NotifyState::Stopping,
        NotifyState::ExtendTimeoutUsec(patience),
    ]);
}

/// Feeds the watchdog, as long as every worker answers.
pub(super) async fn watch(control: Arc<Control>) {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return;
    };
    let mut tick = interval((limit / 3).clamp(Duration::from_millis(10), PAUSE));
    loop {
        tick.tick().await;
        let answers = control.ask(|_, _| ()).await.len();
        match answers == control.shared().workers().len() {
            true => tell(&[NotifyState::Watchdog]),
            false => tracing::warn!("{answers} workers answer the watchdog"),
        }
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = notify(states) {
        tracing::warn!("the service manager can't be told: {error}");
    }
}
