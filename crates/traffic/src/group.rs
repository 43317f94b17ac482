use std::{os::fd::AsFd, time::Duration};

use socket::{Clock, Poll};

use crate::{Agent, Buffers, Endpoint};

/// Endpoints that one thread drives. The thread sleeps while there is nothing to do.
#[derive(Debug)]
pub struct Group<A> {
    /// The endpoints.
    pub endpoints: Vec<Endpoint<A>>,
    buffers: Buffers,
    poll: Poll,
}

impl<A: Agent> Group<A> {
    /// A group of these endpoints.
    #[must_use]
    pub fn new(endpoints: Vec<Endpoint<A>>) -> Self {
        Self {
            endpoints,
            buffers: Buffers::new(),
            poll: Poll::default(),
        }
    }

    /// Waits until an endpoint has something to do, `until` is reached or the process gets a
    /// signal, and then does the work that is due.
    pub fn turn(&mut self, clock: Clock, until: Duration) {
        let deadlines = self.endpoints.iter().filter_map(|e| e.agent.deadline());
        let until = deadlines.fold(until, Duration::min);
        let descriptors = self.endpoints.iter().flat_map(|endpoint| {
            let streams = endpoint.streams.as_deref();
            let streams = streams.map(|streams| streams.descriptor().as_fd());
            endpoint.sockets.iter().map(AsFd::as_fd).chain(streams)
        });
        let timeout = until.saturating_sub(clock.now());
        self.poll.wait(descriptors, Some(timeout));
        let mut first = 0;
        for endpoint in &mut self.endpoints {
            let is_ready = |place| self.poll.is_ready(first + place);
            for (place, socket) in endpoint.sockets.iter().enumerate() {
                if self.poll.has_error(first + place) {
                    crate::forget_errors(socket);
                }
            }
            let places = endpoint.sockets.len() + usize::from(endpoint.streams.is_some());
            let is_due = endpoint
                .agent
                .deadline()
                .is_some_and(|due| due <= clock.now());
            if is_due || (0..places).any(is_ready) {
                endpoint.turn_ready(clock, &mut self.buffers, is_ready);
            }
            first += places;
        }
    }
}
