//! Two stages of nodes, as in Singh and Schulzrinne, "Failover and load sharing in SIP telephony":
//! edges place calls and REGISTERs on nodes, which find the users.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use balance::{Policy, Pool, Server, ServerId};
use load::{Accounts, PhonesConfig, Rate, Retransmission, Stream, Turns};
use node::{
    Config, ReloadError, Transport,
    config::{self, Destination, Mode, PoolServer, Registrar, Route, WhenFull},
};

use crate::{
    Capacity, Machine, PartyId, Setup, Store, World,
    setup::{DOMAIN, SOCKETS, address, edge_address, server_address},
};

/// How many users register in a second before the calls begin: no node is busy with that.
const FIRST_REGISTERS_PER_S: f64 = 500.0;

/// The nodes behind the edges.
#[derive(Clone, Debug, PartialEq)]
pub struct Second {
    /// The number of nodes.
    pub nodes: usize,
    /// Their function.
    pub duty: Duty,
    /// The number of users. Each is equally likely to be called or to register.
    pub users: u32,
    /// Whether all nodes use one store. If not, each has its own, and the edges see each as a
    /// cluster.
    pub is_shared: bool,
    /// The capacity of each node; none: processing takes no time.
    pub capacity: Option<Capacity>,
}

/// The load, and what nodes of the second stage do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Calls, which they pass on to any server without state.
    Proxy,
    /// Calls, which they hold and pass on to where the user has registered, a server.
    LookUp,
    /// Registrations, each of a user drawn by chance.
    Register,
}

/// The address of the node of the second stage with this number, from 0.
#[must_use]
pub fn node_address(number: usize) -> SocketAddr {
    address(3, number)
}

fn name(number: usize) -> String {
    format!("core-{}", number + 1)
}

/// The second stage's nodes.
pub(crate) fn add_nodes(world: &mut World, setup: &Setup) -> Result<Vec<PartyId>, ReloadError> {
    let Some(second) = &setup.second else {
        return Ok(Vec::new());
    };
    let shared = Store::default();
    let nodes = (0..second.nodes).map(|number| {
        let machine = Machine {
            capacity: second.capacity,
            store: if second.is_shared {
                shared.clone()
            } else {
                Store::default()
            },
            ..Machine::default()
        };
        world.add_node(
            "node",
            setup.second_node(second, number),
            setup.workers,
            machine,
        )
    });
    nodes.collect()
}

/// Phones that register while it is measured, or that have registered before calls begin.
pub(crate) fn add_phones(world: &mut World, setup: &Setup) -> Vec<PartyId> {
    match &setup.second {
        Some(second) if second.duty == Duty::Register => {
            let entrances = setup.entrances().into_iter().enumerate();
            let phones = entrances.map(|(number, entrance)| PhonesConfig {
                rate: Rate::Constant(setup.calls.rate / setup.entrances().len() as f64),
                stream: setup.calls.stream,
                turns: Turns::Drawn,
                retransmission: setup.calls.retransmission,
                ..setup.phones(second, number, entrance)
            });
            phones.map(|phones| world.add_phones(phones)).collect()
        }
        Some(second) if second.duty == Duty::LookUp => {
            let id = world.add_phones(setup.phones(second, 0, setup.entrances()[0]));
            let lasting = f64::from(second.users) / FIRST_REGISTERS_PER_S;
            world.run_until(Duration::from_secs_f64(lasting + 1.0), &mut ());
            vec![id]
        }
        _ => Vec::new(),
    }
}

impl Second {
    /// The nodes as the edges know them.
    pub(crate) fn pool_servers(&self) -> Vec<PoolServer> {
        let server = |number| PoolServer {
            transport: Transport::Udp,
            address: node_address(number),
            host: None,
            capacity: 1.0,
            cluster: (!self.is_shared).then(|| name(number).into()),
            priority: 0,
        };
        (0..self.nodes).map(server).collect()
    }

    /// The share of the users that each node has, if they are hashed to it and no bound moves them; an
    /// equal share if not.
    fn shares(&self, is_hashed: bool) -> Vec<f64> {
        if !is_hashed {
            return vec![1.0 / self.nodes as f64; self.nodes];
        }
        let pool = self.hashed();
        let mut shares = vec![0.0; self.nodes];
        for user in 0..self.users {
            let scores = pool.scores(Duration::ZERO, format!("user-{user}").as_bytes());
            let score = |node: &usize| scores[*node].1.unwrap_or(f64::INFINITY);
            let home = (0..self.nodes).min_by(|one, other| score(one).total_cmp(&score(other)));
            shares[home.unwrap_or(0)] += 1.0 / f64::from(self.users);
        }
        shares
    }

    /// The nodes without anything open, placed on by the users' hash.
    fn hashed(&self) -> Pool {
        let server = |number| {
            let name = node_address(number).to_string();
            Arc::new(Server::new(ServerId(number as u16), &name, 1.0))
        };
        let servers = (0..self.nodes).map(server).collect();
        let pool = Pool::new(Policy::UserHash, servers, Duration::ZERO);
        if self.is_shared {
            return pool;
        }
        let names: Vec<_> = (0..self.nodes).map(name).collect();
        pool.with_clusters(names.iter().map(String::as_str))
    }
}

impl Setup {
    /// Where calls and REGISTERs go first.
    pub(crate) fn entrances(&self) -> Vec<SocketAddr> {
        match &self.second {
            Some(second) if self.edges == 0 => (0..second.nodes).map(node_address).collect(),
            _ => (0..self.edges).map(edge_address).collect(),
        }
    }

    /// The predicted rate of carried calls or registrations per second, if each stage drops the
    /// load beyond its capacity and each drop loses a call (§5.2 of the paper above). Without a
    /// second stage, the servers take its place.
    #[must_use]
    pub fn predicted_per_s(&self) -> f64 {
        let capacity = self.edge_capacity.map_or(f64::INFINITY, |edge| edge.per_s);
        let passed = match self.edges {
            0 => self.calls.rate,
            edges => self.calls.rate.min(edges as f64 * capacity),
        };
        let Some(second) = &self.second else {
            return passed.min(self.capacity());
        };
        let capacity = second.capacity.map_or(f64::INFINITY, |node| node.per_s);
        let carried = |share: &f64| (share * passed).min(capacity);
        let is_hashed = self.pool.policy == Policy::UserHash && self.edges > 0;
        second.shares(is_hashed).iter().map(carried).sum()
    }

    fn second_node(&self, second: &Second, number: usize) -> Config {
        let (pools, to, state) = match second.duty {
            Duty::Proxy => {
                let pool = config::Pool {
                    name: "phones".to_owned(),
                    policy: Policy::RoundRobin,
                    servers: self.pool_servers(),
                    ..self.pool.clone()
                };
                let to = Destination::Pool(pool.name.clone());
                (vec![pool], to, Mode::Stateless)
            }
            Duty::LookUp | Duty::Register => (Vec::new(), Destination::Registrar, Mode::Stateful),
        };
        let hour = Duration::from_secs(3600);
        Config {
            pools,
            routes: vec![Route::of_all(to, state)],
            registrar: Some(Registrar {
                domains: vec![DOMAIN.to_owned()],
                expires_min: Duration::from_secs(60),
                expires_default: hour,
                expires_max: 2 * hour,
                contacts_max: 10,
                when_full: WhenFull::Refuse,
                algorithms: Vec::new(),
                service_route: Vec::new(),
                removes_dead: true,
                keep_alive: None,
            }),
            ..self.bare_node(name(number), node_address(number))
        }
    }

    /// Each phone's calls go to a server.
    fn phones(&self, second: &Second, number: usize, registrar: SocketAddr) -> PhonesConfig {
        let ip = address(4, number).ip();
        PhonesConfig {
            sockets: (0..SOCKETS).map(|port| (ip, 5060 + port).into()).collect(),
            transport: Transport::Udp,
            contacts: (0..self.servers.len()).map(server_address).collect(),
            registrar,
            domain: DOMAIN.to_owned(),
            accounts: Accounts::open(second.users),
            turns: Turns::Once,
            rate: Rate::Constant(FIRST_REGISTERS_PER_S),
            stream: Stream::Even,
            expires: Duration::from_secs(3600),
            refresh: 0.9,
            retransmission: Retransmission::Rfc3261,
        }
    }
}
