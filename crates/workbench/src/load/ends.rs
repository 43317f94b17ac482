//! Runs both ends of calls in one process.

use std::{net::SocketAddr, time::Duration};

use load::{Caller, Outbox, Server, Stats};
use traffic::Agent;

use super::drive::{Source, Units};

/// A caller on the first sockets, and a callee on each of the others.
pub(super) struct Ends {
    caller: Caller,
    /// The sockets of the caller.
    calling: usize,
    callees: Vec<Server>,
    out: Outbox,
}

impl Ends {
    pub(super) fn new(caller: Caller, calling: usize, callees: Vec<Server>) -> Self {
        Self {
            caller,
            calling,
            callees,
            out: Outbox::default(),
        }
    }
}

impl Agent for Ends {
    fn handle_input(
        &mut self,
        now: Duration,
        socket: usize,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        match socket.checked_sub(self.calling) {
            None => self.caller.handle_input(now, socket, from, bytes, out),
            Some(place) => {
                self.callees[place].handle_input(now, from, bytes, &mut self.out);
                out.append(&mut self.out, socket);
            }
        }
    }

    fn handle_timeout(&mut self, now: Duration, out: &mut Outbox) {
        self.caller.handle_timeout(now, out);
        for (place, callee) in self.callees.iter_mut().enumerate() {
            callee.handle_timeout(now, &mut self.out);
            out.append(&mut self.out, self.calling + place);
        }
    }

    fn deadline(&self) -> Option<Duration> {
        let callees = self.callees.iter().filter_map(Server::deadline);
        callees.chain(self.caller.deadline()).min()
    }
}

/// The part of the callers.
impl Source for Ends {
    const UNITS: Units = Units::Calls;

    fn finish_is_load(&self) -> bool {
        self.caller.finish_is_load()
    }

    fn stats_mut(&mut self) -> &mut Stats {
        self.caller.stats_mut()
    }

    fn in_progress(&self) -> usize {
        self.caller.open_calls()
    }

    fn is_offering(&self) -> bool {
        self.caller.is_offering()
    }

    fn is_done(&self) -> bool {
        self.caller.is_done()
    }

    fn finish(&mut self, now: Duration) {
        self.caller.finish(now);
    }
}
