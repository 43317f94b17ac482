//! A node's process: its workers, the queues before and between them, and its store.

mod streams;

use std::{borrow::Cow, collections::VecDeque, mem, net::SocketAddr, sync::Arc, time::Duration};

use fastrand::Rng;
use node::{
    Config, Datagram, Flow, Input, Lane, Node, Outbox, Question, Quotation, ReloadError, Shared,
    Work,
};

use crate::{
    Capacity, Conduct, Pace, PartyId, Quota, Scheme, Store,
    host::{Cheap, Host, TICK},
    processor::{Queue, Waiting},
    streams::{Endpoint, Line},
};

/// A worker reads so many new requests from lanes before it serves some of those that wait.
const READS: u32 = 12;
/// The same of what may belong to calls.
const BATCH: u32 = 64;

/// Makes what is sent of what was to be sent.
pub type Alter = fn(&[u8]) -> Vec<u8>;

/// The machine of a node.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Its processor; none: processing takes no time.
    pub capacity: Option<Capacity>,
    /// Its processor if it reads what comes before it serves it.
    pub pace: Option<Pace>,
    /// The time in addition, with a pace, to hold a transaction and not only pass it on.
    pub hold: Duration,
    /// The time in addition, with a pace, to check who sent a request.
    pub check: Duration,
    /// With a pace: the part of its processor that it may use.
    pub quota: Option<Quota>,
    /// How it deals with connections.
    pub conduct: Conduct,
    /// What a peer that is not ours sends instead of a message.
    pub alters: Option<Alter>,
    /// Where its registrar keeps users' bindings. It outlives the node.
    pub store: Store,
}

/// A node with one or more workers. The hash of a datagram's sender selects the worker, as with
/// sockets that share a port. A handover arrives at once.
#[derive(Debug)]
pub struct Edge {
    shared: Arc<Shared>,
    nodes: Vec<Node>,
    machine: Machine,
    queue: Option<Queue>,
    host: Option<Box<Host>>,
    /// When the workers look at their timers at the latest.
    timers_due: Duration,
    /// What workers have asked the store, and when it answers.
    asked: VecDeque<(Duration, usize, Question)>,
    party: PartyId,
    /// The connections of each worker.
    streams: Vec<Endpoint>,
    /// Whether the processor reads before it serves who waits.
    is_to_read: bool,
    /// New requests that it reads from lanes until it serves who waits.
    reads_left: u32,
    /// The same of what may belong to calls.
    of_calls_left: u32,
}

impl Edge {
    pub(crate) fn new(
        party: PartyId,
        config: Config,
        workers: usize,
        machine: Machine,
        mut rng: Rng,
        now: Duration,
    ) -> Result<Self, ReloadError> {
        let listeners = config.listeners.iter();
        let addresses: Vec<_> = listeners.map(|listener| listener.address).collect();
        let shared = Arc::new(Shared::new(config, workers)?);
        let known = shared.snapshot().known_networks();
        let streams = (0..workers).map(|worker| {
            let (worker, conduct) = (worker as u8, machine.conduct);
            let mut endpoint = Endpoint::new(party, worker, addresses.clone(), conduct, now);
            endpoint.set_known(known.clone());
            endpoint
        });
        let streams = streams.collect();
        let nodes = (0..workers)
            .map(|worker| Node::new(Arc::clone(&shared), worker, rng.u64(..), now))
            .collect();
        Ok(Self {
            shared,
            nodes,
            queue: machine.capacity.map(Queue::new),
            host: machine.pace.map(|pace| Box::new(Host::new(pace, &machine))),
            machine,
            timers_due: now,
            asked: VecDeque::new(),
            party,
            streams,
            is_to_read: true,
            reads_left: READS,
            of_calls_left: BATCH,
        })
    }

    /// Its configuration, servers and counters.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Puts another's overload control before a processor that has a pace. The node's own limit at the store is off then.
    pub fn set_door(&mut self, scheme: Box<dyn Scheme>) {
        self.nodes.iter_mut().for_each(Node::leave_store_unlimited);
        if let Some(host) = &mut self.host {
            host.set_door(scheme);
        }
    }

    /// What it sends instead of a message.
    pub(crate) fn altered<'a>(&self, message: &'a [u8]) -> Cow<'a, [u8]> {
        let alters = self.machine.alters;
        alters.map_or(Cow::Borrowed(message), |alter| Cow::Owned(alter(message)))
    }

    /// Its workers.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Its workers, to change them.
    pub fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    /// Sets the speed of a processor that has a pace; 1 is that pace.
    pub fn set_speed(&mut self, speed: f64) {
        if let Some(host) = &mut self.host {
            host.set_speed(speed);
        }
    }

    /// Sets the quota of a processor that has one.
    pub fn set_quota(&mut self, quota: Quota) {
        if let Some(host) = &mut self.host {
            host.set_quota(quota);
        }
    }

    /// The time that its processor was busy.
    #[must_use]
    pub fn busy(&self) -> Duration {
        let of_host = self
            .host
            .as_ref()
            .map_or(Duration::ZERO, |host| host.busy());
        self.queue.as_ref().map_or(of_host, Queue::busy)
    }

    /// Datagrams that found its processor's queue full.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let of_host = self.host.as_ref().map_or(0, |host| host.lost());
        self.queue.as_ref().map_or(of_host, Queue::lost)
    }

    /// The process after a restart, with only the configuration that it last had.
    pub(crate) fn restarted(&self, rng: Rng, now: Duration) -> Result<Self, ReloadError> {
        let config = self.shared.snapshot().config().clone();
        Self::new(
            self.party,
            config,
            self.nodes.len(),
            self.machine.clone(),
            rng,
            now,
        )
    }

    /// Takes a datagram, at once or when the processor comes to it; whether there was room for it.
    pub(crate) fn receive(
        &mut self,
        now: Duration,
        flow: Flow,
        bytes: &[u8],
        out: &mut Outbox,
    ) -> bool {
        if let Some(host) = &mut self.host {
            return host.take_in(now, &self.shared, flow, bytes);
        }
        match &mut self.queue {
            Some(queue) => queue.take_in(now, flow, bytes),
            None => {
                self.handle_datagram(now, flow, bytes, out);
                true
            }
        }
    }

    pub(crate) fn handle_unreachable(
        &mut self,
        now: Duration,
        quotation: Quotation<'_>,
        out: &mut Outbox,
    ) {
        self.handle_input(now, 0, Input::Unreachable(quotation), out);
    }

    /// Does what is due.
    pub(crate) fn wake(&mut self, line: &mut Line<'_>, out: &mut Outbox) {
        let now = line.now;
        let sent = out.transmits.len();
        for endpoint in &mut self.streams {
            endpoint.handle_timeout(line);
        }
        if self.host.is_none() {
            self.read_all(line, out);
        }
        while let Some(queue) = &mut self.queue
            && let Some(done) = queue.pop(now)
        {
            self.handle_datagram(now, done.flow, &done.bytes, out);
            self.queue.as_mut().expect("it was there").recycle(done);
        }
        while let Some((_, worker, question)) = self.asked.pop_front_if(|asked| asked.0 <= now) {
            self.tell(now, worker, question, out);
            self.answer(now, worker, out);
        }
        let still = self.host.as_ref().and_then(|host| host.stands_until(now));
        self.tell_work(now);
        self.work(line, out);
        if let Some(until) = still {
            self.timers_due = self.timers_due.max(until);
        }
        if self.timers_due <= now {
            self.handle_timeout(now, out);
        }
        if let Some(host) = &mut self.host {
            for transmit in &out.transmits[sent..] {
                host.note_sent(now, &out.bytes[transmit.range.clone()]);
            }
        }
    }

    /// Lets the processor read and serve what it has time for.
    fn work(&mut self, line: &mut Line<'_>, out: &mut Outbox) {
        let now = line.now;
        while let Some(host) = &mut self.host {
            if let Some((delay, waiting)) = host.pop(now) {
                if !host.lets_in(now, delay, &waiting, out) {
                    host.recycle(waiting);
                    continue;
                }
                self.read(now, None, delay, waiting, out);
            } else if !host.is_idle(now) {
                break;
            } else if (self.is_to_read || !self.nodes.iter().any(Node::has_waiting))
                && let Some(endpoint) = self.streams.iter_mut().find(|it| it.is_ready())
            {
                endpoint.read(line, &mut |came, flow, bytes| {
                    host.take_read(came, flow, bytes)
                });
                self.is_to_read = false;
            } else if self.read_lane(now, out) || self.serve_waiting(now, out) {
                continue;
            } else if self.of_calls_left == 0 {
                self.of_calls_left = BATCH;
            } else {
                return self.note_empty(now);
            }
        }
    }

    /// There is nothing to read but what waits in lanes, which may wait for what was read last.
    fn note_empty(&mut self, now: Duration) {
        if self.host.as_ref().is_some_and(|host| host.has_lanes()) {
            let nodes = self.nodes.iter_mut();
            nodes.for_each(|node| node.handle_delay(now, None, Duration::ZERO));
        }
    }

    /// Serves some of the requests that wait; whether there were any.
    fn serve_waiting(&mut self, now: Duration, out: &mut Outbox) -> bool {
        let Some(worker) = self.nodes.iter().position(Node::has_waiting) else {
            return false;
        };
        (self.is_to_read, self.reads_left, self.of_calls_left) = (true, READS, BATCH);
        let before = self.cheap(worker);
        let served = self.nodes[worker].handle_waiting(now, out);
        let after = self.cheap(worker);
        let host = self.host.as_mut().expect("it was there");
        host.served(now, served, before, after);
        self.answer(now, worker, out);
        self.hand_over(now, out);
        true
    }

    /// Gives a message to its worker.
    fn read(
        &mut self,
        now: Duration,
        lane: Option<Lane>,
        delay: Duration,
        waiting: Waiting,
        out: &mut Outbox,
    ) {
        let worker = self.worker_for(waiting.flow);
        let before = self.cheap(worker);
        let is_told = self.host.as_ref().is_some_and(|host| host.tells_overload());
        match is_told {
            true if waiting.flow.transport.is_stream() => {
                self.nodes[worker].handle_stream_delay(now, delay);
            }
            true => self.nodes[worker].handle_delay(now, lane, delay),
            false => {}
        }
        self.handle_datagram(now, waiting.flow, &waiting.bytes, out);
        let after = self.cheap(worker);
        let host = self.host.as_mut().expect("it was there");
        host.worked(now, before, after);
        host.recycle(waiting);
    }

    /// Reads something from a lane; whether there was anything to read.
    fn read_lane(&mut self, now: Duration, out: &mut Outbox) -> bool {
        let (nodes, count) = (&self.nodes, self.nodes.len());
        let is_turn_over = self.reads_left == 0 && nodes.iter().any(Node::has_waiting);
        let of_calls_left = self.of_calls_left;
        let has_room = |lane, waiting: &Waiting| match lane {
            Lane::OfCalls => of_calls_left > 0,
            _ if is_turn_over => false,
            _ => nodes[worker_of(count, waiting.flow.remote)].has_room(now, lane),
        };
        let Some(host) = &mut self.host else {
            return false;
        };
        let Some((lane, delay, waiting)) = host.pop_lane(now, has_room) else {
            return false;
        };
        let left = match lane {
            Lane::OfCalls => &mut self.of_calls_left,
            _ => &mut self.reads_left,
        };
        *left = left.saturating_sub(1);
        let worker = worker_of(count, waiting.flow.remote);
        let node = &mut self.nodes[worker];
        node.handle_delay(now, Some(lane), delay);
        if node.is_too_late(now) {
            node.handle_too_late(now, lane, &waiting.bytes);
            host.throw_away(now, waiting);
        } else {
            self.read(now, Some(lane), delay, waiting, out);
        }
        // What other workers hand over comes from no lane.
        self.nodes[worker].handle_delay(now, None, Duration::ZERO);
        true
    }

    fn cheap(&self, worker: usize) -> Cheap {
        Cheap::of(&self.shared.workers()[worker])
    }

    /// When to call [`Self::wake`].
    pub(crate) fn wake_at(&self) -> Duration {
        let done = self.queue.as_ref().map_or(Duration::MAX, Queue::deadline);
        let has_waiting = self.nodes.iter().any(Node::has_waiting) || self.is_ready();
        let host = self.host.as_ref();
        let free = host.map_or(Duration::MAX, |host| host.deadline(has_waiting));
        let asked = self.asked.front().map_or(Duration::MAX, |asked| asked.0);
        let streams = self.streams.iter().filter_map(Endpoint::deadline).min();
        let streams = streams.unwrap_or(Duration::MAX);
        let all = self.timers_due.min(done).min(free).min(asked);
        all.min(streams)
    }

    /// Another party may have changed what its timers wait for.
    pub(crate) fn look_again(&mut self, now: Duration) {
        self.timers_due = now;
    }

    fn handle_datagram(&mut self, now: Duration, flow: Flow, bytes: &[u8], out: &mut Outbox) {
        let worker = self.worker_for(flow);
        self.handle_datagram_of(now, worker, flow, bytes, out);
    }

    fn handle_datagram_of(
        &mut self,
        now: Duration,
        worker: usize,
        flow: Flow,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let datagram = Datagram {
            flow,
            bytes,
            truncated: false,
        };
        self.handle_input(now, worker, Input::Datagram(datagram), out);
    }

    fn handle_input(&mut self, now: Duration, worker: usize, input: Input<'_>, out: &mut Outbox) {
        self.nodes[worker].handle_input(now, input, out);
        self.answer(now, worker, out);
        self.hand_over(now, out);
        self.timers_due = self.timers_due.min(now + TICK);
    }

    /// Tells the workers what they have done, if it is time.
    fn tell_work(&mut self, now: Duration) {
        let workers = self.nodes.len() as u32;
        if let Some(host) = &mut self.host
            && let Some(told) = host.take_busy(now)
        {
            let [busy, ran] = told.map(|time| time / workers);
            let work = Work {
                busy,
                ran,
                ..Work::default()
            };
            let nodes = self.nodes.iter_mut();
            nodes.for_each(|node| node.handle_work(now, work));
        }
    }

    fn handle_timeout(&mut self, now: Duration, out: &mut Outbox) {
        if let Some(host) = &mut self.host {
            let unread = host.take_unread() / self.nodes.len() as u32;
            let missed = host.take_missed();
            let is_told = host.tells_overload();
            let filtered = host
                .take_filtered()
                .map(|all| all / self.nodes.len() as u32);
            let mut are_lanes_wanted = false;
            for node in &mut self.nodes {
                if unread > 0 && is_told {
                    node.handle_unread(now, unread);
                }
                for (lane, filtered) in Lane::ALL.into_iter().zip(filtered) {
                    if filtered > 0 {
                        node.handle_filtered(lane, filtered);
                    }
                }
                for (lane, missed) in Lane::ALL.into_iter().zip(missed) {
                    if missed > 0 && is_told {
                        node.handle_missed(now, lane, missed);
                    }
                }
                for lane in host.empty_lanes() {
                    node.handle_empty(now, lane);
                }
                are_lanes_wanted |= node.wants_lanes(now);
            }
            if let Some(has_lanes) = host.keep_lanes(are_lanes_wanted) {
                self.nodes
                    .iter_mut()
                    .for_each(|node| node.set_lanes(now, has_lanes));
            }
        }
        for worker in 0..self.nodes.len() {
            let before = self.cheap(worker);
            self.nodes[worker].handle_timeout(now, out);
            let after = self.cheap(worker);
            if let Some(host) = &mut self.host {
                host.timed(now, &mut self.nodes[worker], before, after);
            }
            self.answer(now, worker, out);
        }
        self.hand_over(now, out);
        let deadlines = self.nodes.iter().filter_map(|node| node.deadline(now));
        let next = deadlines.min().unwrap_or(Duration::MAX);
        self.timers_due = next.max(now + TICK);
    }

    fn hand_over(&mut self, now: Duration, out: &mut Outbox) {
        while !out.handovers.is_empty() {
            for handover in mem::take(&mut out.handovers) {
                let worker = handover.worker;
                self.nodes[worker].handle_input(now, Input::Handover(handover), out);
                self.answer(now, worker, out);
            }
        }
    }

    /// Lets the store answer what a worker has asked.
    fn answer(&mut self, now: Duration, worker: usize, out: &mut Outbox) {
        while !out.questions.is_empty() {
            for question in mem::take(&mut out.questions) {
                let at = self.machine.store.answers_at(now, &question.ask);
                if at > now {
                    let place = self.asked.partition_point(|&(other, ..)| other <= at);
                    self.asked.insert(place, (at, worker, question));
                } else {
                    self.tell(now, worker, question, out);
                }
            }
        }
    }

    fn tell(&mut self, now: Duration, worker: usize, question: Question, out: &mut Outbox) {
        // No simulated node is told another wall time than the world's.
        let answer = self.machine.store.answer(now, question.ask);
        let input = Input::Answer {
            question: question.id,
            answer,
        };
        self.nodes[worker].handle_input(now, input, out);
    }
}

fn worker_of(workers: usize, from: SocketAddr) -> usize {
    if workers == 1 {
        return 0;
    }
    let host = match from.ip() {
        std::net::IpAddr::V4(ip) => u128::from(u32::from(ip)),
        std::net::IpAddr::V6(ip) => u128::from(ip),
    };
    let mixed = (host as u64 ^ (host >> 64) as u64 ^ u64::from(from.port()) << 32)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize % workers
}
