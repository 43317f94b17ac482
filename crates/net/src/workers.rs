//! Starts, stops and asks the workers.

use std::{
    fmt, io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use node::{Shared, config::Listener};
use socket::{
    Clock, processor_time, seed,
    udp::{Options, Socket},
    wall,
};

use crate::{
    answerer::Answerer,
    mailbox::{Busy, Command, Mailbox},
    seat::{Counters, Seat, Stats, Team},
    worker::{TICK, Worker},
};

/// The size of each socket's receive buffer, if the system grants it: about 3,500 messages by the
/// kernel's count. This covers 30 ms in which a busy worker gets no core.
const RECV_BUFFER_BYTES: usize = 4 << 20;

/// The size of each socket's send buffer, if the system grants it.
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// The threads of a node. They stop when this is dropped.
pub struct Workers {
    team: Arc<Team>,
    threads: Vec<JoinHandle<()>>,
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
    ) -> Result<Self, StartError> {
        Self::start_with(shared, clock, answerer, Vec::new())
    }

    /// The same, with sockets that another process left for some listeners. What has arrived there
    /// meanwhile is heard.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(
        shared: &Arc<Shared>,
        clock: Clock,
        answerer: Option<Arc<dyn Answerer>>,
        inherited: Vec<(SocketAddr, OwnedFd)>,
    ) -> Result<Self, StartError> {
        let team = Arc::new(team(shared, answerer, inherited)?);
        shared.set_wall(clock.now(), wall());
        shared.set_incarnation(wall().as_millis() as u64);
        let mut workers = Self {
            team,
            threads: Vec::new(),
        };
        for number in 0..workers.team.seats.len() {
            let (team, shared) = (Arc::clone(&workers.team), Arc::clone(shared));
            let body = move || {
                let _guard = AbortOnPanic;
                Worker::new(number, team, shared, clock, seed()).run();
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
        self.team.seats[0]
            .sockets
            .iter()
            .map(Socket::local_addr)
            .collect()
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

    /// The processor time that a worker has used, in user and in kernel mode.
    #[must_use]
    pub fn processor_time(&self, worker: usize) -> Option<Duration> {
        processor_time(&self.threads[worker])
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

fn team(
    shared: &Shared,
    answerer: Option<Arc<dyn Answerer>>,
    inherited: Vec<(SocketAddr, OwnedFd)>,
) -> Result<Team, StartError> {
    let snapshot = shared.snapshot();
    let config = snapshot.config();
    let count = shared.workers().len();
    let by_worker = bind(&config.listeners, count, inherited)?;
    let is_told_later = answerer.as_ref().is_some_and(|it| it.is_often_later());
    let polls = count > 1 || config.listeners.len() != 1 || is_told_later;
    let seat = |sockets: Vec<Socket>| {
        if !polls {
            sockets
                .iter()
                .try_for_each(|socket| socket.set_recv_timeout(Some(TICK)))?;
        }
        let mailbox = Mailbox::new(config.limits.handover_queue, polls)?;
        Ok(Seat {
            counters: Counters::default(),
            sockets,
            mailbox,
        })
    };
    let seats: io::Result<_> = by_worker.into_iter().map(seat).collect();
    Ok(Team {
        seats: seats.map_err(StartError::System)?,
        stopping: AtomicBool::new(false),
        left: AtomicUsize::new(0),
        answerer,
    })
}

/// The sockets of each worker, by listener.
fn bind(
    listeners: &[Listener],
    workers: usize,
    mut inherited: Vec<(SocketAddr, OwnedFd)>,
) -> Result<Vec<Vec<Socket>>, StartError> {
    let options = Options {
        recv_buffer: Some(RECV_BUFFER_BYTES),
        send_buffer: Some(SEND_BUFFER_BYTES),
        ..Options::default()
    };
    let mut by_worker: Vec<Vec<Socket>> = (0..workers).map(|_| Vec::new()).collect();
    let mut errors = Vec::new();
    for (index, listener) in listeners.iter().enumerate() {
        let left = inherited.extract_if(.., |(address, _)| *address == listener.address);
        let left: Vec<OwnedFd> = left.map(|(_, fd)| fd).collect();
        let group = match left.is_empty() {
            true => Socket::bind_group(listener.address, workers, options),
            false => Socket::adopt_group(left, workers, options),
        };
        match group {
            Ok(group) => by_worker
                .iter_mut()
                .zip(group)
                .for_each(|(own, socket)| own.push(socket)),
            Err(error) => errors.push((index, error)),
        }
    }
    if errors.is_empty() {
        Ok(by_worker)
    } else {
        Err(StartError::Listeners(errors))
    }
}
