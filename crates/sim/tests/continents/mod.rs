//! Sites with edges, registrars and a store each; their users, who call each other.

use std::{net::SocketAddr, time::Duration};

use balance::Policy;
use load::{
    Accounts, Arrivals, CallerConfig, Law, PhonesConfig, Rate, Retransmission, ServerConfig, Stats,
    Stream, Turns,
};
use location::{Aor, Subscriber};
use node::{
    Config, Record, Transport,
    config::{Destination, Mode, Pool, PoolServer, Probe, Registrar, Route, WhenFull},
};
use sim::{
    Death, Link, Machine, Pace, PartyId, Store, Watch, World, edge_address, node_address,
    server_address,
};
use sip::digest::{Algorithm, Ha1};

use crate::common::{s, setup};

pub(crate) const SITES: usize = 3;
/// The one that is lost.
pub(crate) const EUROPE: usize = 1;
const OF_A_SITE: usize = 2;
/// Of a site's store, as docs/scale.md plans it.
const SHARDS: usize = 3;
/// Edges of all sites, and as many registrars.
pub(crate) const NODES: usize = SITES * OF_A_SITE;

/// What experiments/scale/hundred-million.toml says.
const SHARES: [f64; SITES] = [0.35, 0.3, 0.35];
const USERS: f64 = 1e8;
const CALLS_PER_S: f64 = 40_000.0;
const BETWEEN_SITES: f64 = 0.15;
const RETURN_WITHIN_S: f64 = 300.0;
/// Phones that have a connection, and so notice the loss.
const CONNECTED: f64 = 0.6;
const REGISTER_EVERY_S: f64 = 2_571.0;

/// Calls are shorter than the file's, so that a run has their ends.
const HOLDING: Duration = Duration::from_secs(20);
/// When callers reach another site.
const MOVED_AFTER_S: u64 = 10;
/// Phones wait for 15 to 30 s (RFC 5626 §4.5).
const FIRST_BACK_S: u64 = 15;
const LAST_BACK_S: u64 = 30;
const MESSAGES_OF_A_CALL: f64 = 6.0;
/// Two REGISTERs and their answers.
const MESSAGES_OF_A_LOGIN: f64 = 4.0;
/// Before anything is measured, all phones log in, and processors are so much faster.
const FIRST_LOGINS_S: f64 = 60.0;
const FAST: f64 = 100.0;
const PASSWORD: &str = "secret of {user}";
/// Phones behind one address.
const BEHIND_ONE: u32 = 10;

/// Callers of one site who call users of another, over one edge.
struct Callers {
    id: PartyId,
    pair: [usize; 2],
    rate: f64,
    /// They come when Europe is gone.
    is_refugee: bool,
}

pub(crate) struct Continents {
    pub(crate) world: World,
    pub(crate) edges: Vec<PartyId>,
    pub(crate) registrars: Vec<PartyId>,
    pub(crate) servers: Vec<PartyId>,
    stores: Vec<Store>,
    callers: Vec<Callers>,
    phones: Vec<PartyId>,
    /// Phones of Europe, as they come to the other sites.
    returning: Vec<(PartyId, u32)>,
    /// Phones that refresh.
    refreshing: Vec<(PartyId, usize)>,
}

impl Continents {
    /// A part of the world, one in `scale` of its users and calls, at the time when all phones have registered.
    /// Processors have `spare` times what the aim to be back in time asks for.
    pub(crate) fn new(scale: u32, spare: f64, seed: u64) -> Self {
        let mut world = World::new(seed, Link::clean(Duration::from_millis(10)));
        let server = |site| ServerConfig::prompt(server_address(site));
        let servers = (0..SITES)
            .map(|site| world.add_server(server(site)))
            .collect();
        let stores: Vec<Store> = (0..SITES).map(|_| Store::default()).collect();
        for (store, site) in stores
            .iter()
            .flat_map(|it| (0..SITES).map(move |site| (it, site)))
        {
            (0..users(site, scale)).for_each(|number| subscribe(store, site, number));
        }
        let pace = pace(scale, spare);
        let mut add = |kind, number: usize, config| {
            let machine = Machine {
                pace: Some(pace),
                store: stores[number / OF_A_SITE].clone(),
                ..Machine::default()
            };
            world.add_node(kind, config, 1, machine).unwrap()
        };
        let registrars = (0..NODES).map(|it| add("registrar", it, registrar(it, scale)));
        let registrars = registrars.collect();
        let edges = (0..NODES)
            .map(|it| add("edge", it, edge(it, scale)))
            .collect();
        let mut made = Self {
            world,
            edges,
            registrars,
            servers,
            stores,
            callers: Vec::new(),
            phones: Vec::new(),
            returning: Vec::new(),
            refreshing: Vec::new(),
        };
        made.far_apart();
        made.set_speed(FAST / spare);
        made.log_in(scale);
        made.add_callers(scale);
        made.set_speed(1.0);
        made
    }

    fn set_speed(&mut self, speed: f64) {
        for id in self.nodes() {
            self.world.edge_mut(id).set_speed(speed);
        }
    }

    /// What is between sites takes 40 ms, and what is inside one half of one.
    fn far_apart(&mut self) {
        let nodes: Vec<PartyId> = self.nodes().collect();
        let site = |index: usize| index % NODES / OF_A_SITE;
        for (one, &from) in nodes.iter().enumerate() {
            for (other, &to) in nodes.iter().enumerate() {
                let ms = if site(one) == site(other) { 0.5 } else { 40.0 };
                let latency = Law::Constant(Duration::from_secs_f64(ms / 1e3));
                self.world.network_mut().link_mut(from, to).latency = latency;
            }
        }
    }

    /// Edges, then registrars.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = PartyId> + use<> {
        let all: Vec<_> = self.edges.iter().chain(&self.registrars).copied().collect();
        all.into_iter()
    }

    fn log_in(&mut self, scale: u32) {
        for site in 0..SITES {
            let number = users(site, scale);
            let of_site = |at: usize, turns, rate| {
                phones_of(
                    site,
                    number,
                    edge_address(site * OF_A_SITE),
                    at,
                    turns,
                    rate,
                )
            };
            let rate = f64::from(number) / FIRST_LOGINS_S;
            let id = self.world.add_phones(of_site(site, Turns::Once, rate));
            self.phones.push(id);
        }
        // They log in over one edge of two, so give them time.
        let all: usize = (0..SITES).map(|site| users(site, scale) as usize).sum();
        let registered = |made: &Self| {
            let counts = made
                .phones
                .iter()
                .map(|&id| made.world.phones(id).registered());
            counts.sum::<usize>()
        };
        for _ in 0..100 {
            self.world.run_until(self.world.now() + s(10), &mut ());
            if registered(self) == all {
                break;
            }
        }
        let count = registered(self);
        let failed = self
            .phones
            .iter()
            .map(|&id| self.world.phones(id).stats().failed.clone());
        assert_eq!(count, all, "{:?}", failed.collect::<Vec<_>>());
        self.add_phones(scale);
    }

    /// Phones that refresh from now on, and those that will come to other sites.
    fn add_phones(&mut self, scale: u32) {
        for site in 0..SITES {
            let number = users(site, scale);
            let rate = f64::from(number) / REGISTER_EVERY_S;
            let (at, edge) = (SITES + site, edge_address(site * OF_A_SITE + 1));
            let phones = phones_of(site, number, edge, at, Turns::Drawn, rate);
            self.refreshing.push((self.world.add_phones(phones), site));
        }
        let connected = (f64::from(users(EUROPE, scale)) * CONNECTED) as u32;
        let edges = (0..NODES).filter(|edge| edge / OF_A_SITE != EUROPE);
        let parts = (NODES - OF_A_SITE) as u32;
        for (part, edge) in edges.enumerate() {
            let number = connected / parts;
            let first = part as u32 * number;
            let accounts = (first..first + number).map(|number| {
                let user = user(number);
                let password = PASSWORD.replace("{user}", &user);
                load::Account { user, password }
            });
            let phones = PhonesConfig {
                accounts: Accounts::Listed(accounts.collect()),
                ..phones_of(
                    EUROPE,
                    number,
                    edge_address(edge),
                    2 * SITES + part,
                    Turns::Once,
                    1e-9,
                )
            };
            self.returning.push((self.world.add_phones(phones), number));
        }
    }

    fn add_callers(&mut self, scale: u32) {
        for (from, to, edge) in
            (0..NODES).flat_map(|edge| (0..SITES).map(move |to| (edge / OF_A_SITE, to, edge)))
        {
            let rate = calls_per_s(from, to, scale) / OF_A_SITE as f64;
            self.add_caller([from, to], edge, rate, scale, false);
        }
        // They are divided as the plan divides them: America and Asia are equal.
        let others = (0..NODES).filter(|edge| edge / OF_A_SITE != EUROPE);
        for (edge, to) in others.flat_map(|edge| (0..SITES).map(move |to| (edge, to))) {
            let rate = calls_per_s(EUROPE, to, scale) / (NODES - OF_A_SITE) as f64;
            self.add_caller([EUROPE, to], edge, rate, scale, true);
        }
    }

    fn add_caller(&mut self, pair: [usize; 2], edge: usize, rate: f64, scale: u32, later: bool) {
        let number = self.callers.len() as u8;
        let sockets = (0..16).map(|port| ([198, 51, 100, number], 5060 + port).into());
        let arrivals = match later {
            true => Arrivals::Window(0),
            false => Arrivals::poisson(rate),
        };
        let users = match pair[1] {
            // Phones without a connection notice nothing until they register again.
            EUROPE => (f64::from(users(EUROPE, scale)) * CONNECTED) as u32,
            site => users(site, scale),
        };
        let config = CallerConfig {
            domain: domain(pair[1]),
            users: users / 4 * 4,
            holding: Law::Exponential(HOLDING),
            retransmission: Retransmission::Rfc3261,
            ..CallerConfig::plain(sockets.collect(), edge_address(edge), arrivals)
        };
        let id = self.world.add_caller(config);
        self.callers.push(Callers {
            id,
            pair,
            rate,
            is_refugee: later,
        });
    }

    /// Kills all nodes of Europe. Its users are gone until they come to another site.
    pub(crate) fn lose_europe(&mut self) {
        let now = self.world.now();
        for number in EUROPE * OF_A_SITE..(EUROPE + 1) * OF_A_SITE {
            for id in [self.edges[number], self.registrars[number]] {
                self.world.crash(id, Death::Machine, &mut ());
            }
        }
        for &(id, site) in &self.refreshing {
            if site == EUROPE {
                self.world
                    .phones_mut(id)
                    .set_rate(now, Rate::Constant(1e-9));
            }
        }
    }

    /// Loses one of three shards of a site's store for so long.
    pub(crate) fn lose_shard(&mut self, site: usize, time: Duration) {
        self.stores[site].lose_shard(SHARDS, self.world.now() + time);
    }

    /// What people do so many seconds after the loss.
    pub(crate) fn go_on(&mut self, after_s: u64) {
        let now = self.world.now();
        if after_s == MOVED_AFTER_S {
            for callers in &self.callers {
                let arrivals = match (callers.is_refugee, callers.pair[0]) {
                    (true, _) => Arrivals::poisson(callers.rate),
                    (false, EUROPE) => Arrivals::Window(0),
                    _ => continue,
                };
                self.world
                    .caller_mut(callers.id)
                    .set_arrivals(now, arrivals);
            }
        }
        if after_s == FIRST_BACK_S {
            let within = (LAST_BACK_S - FIRST_BACK_S) as f64;
            for &(id, number) in &self.returning {
                let rate = Rate::Constant(f64::from(number) / within);
                self.world.phones_mut(id).set_rate(now, rate);
            }
        }
    }

    /// No new calls begin.
    pub(crate) fn hold_off(&mut self) {
        let now = self.world.now();
        for callers in &self.callers {
            let caller = self.world.caller_mut(callers.id);
            caller.set_arrivals(now, Arrivals::Window(0));
        }
    }

    /// Stops an edge or a registrar. Its host says so to those who send there.
    pub(crate) fn stop(&mut self, node: usize) {
        let id = self.nodes().nth(node).unwrap();
        self.world.crash(id, Death::Process, &mut ());
    }

    /// Starts it again, with nothing in its memory.
    pub(crate) fn start(&mut self, node: usize) {
        let id = self.nodes().nth(node).unwrap();
        self.world.restart(id, &mut ()).unwrap();
    }

    /// Runs so long; what callers have counted, with the sites of the caller and the user.
    pub(crate) fn run(&mut self, time: Duration) -> Vec<([usize; 2], Stats)> {
        self.world.run_until(self.world.now() + time, &mut ());
        let callers = self.callers.iter();
        let taken = callers.map(|callers| {
            let stats = self.world.caller_mut(callers.id).stats_mut().take();
            (callers.pair, stats)
        });
        taken.collect()
    }

    /// Runs so long; how many calls and REGISTERs began.
    pub(crate) fn count(&mut self, time: Duration, watch: &mut impl Watch) -> (u64, u64) {
        let end = self.world.now() + time;
        self.world.run_until(end, watch);
        let offered = self.run(Duration::ZERO).iter().map(|it| it.1.offered).sum();
        let refreshed = self.take_refreshed();
        let registers = refreshed.iter().map(|it| it.offered + it.challenges);
        (offered, registers.sum())
    }

    /// What phones that refresh have counted since this was called last, by site.
    pub(crate) fn take_refreshed(&mut self) -> Vec<Stats> {
        let refreshing = self.refreshing.iter();
        let taken = refreshing.map(|&(id, _)| self.world.phones_mut(id).stats_mut().take());
        taken.collect()
    }

    /// Phones of Europe that have come to another site.
    pub(crate) fn back(&self) -> usize {
        let counts = self
            .returning
            .iter()
            .map(|&(id, _)| self.world.phones(id).registered());
        counts.sum()
    }

    /// How many will come.
    pub(crate) fn returning(&self) -> usize {
        self.returning
            .iter()
            .map(|&(_, number)| number as usize)
            .sum()
    }
}

fn users(site: usize, scale: u32) -> u32 {
    (USERS * SHARES[site] / f64::from(scale)) as u32
}

fn calls_per_s(from: usize, to: usize, scale: u32) -> f64 {
    let share = match from == to {
        true => 1.0 - BETWEEN_SITES,
        false => BETWEEN_SITES * SHARES[to] / (1.0 - SHARES[from]),
    };
    CALLS_PER_S / f64::from(scale) * SHARES[from] * share
}

/// Each of two nodes of a site has half of what calls and logins ask for while Europe is lost, if its phones shall be
/// back in time.
fn pace(scale: u32, spare: f64) -> Pace {
    let part = SHARES[EUROPE] / 2.0;
    let calls = CALLS_PER_S * (SHARES[0] + part) * MESSAGES_OF_A_CALL;
    let logins = USERS * part * CONNECTED * MESSAGES_OF_A_LOGIN / RETURN_WITHIN_S;
    let refreshes = USERS * (SHARES[0] + part) * MESSAGES_OF_A_LOGIN / REGISTER_EVERY_S;
    let messages = spare * (calls + logins + refreshes) / f64::from(scale) / OF_A_SITE as f64;
    let serve = Duration::from_secs_f64(1.0 / messages);
    Pace::of(serve)
}

fn domain(site: usize) -> String {
    ["america", "europe", "asia"][site].to_owned() + ".example"
}

fn user(number: u32) -> String {
    format!("user-{number}")
}

fn limits(config: &mut Config, scale: u32) {
    let calls = CALLS_PER_S / f64::from(scale);
    config.limits.sessions = (calls * 120.0) as usize + 10_000;
    config.limits.transactions = (calls * 40.0) as usize + 10_000;
    config.limits.held_transactions = (calls * 200.0) as usize + 65_536;
    config.limits.registrations = 65_536;
    config.limits.strangers = 65_536;
}

/// An edge sends a user's requests to the registrars of the user's home; if there is none, to those of all other sites.
fn edge(number: usize, scale: u32) -> Config {
    let setup = setup();
    let pool = |home: usize| Pool {
        name: format!("home-{home}"),
        policy: Policy::UserHash,
        costs: Vec::new(),
        servers: (0..NODES).map(|number| server(number, home)).collect(),
        probe: Some(Probe {
            interval: s(2),
            timeout: s(1),
            fall: 2,
            rise: 2,
        }),
        answer_timeout: s(2),
        overload_control: true,
        ..setup.pool.clone()
    };
    let route = |home: usize| Route {
        hosts: vec![domain(home)],
        ..Route::of_all(Destination::Pool(format!("home-{home}")), Mode::Stateless)
    };
    let mut config = setup.node(0);
    config.name = format!("edge-{number}");
    config.pools = (0..SITES).map(pool).collect();
    config.routes = (0..SITES).map(route).collect();
    listen(&mut config, edge_address(number));
    limits(&mut config, scale);
    config
}

fn server(number: usize, home: usize) -> PoolServer {
    let site = number / OF_A_SITE;
    PoolServer {
        transport: Transport::Udp,
        address: node_address(number),
        host: None,
        capacity: 1.0,
        cluster: Some(domain(site).into()),
        priority: u16::from(site != home),
    }
}

fn registrar(number: usize, scale: u32) -> Config {
    let mut config = setup().node(0);
    config.name = format!("registrar-{number}");
    config.pools = Vec::new();
    config.routes = vec![Route::of_all(Destination::Registrar, Mode::Stateful)];
    config.registrar = Some(Registrar {
        domains: (0..SITES).map(domain).collect(),
        expires_min: s(60),
        expires_default: s(3_600),
        expires_max: s(7_200),
        contacts_max: 10,
        when_full: WhenFull::Refuse,
        algorithms: vec![Algorithm::Md5],
        service_route: Vec::new(),
        removes_dead: true,
        keep_alive: None,
    });
    let network = |number| format!("{}/32", edge_address(number).ip());
    config.trust.peers = (0..NODES).map(|it| network(it).parse().unwrap()).collect();
    listen(&mut config, node_address(number));
    limits(&mut config, scale);
    config
}

fn listen(config: &mut Config, address: SocketAddr) {
    config.listeners[0].address = address;
    config.listeners[0].advertise = address.to_string();
}

fn subscribe(store: &Store, site: usize, number: u32) {
    let (user, domain) = (user(number), domain(site));
    let aor = Aor::new(&user, &domain).unwrap();
    let password = PASSWORD.replace("{user}", &user);
    let hash = Ha1::new(
        Algorithm::Md5,
        user.as_bytes(),
        domain.as_bytes(),
        password.as_bytes(),
    );
    let Ha1::Md5(hash) = hash else { panic!() };
    let key = Subscriber::key_of(&aor);
    let subscriber = Subscriber {
        aor,
        ha1_md5: Some(hash),
        ha1_sha256: None,
    };
    let record = Record {
        value: subscriber.write().into(),
        expires: None,
    };
    store.insert(&key, record);
}

/// Phones of a site, at an address of their own for each `place`.
fn phones_of(
    site: usize,
    users: u32,
    registrar: SocketAddr,
    place: usize,
    turns: Turns,
    rate: f64,
) -> PhonesConfig {
    let socket = |number: u32| {
        // Private, as the contacts are: they are not behind a NAT.
        let [_, more, high, low] = number.to_be_bytes();
        SocketAddr::from(([10, 100 + place as u8, high, low], 5060 + u16::from(more)))
    };
    PhonesConfig {
        contacts: vec![server_address(site)],
        sockets: (0..users.div_ceil(BEHIND_ONE)).map(socket).collect(),
        transport: Transport::Udp,
        registrar,
        domain: domain(site),
        accounts: Accounts::Numbered {
            users,
            password: Some(PASSWORD.to_owned()),
        },
        turns,
        rate: Rate::Constant(rate),
        stream: Stream::Even,
        expires: s(3_600),
        refresh: 0.9,
        retransmission: Retransmission::Rfc3261,
    }
}
