//! Starts, stops and asks the workers.

use std::{
    fmt, io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    process,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use node::Shared;
use socket::{Clock, processor_time, seed, wall};

use crate::{
    answerer::Answerer,
    bind::{self, Sockets},
    lanes::Lanes,
    mailbox::{Busy, Command},
    seat::{Seat, Stats, Team},
    streams::{Closing, ConnectionStats, Security, Streams},
    witness::Witness,
    worker::Worker,
};

/// The threads of a node. They stop when this is dropped.
pub struct Workers {
    team: Arc<Team>,
    threads: Vec<JoinHandle<()>>,
}

/// What workers may start with.
#[derive(Default)]
pub struct Start {
    /// UDP sockets that another process left for some listeners. What has arrived there meanwhile is heard.
    pub inherited: Vec<(SocketAddr, OwnedFd)>,
    /// Who learns what passes.
    pub witness: Option<Arc<dyn Witness>>,
}

/// Why no worker was started.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// These listeners, by index, can't be bound.
    Listeners(Vec<(usize, io::Error)>),
    /// The system has no thread or descriptor left.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listeners(errors) => write!(f, "can't bind {} listeners", errors.len()),
            Self::System(error) => write!(f, "can't start the workers: {error}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listeners(errors) => errors.first().map(|(_, error)| error as _),
            Self::System(error) => Some(error),
        }
    }
}

impl Workers {
    /// Binds every listener of the node's configuration for each worker, then starts the workers.
    /// The OS seeds each worker's randomness. The answerer gets the workers' questions.
    ///
    /// # Errors
    /// All listeners that can't be bound, or the lack of a system resource. In both cases nothing
    /// runs.
    pub fn start(
        shared: &Arc<Shared>,
        clock: Clock,
        answerer: Option<Arc<dyn Answerer>>,
        security: Security,
    ) -> Result<Self, StartError> {
        Self::start_with(shared, clock, answerer, security, Start::default())
    }

    /// The same, with what only a whole program has.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(
        shared: &Arc<Shared>,
        clock: Clock,
        answerer: Option<Arc<dyn Answerer>>,
        security: Security,
        Start { inherited, witness }: Start,
    ) -> Result<Self, StartError> {
        let config = shared.snapshot();
        let config = config.config();
        let count = shared.workers().len();
        let Sockets {
            seats,
            listeners,
            addresses,
        } = bind::sockets(&config.listeners, count, inherited)?;
        let has_streams = config.listeners.iter().any(|it| it.transport.is_stream());
        let is_told_later = answerer.as_ref().is_some_and(|it| it.is_often_later());
        let polls = count > 1 || config.listeners.len() != 1 || is_told_later || has_streams;
        let seats = seats.into_iter().map(|(listeners, sockets)| {
            Seat::new(listeners, sockets, config.limits.handover_queue, polls)
        });
        let seats: io::Result<_> = seats.collect();
        let security = Arc::new(security);
        let team = Arc::new(Team {
            seats: seats.map_err(StartError::System)?,
            stopping: AtomicBool::new(false),
            left: AtomicUsize::new(0),
            addresses,
            security: Mutex::new(Arc::clone(&security)),
            connections: Arc::default(),
            answerer,
            witness,
            lanes: Lanes::default(),
        });
        shared.set_wall(clock.now(), wall());
        shared.set_incarnation(wall().as_millis() as u64);
        let mut workers = Self {
            team,
            threads: Vec::new(),
        };
        for (number, listeners) in listeners.into_iter().enumerate() {
            let (team, shared) = (Arc::clone(&workers.team), Arc::clone(shared));
            let streams = has_streams.then(|| {
                let security = Arc::clone(&security);
                let common = Arc::clone(&team.connections);
                Streams::new(
                    number as u8,
                    Arc::clone(&shared),
                    listeners,
                    security,
                    common,
                    team.seats[number].descriptors(),
                    clock,
                )
            });
            let streams = streams.transpose().map_err(StartError::System)?;
            let body = move || {
                let _guard = AbortOnPanic;
                if streams.is_some() {
                    tls::prepare_thread();
                }
                Worker::new(number, team, shared, clock, seed(), streams).run();
            };
            let thread = thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(body);
            workers.threads.push(thread.map_err(StartError::System)?);
        }
        Ok(workers)
    }

    /// The addresses that the listeners are bound to, in their order.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.team.addresses.clone()
    }

    /// The sockets of all workers and listeners, to be kept for the next process.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let seats = self.team.seats.iter();
        seats.flat_map(|seat| seat.sockets.iter().map(AsFd::as_fd))
    }

    /// The counters of a worker's sockets.
    #[must_use]
    pub fn stats(&self, worker: usize) -> Stats {
        self.team.seats[worker].stats()
    }

    /// The connections of a worker, a tick ago at most.
    #[must_use]
    pub fn connections(&self, worker: usize) -> ConnectionStats {
        self.team.seats[worker].connections()
    }

    /// Connections that could not be used or failed since the last call, and how many more there were.
    #[must_use]
    pub fn take_closings(&self) -> (Vec<Closing>, u64) {
        self.team.connections.closings.take()
    }

    /// How new connections are secured.
    #[must_use]
    pub fn security(&self) -> Arc<Security> {
        self.team.security()
    }

    /// The processor time that a worker has used, in user and in kernel mode.
    #[must_use]
    pub fn processor_time(&self, worker: usize) -> Option<Duration> {
        processor_time(&self.threads[worker])
    }

    /// Secures new connections in another way; those that are open stay as they are.
    pub fn secure(&self, security: Security) {
        let current = self.team.security.lock();
        *current.unwrap_or_else(PoisonError::into_inner) = Arc::new(security);
    }

    /// Makes a worker's own thread carry out a command, at most a tick (10 ms) later unless the
    /// worker is overloaded.
    ///
    /// # Errors
    /// If too many commands are waiting; the command is then dropped.
    pub fn command(&self, worker: usize, command: Command) -> Result<(), Busy> {
        self.team.seats[worker].mailbox.command(command)
    }

    /// Stops all workers, each after its current batch.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.team.stopping.store(true, Ordering::Relaxed);
        self.team.seats.iter().for_each(|seat| seat.mailbox.wake());
        for thread in self.threads.drain(..) {
            thread
                .join()
                .expect("a worker that panics takes the process with it");
        }
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers")
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// If one worker died alone, its share of the calls would fail unnoticed. So the whole process
/// ends: it is restarted, and its calls continue by their tokens.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            process::abort();
        }
    }
}
