//! Sockets of their own for what strangers send, while a node wants them: see [`Lane`].

use std::{
    io, iter,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use node::{Instruction, Lane, Shared, Sieve, Snapshot, Steering, steering_past_lanes};
use socket::udp::{self, Socket};

use crate::options::udp_options;

/// What has come is read for so long after the last request was led into a lane.
const FAREWELL: Duration = Duration::from_secs(1);

/// So long after the system refused lanes they are tried again.
const PAUSE: Duration = Duration::from_secs(10);

/// The lanes of all workers.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<State>);

#[derive(Default)]
struct State {
    phase: Phase,
    /// What the rule in force is made from.
    steered: Option<Steered>,
    /// Workers that have lanes.
    users: usize,
    /// By worker, until it takes them.
    ready: Vec<Option<OwnLanes>>,
    /// By worker, whether it needs them.
    wanted: Vec<bool>,
    /// The system has refused them, and is asked again then.
    pause_until: Duration,
}

/// A configuration, and the number of changes of the unruly hosts.
type Steered = (Arc<Snapshot>, u64);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Closed,
    Open,
    /// No more requests are led there, and they are read until then.
    Closing(Duration),
}

/// The sockets that lanes are beside: those of the first worker, each of another address, and the number of workers.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a> {
    pub(crate) sockets: &'a [Socket],
    pub(crate) workers: usize,
}

/// The lanes of one worker, by UDP socket.
pub(crate) struct OwnLanes {
    sockets: Vec<[Socket; Lane::ALL.len()]>,
    /// What the kernel had dropped in each at the last look, for want of room and by filters.
    dropped: Vec<[[u32; 2]; Lane::ALL.len()]>,
}

/// What has become of a worker's lanes.
pub(crate) enum Change {
    Opened(OwnLanes),
    /// The system does not grant them.
    Refused,
    Closed,
}

impl Lanes {
    /// A worker says whether it needs lanes, and whether it has some; what has changed for it.
    pub(crate) fn keep(
        &self,
        now: Duration,
        group: Group<'_>,
        worker: usize,
        [needs, has]: [bool; 2],
        shared: &Shared,
    ) -> Option<Change> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.wanted.resize(group.workers, false);
        state.wanted[worker] = needs;
        match state.phase {
            Phase::Closed if needs && state.pause_until <= now => {
                if state.open(group, shared).is_err() {
                    state.pause_until = now + PAUSE;
                    return Some(Change::Refused);
                }
            }
            Phase::Open if !state.wanted.contains(&true) => state.leave_empty(now, group),
            // Later, some workers have closed theirs already: then all are opened anew.
            Phase::Closing(until) if needs && now < until => {
                let _ = state.fill(group, shared);
            }
            Phase::Closing(until) if until <= now && has => {
                state.users -= 1;
                if state.users == 0 {
                    state.phase = Phase::Closed;
                }
                return Some(Change::Closed);
            }
            Phase::Open if !state.is_steered_by(shared) => {
                // The earlier rule stays if the system refuses this one.
                let _ = state.fill(group, shared);
            }
            Phase::Closed | Phase::Open | Phase::Closing(_) => {}
        }
        let own = state.ready.get_mut(worker).and_then(Option::take);
        own.map(Change::Opened)
    }
}

impl State {
    fn open(&mut self, group: Group<'_>, shared: &Shared) -> io::Result<()> {
        let lanes = open(group)?;
        self.fill(group, shared)?;
        self.users = lanes.len();
        self.ready = lanes.into_iter().map(Some).collect();
        Ok(())
    }

    /// Leads new requests into the lanes.
    fn fill(&mut self, group: Group<'_>, shared: &Shared) -> io::Result<()> {
        let (snapshot, changes) = (shared.snapshot(), shared.unruly_changes());
        let (known, unruly) = (snapshot.known_networks(), shared.unruly_hosts());
        self.steered = Some((Arc::clone(&snapshot), changes));
        let (known, urgent) = (&known[..], snapshot.urgent());
        let program = |unruly: &[IpAddr]| {
            let rule = Steering {
                known,
                unruly,
                urgent,
            };
            rule.program(group.workers as u32)
        };
        // Lanes for strangers alone are better than none.
        let program = program(&unruly).or_else(|| program(&[]));
        steer(group, &program.ok_or(io::ErrorKind::InvalidInput)?)?;
        self.phase = Phase::Open;
        Ok(())
    }

    fn leave_empty(&mut self, now: Duration, group: Group<'_>) {
        if steer(group, &steering_past_lanes(group.workers as u32)).is_ok() {
            self.phase = Phase::Closing(now + FAREWELL);
        }
    }

    fn is_steered_by(&self, shared: &Shared) -> bool {
        let (snapshot, now) = (shared.snapshot(), shared.unruly_changes());
        let is_of = |(of, changes): &Steered| Arc::ptr_eq(of, &snapshot) && *changes == now;
        self.steered.as_ref().is_some_and(is_of)
    }
}

/// Binds the lanes of all workers, in the order that the rule knows.
fn open(group: Group<'_>) -> io::Result<Vec<OwnLanes>> {
    let [workers, listeners] = [group.workers, group.sockets.len()];
    let mut lanes: Vec<Vec<Vec<Socket>>> = Vec::new();
    lanes.resize_with(workers, || {
        iter::repeat_with(Vec::new).take(listeners).collect()
    });
    for (listener, first) in group.sockets.iter().enumerate() {
        for _ in Lane::ALL {
            for own in &mut lanes {
                own[listener].push(first.join(udp_options())?);
            }
        }
    }
    Ok(lanes.into_iter().map(OwnLanes::new).collect())
}

fn steer(group: Group<'_>, program: &[Instruction]) -> io::Result<()> {
    let mut sockets = group.sockets.iter();
    sockets.try_for_each(|socket| socket.steer(program.iter().map(instruction)))
}

pub(crate) fn instruction(of: &Instruction) -> udp::Instruction {
    let &Instruction { code, jt, jf, k } = of;
    udp::Instruction { code, jt, jf, k }
}

impl OwnLanes {
    fn new(sockets: Vec<Vec<Socket>>) -> Self {
        let lanes = |sockets: Vec<Socket>| sockets.try_into().expect("a socket for each lane");
        let sockets: Vec<_> = sockets.into_iter().map(lanes).collect();
        let dropped = vec![Default::default(); sockets.len()];
        Self { sockets, dropped }
    }

    pub(crate) fn socket(&self, listener: usize, lane: Lane) -> &Socket {
        &self.sockets[listener][lane as usize]
    }

    /// Requests that found no room since this was called last, and those that filters dropped.
    pub(crate) fn take_dropped(&mut self, lane: Lane) -> [u32; 2] {
        let mut new = [0; 2];
        for (sockets, dropped) in self.sockets.iter().zip(&mut self.dropped) {
            let (socket, before) = (&sockets[lane as usize], &mut dropped[lane as usize]);
            let after = [
                socket.kernel_drops().unwrap_or(before[0]),
                socket.filter_drops(),
            ];
            for kind in 0..2 {
                new[kind] += after[kind].wrapping_sub(before[kind]);
            }
            *before = after;
        }
        new
    }

    /// Has the kernel drop what a sieve stops. If it refuses that, it drops nothing.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn sift(&self, sieve: &Sieve) -> io::Result<()> {
        let sockets = || self.sockets.iter().flatten();
        let set =
            sockets()
                .zip(Lane::ALL.iter().cycle())
                .try_for_each(|(socket, &lane)| match sieve.program(lane) {
                    Some(program) => socket.set_filter(program.iter().map(instruction)),
                    None => socket.clear_filter(),
                });
        if set.is_err() {
            sockets().for_each(|socket| drop(socket.clear_filter()));
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use node::Transport;

    use super::*;
    use crate::fixtures::shared;

    /// A worker that fell behind while another had closed its lanes led requests to sockets that were gone.
    #[test]
    fn lanes_that_one_worker_has_closed_are_not_filled_again() {
        let address = ([127, 0, 0, 1], 0).into();
        let sockets = Socket::bind_group(address, 2, udp_options()).expect("loopback has ports");
        let group = Group {
            sockets: &sockets[..1],
            workers: 2,
        };
        let (lanes, shared) = (Lanes::default(), shared(Transport::Udp, 2));
        let keep = |second, worker, needs, has| {
            let now = Duration::from_secs(second);
            lanes.keep(now, group, worker, [needs, has], &shared)
        };
        let own = [keep(0, 0, true, false), keep(0, 1, false, false)];
        assert!(own.iter().all(|own| matches!(own, Some(Change::Opened(_)))));
        assert!(keep(1, 0, false, true).is_none(), "it leaves them empty");
        assert!(matches!(keep(3, 0, false, true), Some(Change::Closed)));
        assert!(keep(3, 0, true, false).is_none(), "the other has its own");
        assert!(matches!(keep(3, 1, false, true), Some(Change::Closed)));
        assert!(matches!(keep(3, 0, true, false), Some(Change::Opened(_))));
    }
}
