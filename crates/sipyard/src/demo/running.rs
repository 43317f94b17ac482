//! The thread that runs the callers and servers.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use socket::Clock;

use super::user_agents::UserAgents;

/// How often the callers and servers look for work. At this load, a wake-up for every datagram
/// would happen as often.
const PACE: Duration = Duration::from_micros(250);

/// User agents that make and take calls. They stop when this is dropped.
#[derive(Debug)]
pub(super) struct Running {
    agents: Arc<Mutex<UserAgents>>,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts the thread: callers call and servers answer.
    #[expect(
        clippy::disallowed_methods,
        reason = "the sleep paces the loop; nothing waits for its end"
    )]
    pub(super) fn start(agents: UserAgents, clock: Clock) -> io::Result<Self> {
        let agents = Arc::new(Mutex::new(agents));
        let closing = Arc::new(AtomicBool::new(false));
        let body = {
            let (agents, closing) = (Arc::clone(&agents), Arc::clone(&closing));
            move || {
                while !closing.load(Ordering::Relaxed) {
                    lock(&agents).turn(clock);
                    thread::sleep(PACE);
                }
            }
        };
        let thread = thread::Builder::new()
            .name("traffic".to_owned())
            .spawn(body)?;
        Ok(Self {
            agents,
            closing,
            thread: Some(thread),
        })
    }

    /// The user agents, locked so that the caller can read a consistent state.
    pub(super) fn agents(&self) -> MutexGuard<'_, UserAgents> {
        lock(&self.agents)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been told already.
            let _ = thread.join();
        }
    }
}

fn lock(agents: &Mutex<UserAgents>) -> MutexGuard<'_, UserAgents> {
    agents.lock().expect("callers and servers don't panic")
}
