//! Opens the sockets before anything runs: all of them, or it reports every reason why not.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    os::fd::OwnedFd,
    path::Path,
    sync::Arc,
    thread::available_parallelism,
};

use net::{Start, StartError, Witness, Workers};
use node::{Shared, Transport};
use rustix::{
    io::fcntl_dupfd_cloexec,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use settings::{Place, Problem};
use socket::{
    Clock,
    udp::{Options, Socket},
    wall,
};
use store::{Limits, Store};

use super::{answers::Answers, unix::UnixSocket};
use crate::{calls::Journal, config::Configuration};

/// The sockets of the admin API.
pub(super) struct AdminSockets {
    pub(super) tcp: TcpListener,
    pub(super) unix: UnixSocket,
}

/// Binds the admin API's sockets, after it has checked that every listener's address is free. The
/// workers bind and run in one step, and nothing may run unless everything can.
/// What another process left needs no check.
pub(super) fn admin(
    configuration: &Configuration,
    inherited: &[(SocketAddr, OwnedFd)],
) -> Result<AdminSockets, Vec<Problem>> {
    let is_left = |address| inherited.iter().any(|(left, _)| *left == address);
    let listeners = configuration.node.listeners.iter();
    let mut problems: Vec<Problem> = listeners
        .zip(&configuration.listener_places)
        .filter(|(listener, _)| !is_left(listener.address))
        .filter_map(|(listener, place)| {
            let (transport, address) = (listener.transport, listener.address);
            let bound = if transport.is_stream() {
                TcpListener::bind(address).map(drop)
            } else {
                Socket::bind(address, Options::default()).map(drop)
            };
            let protocol = protocol(transport);
            Some(problem(place, protocol, address, &bound.err()?))
        })
        .collect();
    let (admin, places) = (&configuration.admin, &configuration.admin_places);
    let tcp = TcpListener::bind(admin.address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let tcp = tcp.map_err(|error| problem(&places.address, "TCP", admin.address, &error));
    // Of two nodes that start at the same time, only one gets as far as the Unix socket.
    let sockets = tcp.and_then(|tcp| {
        let unix = UnixSocket::bind(&admin.socket).map_err(|error| {
            let path = admin.socket.display();
            let message = format!("cannot bind the Unix socket {path}: {error}");
            places.socket.problem(message)
        })?;
        Ok(AdminSockets { tcp, unix })
    });
    match sockets {
        Ok(sockets) if problems.is_empty() => Ok(sockets),
        sockets => {
            problems.extend(sockets.err());
            Err(problems)
        }
    }
}

/// Opens the registrar's store.
pub(super) fn store(
    path: &Path,
    configuration: &Configuration,
) -> Result<Option<Arc<Store>>, Vec<Problem>> {
    let Some(registrar) = &configuration.registrar else {
        return Ok(None);
    };
    let store = Store::open(&registrar.store, &Limits::default())
        .map_err(|error| vec![Place::file(path).problem(format!("registrar.store: {error}"))])?;
    Ok(Some(Arc::new(store)))
}

/// Descriptors that are no connections, at most.
const DESCRIPTORS_BESIDES: u64 = 1_024;

/// Lets the process have as many descriptors as the system allows, and makes their table large enough for so many
/// connections. Linux would enlarge it step by step, and stop a worker for 10 to 24 ms at each step.
fn reserve_descriptors(connections: usize) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    // Where this fails, the table grows later, and without descriptors peers wait.
    let _ = setrlimit(Resource::Nofile, raised);
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let number = (connections as u64 + DESCRIPTORS_BESIDES).min(most);
    if let Ok(last) = i32::try_from(number.saturating_sub(1)) {
        let _ = fcntl_dupfd_cloexec(io::stderr(), last);
    }
}

/// The workers, and what they have in common with the control.
pub(super) struct Running {
    pub(super) shared: Arc<Shared>,
    pub(super) workers: Workers,
    pub(super) journal: Option<Arc<Journal>>,
}

/// Starts the workers.
pub(super) fn workers(
    path: &Path,
    configuration: &Configuration,
    clock: Clock,
    answers: Answers,
    inherited: Vec<(SocketAddr, OwnedFd)>,
) -> Result<Running, Vec<Problem>> {
    let count = match configuration.workers {
        0 => available_parallelism().map_or(1, usize::from),
        count => count,
    };
    let whole_file = |message: String| vec![Place::file(path).problem(message)];
    let mut listeners = configuration.node.listeners.iter();
    if listeners.any(|listener| listener.transport.is_stream()) {
        reserve_descriptors(configuration.node.connections.total);
    }
    let shared = Shared::new(configuration.node.clone(), count)
        .map_err(|error| whole_file(error.to_string()))?;
    let shared = Arc::new(shared);
    let journal = journal(configuration, count, clock).map(Arc::new);
    let witness = journal.clone().map(|journal| journal as Arc<dyn Witness>);
    let workers = Workers::start_with(
        &shared,
        clock,
        Some(Arc::new(answers)),
        configuration.security.clone(),
        Start { inherited, witness },
    )
    .map_err(|error| match error {
        StartError::Listeners(errors) => {
            let tell = |(index, error): &(usize, io::Error)| {
                let listener = &configuration.node.listeners[*index];
                problem(
                    &configuration.listener_places[*index],
                    protocol(listener.transport),
                    listener.address,
                    error,
                )
            };
            errors.iter().map(tell).collect()
        }
        error => whole_file(error.to_string()),
    })?;
    Ok(Running {
        shared,
        workers,
        journal,
    })
}

/// The journal of call records, if there is to be one. Calls go on without it.
fn journal(configuration: &Configuration, workers: usize, clock: Clock) -> Option<Journal> {
    let records = configuration.calls.records.as_ref()?;
    if !records.journal {
        return None;
    }
    let zero = wall().saturating_sub(clock.now());
    match Journal::new(&records.path, workers, zero) {
        Ok(journal) => Some(journal),
        Err(error) => {
            let path = records.path.display();
            tracing::error!("there is no journal beside {path}, a crash loses records: {error}");
            None
        }
    }
}

fn protocol(transport: Transport) -> &'static str {
    if transport.is_stream() { "TCP" } else { "UDP" }
}

fn problem(place: &Place, protocol: &str, address: SocketAddr, error: &io::Error) -> Problem {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program uses it: stop that program, or choose another port"
        }
        io::ErrorKind::AddrNotAvailable => {
            "; this machine does not have this address: choose one that it has"
        }
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need the capability CAP_NET_BIND_SERVICE"
        }
        _ => "",
    };
    place.problem(format!("cannot bind {protocol} {address}: {error}{advice}"))
}
