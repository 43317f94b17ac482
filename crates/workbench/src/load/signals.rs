//! The signals that operators send while a load runs.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use signal_hook::{
    consts::{SIGINT, SIGTERM, SIGUSR1},
    flag,
};

/// The signals since the last check.
pub(super) struct Signals {
    stop: Arc<AtomicBool>,
    user: Arc<AtomicBool>,
}

impl Signals {
    /// Starts to listen.
    pub(super) fn listen() -> io::Result<Self> {
        let (stop, user) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        flag::register(SIGINT, Arc::clone(&stop))?;
        flag::register(SIGTERM, Arc::clone(&stop))?;
        flag::register(SIGUSR1, Arc::clone(&user))?;
        Ok(Self { stop, user })
    }

    /// Whether SIGINT or SIGTERM arrived.
    pub(super) fn stop(&self) -> bool {
        self.stop.swap(false, Ordering::Relaxed)
    }

    /// Whether SIGUSR1 arrived.
    pub(super) fn user(&self) -> bool {
        self.user.swap(false, Ordering::Relaxed)
    }
}
