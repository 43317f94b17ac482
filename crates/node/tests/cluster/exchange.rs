//! Several edges before the same servers.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use balance::{Cost, Elsewhere, Server};
use node::{
    Config, Datagram, Flow, Input, Node, Outbox, Shared,
    config::Exchange,
    stats::{Dropped, Event},
};

use crate::harness::{ONE, THREE, TWO, config, listener, ms, pool, s};

const EDGES: [&str; 3] = ["192.0.2.10:5060", "192.0.2.11:5060", "192.0.2.12:5060"];
const SERVERS: [&str; 3] = [ONE, TWO, THREE];
const TICK: Duration = Duration::from_millis(10);

/// An edge of two workers.
struct Edge {
    shared: Arc<Shared>,
    nodes: Vec<Node>,
    begun_at: Duration,
}

impl Edge {
    fn new(number: usize, now: Duration) -> Self {
        let shared = Shared::new(edge_config(number), 2).unwrap();
        shared.set_incarnation(now.as_millis() as u64);
        let shared = Arc::new(shared);
        let node = |worker| Node::new(Arc::clone(&shared), worker, 7, Duration::ZERO);
        Self {
            nodes: (0..2).map(node).collect(),
            shared,
            begun_at: now,
        }
    }

    fn server(&self, address: &str) -> Arc<Server> {
        let snapshot = self.shared.snapshot();
        let mut members = snapshot.members().iter().flatten();
        let member = members.find(|member| member.address == address.parse().unwrap());
        Arc::clone(&member.unwrap().server)
    }

    fn dropped(&self, reason: Dropped) -> u64 {
        let workers = self.shared.workers().iter();
        workers.map(|worker| worker.dropped(reason)).sum()
    }

    fn event(&self, event: Event) -> u64 {
        let workers = self.shared.workers().iter();
        workers.map(|worker| worker.event(event)).sum()
    }
}

fn edge_config(number: usize) -> Config {
    let others = EDGES
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != number);
    Config {
        name: format!("edge-{number}"),
        listeners: vec![listener(EDGES[number])],
        exchange: Exchange {
            peers: others
                .map(|(_, address)| address.parse().unwrap())
                .collect(),
            interval: ms(100),
        },
        ..config(&SERVERS)
    }
}

/// All of them, and the datagrams between them.
struct World {
    now: Duration,
    edges: BTreeMap<usize, Edge>,
    /// Every datagram so far: sender, receiver, bytes.
    sent: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
}

impl World {
    fn new() -> Self {
        let now = s(1_000);
        Self {
            now,
            edges: (0..3)
                .map(|number| (number, Edge::new(number, now)))
                .collect(),
            sent: Vec::new(),
        }
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += TICK;
            let numbers: Vec<_> = self.edges.keys().copied().collect();
            let sent: Vec<_> = numbers
                .into_iter()
                .flat_map(|edge| self.tick(edge))
                .collect();
            for (from, to, bytes) in &sent {
                self.deliver(*from, *to, bytes);
            }
            self.sent.extend(sent);
        }
    }

    fn tick(&mut self, number: usize) -> Vec<(SocketAddr, SocketAddr, Vec<u8>)> {
        let edge = self.edges.get_mut(&number).unwrap();
        let mut out = Outbox::default();
        for node in &mut edge.nodes {
            node.handle_timeout(self.now - edge.begun_at, &mut out);
        }
        let from = EDGES[number].parse().unwrap();
        let sent = out.transmits.iter();
        sent.map(|transmit| (from, transmit.flow.remote, out.payload(transmit).to_vec()))
            .collect()
    }

    /// The second worker gets it, and hands it to the first.
    fn deliver(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let at = |(_, address): &(usize, &&str)| address.parse() == Ok(to);
        let (number, _) = EDGES.iter().enumerate().find(at).unwrap();
        let Some(edge) = self.edges.get_mut(&number) else {
            return;
        };
        let datagram = Datagram {
            flow: Flow::udp(0, from),
            bytes,
            truncated: false,
        };
        let mut out = Outbox::default();
        let now = self.now - edge.begun_at;
        edge.nodes[1].handle_input(now, Input::Datagram(datagram), &mut out);
        for handover in std::mem::take(&mut out.handovers) {
            assert_eq!(handover.worker, 0);
            edge.nodes[0].handle_input(now, Input::Handover(handover), &mut out);
        }
        assert!(out.transmits.is_empty());
    }

    fn elsewhere(&self, edge: usize, server: &str) -> Elsewhere {
        self.edges[&edge].server(server).elsewhere()
    }
}

fn elsewhere(calls: u64, transactions: u64, work_thousandths: u64) -> Elsewhere {
    Elsewhere {
        calls,
        transactions,
        work_thousandths,
    }
}

#[test]
fn each_edge_sees_what_the_others_have_open() {
    let mut world = World::new();
    world.wait(ms(200));
    for edge in [1, 2] {
        world.edges[&edge].server(TWO).open_call();
        world.edges[&edge]
            .server(TWO)
            .open_transaction(Cost::INVITE);
    }
    world.wait(ms(200));
    assert_eq!(world.elsewhere(0, TWO), elsewhere(2, 2, 3_500));
    assert_eq!(world.elsewhere(1, TWO), elsewhere(1, 1, 1_750));
    assert_eq!(world.elsewhere(0, ONE), elsewhere(0, 0, 0));
    let peers = world.edges[&0].shared.peers();
    let names: Vec<_> = peers.iter().map(|peer| peer.name.as_str()).collect();
    assert!(
        names.contains(&"edge-1") && names.contains(&"edge-2"),
        "{names:?}"
    );
    assert!(peers.iter().all(|peer| peer.is_heard && peer.calls == 1));
    assert!(world.edges[&0].event(Event::ReportReceived) >= 6);
}

#[test]
fn a_server_that_stops_is_known_at_once_and_what_comes_and_goes_is_not_told() {
    let mut world = World::new();
    world.wait(ms(1_000));
    let server = world.edges[&1].server(ONE);
    for _ in 0..100 {
        server.open_transaction(Cost::INVITE);
        world.wait(TICK);
        server.close_transaction(Cost::INVITE);
        world.wait(TICK);
        assert_eq!(world.elsewhere(0, ONE), Elsewhere::default());
    }
    server.open_transaction(Cost::INVITE);
    world.wait(3 * TICK);
    assert_eq!(world.elsewhere(0, ONE), elsewhere(0, 1, 1_750));
    server.close_transaction(Cost::INVITE);
    world.wait(TICK);
    assert_eq!(world.elsewhere(0, ONE), Elsewhere::default());
}

#[test]
fn a_dead_edge_does_not_count_for_long_and_a_new_life_replaces_the_old_at_once() {
    let mut world = World::new();
    world.edges[&1].server(ONE).open_call();
    world.edges[&2].server(ONE).open_call();
    world.wait(ms(200));
    assert_eq!(world.elsewhere(0, ONE).calls, 2);
    world.edges.remove(&1);
    world.wait(ms(300));
    assert_eq!(world.elsewhere(0, ONE).calls, 2, "it may be late");
    world.wait(ms(400));
    assert_eq!(world.elsewhere(0, ONE).calls, 1);
    assert!(
        !world.edges[&0]
            .shared
            .peers()
            .iter()
            .all(|peer| peer.is_heard)
    );

    world.edges.remove(&2);
    world.wait(ms(100));
    world.edges.insert(2, Edge::new(2, world.now));
    world.wait(ms(50));
    assert_eq!(world.elsewhere(0, ONE).calls, 0);
}

#[test]
fn a_lost_report_is_made_good_by_the_next() {
    let mut world = World::new();
    world.edges[&1].server(ONE).open_call();
    let edge = world.edges.remove(&0).unwrap();
    world.wait(ms(300));
    world.edges.insert(0, edge);
    world.wait(ms(110));
    assert_eq!(world.elsewhere(0, ONE).calls, 1);
}

#[test]
fn old_foreign_and_own_reports_are_dropped_and_counted() {
    let mut world = World::new();
    world.edges[&1].server(ONE).open_call();
    world.wait(ms(300));
    let to_first = |world: &World| {
        let mut sent = world.sent.iter();
        let to = EDGES[0].parse().unwrap();
        let from = EDGES[1].parse().unwrap();
        sent.find(|report| (report.0, report.1) == (from, to))
            .cloned()
            .unwrap()
    };
    let (from, to, bytes) = to_first(&world);
    world.edges[&1].server(ONE).close_call();
    world.wait(ms(200));
    let dropped = |world: &World, reason| world.edges[&0].dropped(reason);

    world.deliver(from, to, &bytes);
    assert_eq!(dropped(&world, Dropped::ReportStale), 1);
    assert_eq!(world.elsewhere(0, ONE).calls, 0);

    let mut forged = bytes.clone();
    forged[40] ^= 1;
    world.deliver(from, to, &forged);
    world.deliver(from, to, &bytes[..bytes.len() - 1]);
    assert_eq!(dropped(&world, Dropped::ReportForged), 2);
    world.deliver(from, to, &[0xf5]);
    assert_eq!(dropped(&world, Dropped::ReportMalformed), 1);
    // It is the sender's own report that comes back to it.
    world.deliver(to, from, &bytes);
    assert_eq!(world.edges[&1].dropped(Dropped::ReportUnexpected), 1);

    let alone = Config {
        exchange: Exchange::default(),
        ..edge_config(0)
    };
    world.edges[&0].shared.reload(alone, world.now).unwrap();
    world.wait(ms(200));
    assert!(dropped(&world, Dropped::ReportUnexpected) > 0);
    assert_eq!(world.edges[&0].shared.peers(), []);
}

#[test]
fn edges_prefer_their_part_of_the_servers_by_what_they_place() {
    let mut world = World::new();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut placed = [[0_u64; 3]; 3];
    for _ in 0..500 {
        world.wait(TICK);
        // The second edge places twice as much as the first, the third nothing.
        for edge in [0, 1, 1] {
            let snapshot = world.edges[&edge].shared.snapshot();
            let arrival = balance::Arrival {
                key: b"key",
                cost: Cost::ONE,
                call: false,
                avoid: &[],
            };
            let pool = snapshot.pools()[0].pool();
            let server = pool.place(world.now, &arrival, &mut rng).unwrap();
            placed[edge][usize::from(server.id().0)] += 1;
            server.close_transaction(Cost::ONE);
        }
    }
    let both = placed[0]
        .iter()
        .zip(placed[1])
        .map(|(first, second)| first + second);
    for sum in both {
        assert!((400..600).contains(&sum), "{placed:?}");
    }
    let alone = placed[0].iter().filter(|placed| **placed > 300).count();
    assert_eq!(alone, 1, "{placed:?}");
}

#[test]
fn many_servers_take_several_datagrams() {
    let mut world = World::new();
    let addresses: Vec<_> = (1..=100)
        .map(|host| format!("10.0.0.{host}:5060"))
        .collect();
    let listed: Vec<_> = addresses.iter().map(String::as_str).collect();
    for (&number, edge) in &world.edges {
        let config = Config {
            pools: vec![pool("app", &listed)],
            ..edge_config(number)
        };
        edge.shared.reload(config, Duration::ZERO).unwrap();
    }
    for address in &addresses {
        world.edges[&1].server(address).open_call();
    }
    world.wait(ms(200));
    assert!(addresses.iter().all(|at| world.elsewhere(0, at).calls == 1));
    assert!(world.sent.iter().all(|(.., bytes)| bytes.len() <= 1_232));
}
