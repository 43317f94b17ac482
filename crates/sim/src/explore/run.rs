use std::{cmp::Reverse, collections::BinaryHeap, mem, net::SocketAddr, sync::Arc, time::Duration};

use balance::Health;
use load::{Arrivals, CallerConfig, Failure, ServerConfig};
use node::{
    Config, Member,
    config::{PoolServer, Timers},
    stats::Event,
};

use super::{
    affinity::Affinity,
    draw::Plan,
    fault::Fault,
    ledger,
    outcome::{Kind, Outcome, Violation},
    outside::{Outside, reach},
    overload,
    public::{Public, private_ip},
    reach::Reach,
    streams,
};
use crate::{
    Cluster, Digest, IDLE_MAX, Link, Machine, PartyId, Setup, Watch, World, server_address,
};

/// How often the ledgers are held beside what is open while there are faults.
const CHECK_EVERY: Duration = Duration::from_millis(250);
/// How long each caller makes calls when the faults are over, and how many a second.
const LATER: Duration = Duration::from_secs(4);
const LATER_RATE: f64 = 5.0;

/// Runs a plan; `watch` sees all that happens.
pub(super) fn run(plan: &Plan, watch: &mut impl Watch) -> Outcome {
    let mut run = Run::new(plan, watch);
    let violation = run.phases().err();
    Outcome {
        calls: run.calls,
        failed: run.failed,
        messages: run.cluster.world.arrivals(),
        lasted: run.cluster.world.now(),
        digest: run.watch.1.0.value(),
        violation,
    }
}

/// The names of a plan's parties.
pub(super) fn names(plan: &Plan) -> Vec<String> {
    let mut cluster = world_of(plan);
    Outside::new(plan, &mut cluster);
    cluster.world.names()
}

struct Run<'a, W> {
    plan: &'a Plan,
    cluster: Cluster,
    /// What ends, and when: the places of faults.
    ends: BinaryHeap<Reverse<(Duration, usize)>>,
    watch: ((Affinity, Option<Reach>), (Digest, &'a mut W)),
    outside: Outside,
    calls: u64,
    failed: u64,
}

impl<'a, W: Watch> Run<'a, W> {
    fn new(plan: &'a Plan, watch: &'a mut W) -> Self {
        let mut cluster = world_of(plan);
        let outside = Outside::new(plan, &mut cluster);
        let reach = reach(plan, &cluster, &outside);
        let forgetful = if plan.has_small_tables() {
            cluster.edges.clone()
        } else {
            Vec::new()
        };
        let (servers, edges) = (cluster.servers.clone(), cluster.edges.clone());
        let affinity = Affinity::new(servers, edges, forgetful, plan.timers.t1 * 64);
        Self {
            plan,
            cluster,
            ends: BinaryHeap::new(),
            watch: ((affinity, reach), (Digest::default(), watch)),
            outside,
            calls: 0,
            failed: 0,
        }
    }

    fn phases(&mut self) -> Result<(), Violation> {
        self.faults()?;
        self.heal();
        self.every_call_ends()?;
        let failure = self.tally();
        if self.plan.is_faultless() && self.times_full() == 0 {
            self.none_failed(failure, "although nothing went wrong")?;
            self.servers_were_heard()?;
        }
        self.nothing_stays()?;
        self.servers_are_tried()?;
        let full_before = self.times_full();
        self.outside.begin_anew(&self.cluster);
        self.calls_come()?;
        self.every_call_ends()?;
        let failure = self.tally();
        if self.plan.is_prompt() && self.times_full() == full_before {
            self.none_failed(failure, "although all was well again")?;
            self.servers_were_heard()?;
        }
        self.no_overload_stays()?;
        self.nothing_stays()
    }

    /// Calls come, and what can go wrong does.
    fn faults(&mut self) -> Result<(), Violation> {
        let plan = self.plan;
        let mut begins = plan.faults.iter().enumerate().peekable();
        let deeds = plan.public.iter().flat_map(|public| &public.deeds);
        let mut deeds = deeds.peekable();
        while self.now() < self.plan.faulty_until {
            while let Some((place, (_, fault))) = begins.next_if(|(_, (at, _))| *at <= self.now()) {
                self.begin(fault);
                self.ends
                    .push(Reverse((self.now() + fault.lasting(), place)));
            }
            self.end_due();
            while let Some((_, deed)) = deeds.next_if(|(at, _)| *at <= self.now()) {
                self.outside.act(*deed, &mut self.cluster, &mut self.watch);
            }
            let next_deed = deeds.peek().map(|(at, _)| *at);
            let next_begin = begins.peek().map(|(_, (at, _))| *at);
            let next_end = self.ends.peek().map(|Reverse((at, _))| *at);
            let check = self.now() + CHECK_EVERY;
            let next = [next_begin, next_end, next_deed, Some(plan.faulty_until)];
            let next = next.into_iter().flatten().fold(check, Duration::min);
            self.run_until(next)?;
        }
        Ok(())
    }

    /// All faults end, and no more calls come.
    fn heal(&mut self) {
        while let Some(Reverse((_, place))) = self.ends.pop() {
            self.end(&self.plan.faults[place].1);
        }
        let latency = self.plan.setup.link.latency;
        self.cluster.world.network_mut().set_usual(Link {
            latency,
            ..Link::clean(Duration::ZERO)
        });
        self.set_rate(0.0);
    }

    fn every_call_ends(&mut self) -> Result<(), Violation> {
        let Setup { calls, .. } = &self.plan.setup;
        let patience = self.plan.timers.timer_c + self.transaction_max() * 4;
        let end = self.now() + calls.holding.mean() * 20 + patience;
        while self.open_calls() > 0 && self.now() < end {
            self.run_until(self.now() + CHECK_EVERY * 4)?;
        }
        match self.open_calls() {
            0 => Ok(()),
            open => Err(self.violation(Kind::Liveness, format!("{open} calls have no end"))),
        }
    }

    fn nothing_stays(&mut self) -> Result<(), Violation> {
        let Timers {
            call_max, timer_c, ..
        } = self.plan.timers;
        let mut patience = call_max + timer_c + self.transaction_max() * 4;
        if self.plan.streams.is_some() {
            patience = patience.max(IDLE_MAX * 2);
        }
        self.run_until(self.now() + patience)?;
        let Cluster {
            world,
            edges,
            servers,
            ..
        } = &self.cluster;
        let are_probed = self.plan.setup.pool.probe.is_some();
        let left = ledger::left(world, edges, servers)
            .and_then(|()| streams::left(world, edges, are_probed));
        left.map_err(|what| self.violation(Kind::Liveness, what))
    }

    fn calls_come(&mut self) -> Result<(), Violation> {
        self.set_rate(LATER_RATE);
        self.run_until(self.now() + LATER)?;
        self.set_rate(0.0);
        Ok(())
    }

    /// Counts the calls that have come to an end; returns a failure, if there was one without an excuse.
    fn tally(&mut self) -> Option<Failure> {
        let (mut failure, failed_before) = (None, self.failed);
        for &caller in &self.cluster.callers {
            let stats = self.cluster.world.caller_mut(caller).stats_mut().take();
            self.calls += stats.offered;
            self.failed += stats.failures();
            failure = failure.or_else(|| stats.failed.into_keys().next());
        }
        let excused = mem::take(&mut self.outside.excused);
        failure.filter(|_| self.failed - failed_before > excused)
    }

    /// A caller that sent something through its NAT lately gets the BYEs of its servers.
    fn servers_were_heard(&self) -> Result<(), Violation> {
        let unheard = self.outside.unheard(&self.cluster);
        let is_kept_alive = |public: &Public| public.is_kept_alive();
        if unheard > self.outside.unreached && self.plan.public.as_ref().is_some_and(is_kept_alive)
        {
            let what = format!("callers did not answer {unheard} BYEs of servers");
            return Err(self.violation(Kind::Liveness, what));
        }
        Ok(())
    }

    /// How often an edge had no room for a call. Calls whose callers vanished may fill a small table
    /// for as long as their servers have them open; 503 is the answer then.
    fn times_full(&self) -> u64 {
        let edges = self.cluster.edges.iter();
        let workers = edges.flat_map(|&edge| self.cluster.world.edge(edge).shared().workers());
        workers
            .map(|worker| worker.event(Event::SessionsFull) + worker.event(Event::TransactionsFull))
            .sum()
    }

    fn none_failed(&self, failure: Option<Failure>, why_not: &str) -> Result<(), Violation> {
        match failure {
            Some(failure) => {
                let what = format!("a call failed {why_not}: {failure}");
                Err(self.violation(Kind::Liveness, what))
            }
            None => Ok(()),
        }
    }

    fn run_until(&mut self, end: Duration) -> Result<(), Violation> {
        self.cluster.world.run_until(end, &mut self.watch);
        let (affinity, reach) = &mut self.watch.0;
        let of_reach = reach.as_mut().and_then(|reach| reach.violation.take());
        if let Some(violation) = affinity.violation.take().or(of_reach) {
            return Err(violation);
        }
        self.servers_are_up()?;
        for &edge in &self.cluster.edges {
            let checked = ledger::check(self.cluster.world.edge(edge));
            checked.map_err(|what| self.violation(Kind::Safety, what))?;
        }
        Ok(())
    }

    /// Without probes a server is down until a call has tried it, and other calls may find no server meanwhile.
    fn servers_are_tried(&mut self) -> Result<(), Violation> {
        if self.plan.setup.pool.probe.is_some() || self.fallen_server().is_none() {
            return Ok(());
        }
        self.calls_come()?;
        self.every_call_ends()?;
        self.tally();
        self.nothing_stays()
    }

    /// Without faults, no server goes down, whatever strangers do. Without probes one that ignores what a
    /// stranger sends can't be told from a dead one, until a call tries it.
    fn servers_are_up(&self) -> Result<(), Violation> {
        let has_probes = self.plan.setup.pool.probe.is_some();
        if self.plan.public.is_none() || !self.plan.is_faultless() || !has_probes {
            return Ok(());
        }
        match self.fallen_server() {
            Some(address) => {
                let what = format!("{address} is down although it answers");
                Err(self.violation(Kind::Safety, what))
            }
            None => Ok(()),
        }
    }

    /// A server that an edge takes for down.
    fn fallen_server(&self) -> Option<SocketAddr> {
        self.cluster.edges.iter().find_map(|&edge| {
            let snapshot = self.cluster.world.edge(edge).shared().snapshot();
            let mut members = snapshot.members().iter().flatten();
            let is_down = |member: &&Arc<Member>| member.server.health() == Health::Down;
            members.find(is_down).map(|member| member.address)
        })
    }

    fn now(&self) -> Duration {
        self.cluster.world.now()
    }

    fn transaction_max(&self) -> Duration {
        self.plan.timers.t1 * 64
    }

    fn open_calls(&self) -> usize {
        let callers = self.cluster.callers.iter();
        let open = callers.map(|&caller| self.cluster.world.caller(caller).open_calls());
        open.sum()
    }

    /// Sets how many calls per second each caller starts from this moment on.
    fn set_rate(&mut self, rate: f64) {
        let now = self.now();
        for &caller in &self.cluster.callers {
            let arrivals = if rate > 0.0 {
                Arrivals::poisson(rate)
            } else {
                Arrivals::Window(0)
            };
            self.cluster
                .world
                .caller_mut(caller)
                .set_arrivals(now, arrivals);
        }
    }

    fn set_rate_of(&mut self, caller: usize, rate: f64) {
        let (now, caller) = (self.now(), self.cluster.callers[caller]);
        let caller = self.cluster.world.caller_mut(caller);
        caller.set_arrivals(now, Arrivals::poisson(rate));
    }

    /// No edge keeps anything out when little comes.
    fn no_overload_stays(&self) -> Result<(), Violation> {
        self.cluster.edges.iter().try_for_each(|&edge| {
            let edge = self.cluster.world.edge(edge);
            let is_over = overload::is_over(edge.shared(), self.now());
            is_over.map_err(|what| self.violation(Kind::Liveness, what))
        })
    }

    fn violation(&self, kind: Kind, what: String) -> Violation {
        Violation {
            at: self.now(),
            kind,
            what,
        }
    }
}

/// Faults begin and end.
impl<W: Watch> Run<'_, W> {
    fn begin(&mut self, fault: &Fault) {
        let Self { cluster, watch, .. } = self;
        let Cluster {
            world,
            edges,
            servers,
            callers,
            ..
        } = cluster;
        match *fault {
            Fault::Edge(edge, death, _) => world.crash(edges[edge], death, watch),
            Fault::Server(server, death, _) => world.crash(servers[server], death, watch),
            Fault::Cut(edge, server, _) => {
                world
                    .network_mut()
                    .set_cut(edges[edge], servers[server], true);
            }
            Fault::CutCaller(edge, _) => {
                world
                    .network_mut()
                    .set_cut(edges[edge], callers[edge], true);
            }
            Fault::Links(link, _) => world.network_mut().set_usual(link),
            Fault::Stall(server, lasting) => {
                let now = world.now();
                world.server_mut(servers[server]).stall(now, lasting);
            }
            Fault::Speed(server, speed, _) => self.set_speed(server, speed),
            Fault::Surge(caller, rate, _) => self.set_rate_of(caller, rate),
            Fault::ResetEdge(edge) => world.reset_streams(edges[edge]),
            Fault::ResetServer(server) => world.reset_streams(servers[server]),
            Fault::Unread(server, _) => world.set_reading(servers[server], false),
            Fault::Drain(edge, server, _) => self.with_member(edge, server, |server, _| {
                server.drain();
            }),
            Fault::Reload(edge, server, _) => {
                let without = server_address(server);
                self.reload(edge, |server| server.address != without);
            }
        }
    }

    fn end(&mut self, fault: &Fault) {
        let Self { cluster, watch, .. } = self;
        let Cluster {
            world,
            edges,
            servers,
            callers,
            ..
        } = cluster;
        match *fault {
            Fault::Edge(edge, ..) => restart(world, edges[edge], watch),
            Fault::Server(server, ..) => restart(world, servers[server], watch),
            Fault::Cut(edge, server, _) => {
                world
                    .network_mut()
                    .set_cut(edges[edge], servers[server], false);
            }
            Fault::CutCaller(edge, _) => {
                world
                    .network_mut()
                    .set_cut(edges[edge], callers[edge], false);
            }
            Fault::Links(..) => world.network_mut().set_usual(self.plan.setup.link),
            Fault::Stall(..) | Fault::ResetEdge(_) | Fault::ResetServer(_) => {}
            Fault::Unread(server, _) => world.set_reading(servers[server], true),
            Fault::Speed(server, ..) => self.set_speed(server, 1.0),
            Fault::Surge(caller, ..) => {
                let rate = self.plan.setup.calls.rate / self.plan.setup.edges as f64;
                self.set_rate_of(caller, rate);
            }
            Fault::Drain(edge, server, _) => {
                self.with_member(edge, server, |server, now| server.undrain(now));
            }
            Fault::Reload(edge, ..) => self.reload(edge, |_| true),
        }
    }

    fn end_due(&mut self) {
        let now = self.now();
        while let Some(&Reverse((at, place))) = self.ends.peek()
            && at <= now
        {
            self.ends.pop();
            self.end(&self.plan.faults[place].1);
        }
    }

    fn set_speed(&mut self, server: usize, speed: f64) {
        let (now, server) = (self.now(), self.cluster.servers[server]);
        self.cluster.world.server_mut(server).set_speed(now, speed);
    }

    fn with_member(
        &self,
        edge: usize,
        server: usize,
        act: impl FnOnce(&balance::Server, Duration),
    ) {
        let edge = self.cluster.world.edge(self.cluster.edges[edge]);
        let snapshot = edge.shared().snapshot();
        let mut members = snapshot.members().iter().flatten();
        if let Some(member) = members.find(|member| member.address == server_address(server)) {
            act(&member.server, self.now());
        }
    }

    /// An edge's operator edits the list of servers.
    fn reload(&self, edge: usize, keeps: impl Fn(&PoolServer) -> bool) {
        let mut config = self.plan.node(edge);
        config.pools[0].servers.retain(keeps);
        let edge = self.cluster.world.edge(self.cluster.edges[edge]);
        edge.shared()
            .reload(config, self.now())
            .expect("nothing that is fixed at start changes");
    }
}

fn restart(world: &mut World, party: PartyId, watch: &mut impl Watch) {
    if !world.is_up(party) {
        world
            .restart(party, watch)
            .expect("the configuration was good before");
    }
}

fn world_of(plan: &Plan) -> Cluster {
    let Setup { edges, servers, .. } = &plan.setup;
    let mut world = World::new(plan.seed, plan.setup.link);
    let streams = plan.streams.unwrap_or_default();
    let conduct = streams.conduct;
    let callers = (0..*edges).map(|number| match streams.of_callers {
        true => world.add_stream_caller(plan.caller(number), conduct),
        false => world.add_caller(plan.caller(number)),
    });
    let callers = callers.collect();
    let servers = servers.iter().enumerate().map(|(number, server)| {
        let config = ServerConfig {
            address: server_address(number),
            hang_up: plan.public.as_ref().and_then(|public| public.hang_up),
            ..server.config
        };
        match streams.of_servers {
            true => world.add_stream_server(config, conduct),
            false => world.add_server(config),
        }
    });
    let servers = servers.collect();
    let machine = Machine {
        pace: plan.pace,
        conduct,
        ..Machine::default()
    };
    let edges = (0..*edges).map(|number| {
        world
            .add_node(
                "edge",
                plan.node(number),
                plan.setup.workers,
                machine.clone(),
            )
            .expect("what is drawn names few servers")
    });
    let edges = edges.collect();
    Cluster {
        world,
        edges,
        nodes: Vec::new(),
        servers,
        callers,
        phones: Vec::new(),
    }
}

impl Plan {
    fn node(&self, number: usize) -> Config {
        let mut config = Config {
            limits: self.limits.clone(),
            timers: self.timers.clone(),
            ..self.setup.node(number)
        };
        config.routes[0].state = self.state;
        if let Some(streams) = &self.streams {
            streams.apply_to_node(&mut config);
        }
        config
    }

    fn caller(&self, number: usize) -> CallerConfig {
        let mut config = CallerConfig {
            habits: self.habits,
            ..self.setup.caller(number)
        };
        if let Some(streams) = &self.streams {
            streams.apply_to_caller(&mut config);
        }
        if let Some(nat) = self.nat(number) {
            config.keep_alive = nat.keep_alive();
            for socket in &mut config.sockets {
                socket.set_ip(private_ip(number));
            }
        }
        config
    }
}
