//! Nodes with a registrar and a server for calls, phones that log in, and callers.

use std::{net::SocketAddr, time::Duration};

use load::{
    Accounts, Arrivals, CallerConfig, Law, PhonesConfig, Rate, Retransmission, ServerConfig, Stats,
    Stream, Turns,
};
use location::{Aor, Subscriber};
use node::{
    Config, Record,
    config::{Destination, Mode, Registrar, Route, WhenFull},
};
use sim::{Link, Machine, Pace, PartyId, Store, World, edge_address, server_address};
use sip::digest::{Algorithm, Ha1};

use crate::common::{s, setup};

/// A login takes two REGISTERs, so the node carries 5,000 a second, or 1,666 calls.
#[allow(dead_code, reason = "each test needs a part")]
pub(crate) const PACE: Pace = Pace::of(Duration::from_micros(100));

const DOMAIN: &str = "example.com";
const PASSWORD: &str = "secret of {user}";
/// Phones behind one address.
const BEHIND_ONE: u32 = 10;

#[allow(dead_code, reason = "each test needs a part")]
pub(crate) struct Site {
    pub(crate) world: World,
    pub(crate) nodes: Vec<PartyId>,
    pub(crate) store: Store,
    pub(crate) phones: PartyId,
    pub(crate) callers: Vec<PartyId>,
}

#[allow(dead_code, reason = "each test needs a part")]
impl Site {
    pub(crate) fn new(pace: Pace, seed: u64, phones: u32) -> Self {
        Self::of(1, pace, seed, phones)
    }

    /// So many nodes with one store. The phones use the first one.
    pub(crate) fn of(nodes: usize, pace: Pace, seed: u64, phones: u32) -> Self {
        let mut world = World::new(seed, Link::clean(Duration::from_millis(1)));
        world.add_server(ServerConfig::prompt(server_address(0)));
        let mut setup = setup();
        setup.servers.truncate(1);
        setup.pool.learn_room = pace.tells_overload;
        let store = Store::default();
        (0..phones).for_each(|number| subscribe(&store, number));
        let machine = Machine {
            pace: Some(pace),
            store: store.clone(),
            ..Machine::default()
        };
        let add = |number| {
            let config = with_registrar(setup.node(number));
            let machine = machine.clone();
            world.add_node("edge", config, 1, machine).unwrap()
        };
        let nodes = (0..nodes).map(add).collect();
        let phones = world.add_phones(phones_of(phones));
        Self {
            world,
            nodes,
            store,
            phones,
            callers: Vec::new(),
        }
    }

    /// Callers who offer so many calls a second, for so long.
    pub(crate) fn call(&mut self, rate: f64, time: Duration) {
        let calls_max = (rate * time.as_secs_f64()) as u64;
        self.call_at(0, Arrivals::poisson(rate), calls_max);
    }

    /// The same at another node. Returns their index.
    pub(crate) fn call_at(&mut self, node: usize, arrivals: Arrivals, calls_max: u64) -> usize {
        let number = self.callers.len() as u8;
        let sockets = (0..16).map(|port| ([198, 51, 100, number], 5060 + port).into());
        let config = CallerConfig {
            calls_max,
            holding: Law::ZERO,
            retransmission: Retransmission::Rfc3261,
            ..CallerConfig::plain(sockets.collect(), edge_address(node), arrivals)
        };
        self.callers.push(self.world.add_caller(config));
        self.callers.len() - 1
    }

    /// Lets phones come up at a rate.
    pub(crate) fn register(&mut self, rate: f64) {
        let now = self.world.now();
        let phones = self.world.phones_mut(self.phones);
        phones.set_rate(now, Rate::Constant(rate));
    }

    pub(crate) fn registered(&self) -> usize {
        self.world.phones(self.phones).registered()
    }

    /// What callers have counted in so long.
    pub(crate) fn run(&mut self, time: Duration) -> Stats {
        self.world.run_until(self.world.now() + time, &mut ());
        let mut all = Stats::default();
        for &caller in &self.callers {
            all.add(&self.world.caller_mut(caller).stats_mut().take());
        }
        all
    }
}

fn with_registrar(mut config: Config) -> Config {
    config.limits.sessions = 1 << 20;
    config.limits.transactions = 1 << 20;
    config.limits.registrations = 10_000;
    let mut route = Route::of_all(Destination::Registrar, Mode::Stateful);
    route.methods = vec!["REGISTER".to_owned()];
    config.routes.insert(0, route);
    config.registrar = Some(Registrar {
        domains: vec![DOMAIN.to_owned()],
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
    config
}

fn user(number: u32) -> String {
    format!("user-{number}")
}

fn subscribe(store: &Store, number: u32) {
    let user = user(number);
    let aor = Aor::new(&user, DOMAIN).unwrap();
    let password = PASSWORD.replace("{user}", &user);
    let hash = Ha1::new(
        Algorithm::Md5,
        user.as_bytes(),
        DOMAIN.as_bytes(),
        password.as_bytes(),
    );
    let Ha1::Md5(hash) = hash else { panic!() };
    let key = Subscriber::key_of(&aor);
    let subscriber = Subscriber {
        aor,
        ha1_md5: Some(hash),
        ha1_sha256: None,
    };
    let value = subscriber.write().into();
    store.insert(
        &key,
        Record {
            value,
            expires: None,
        },
    );
}

fn phones_of(users: u32) -> PhonesConfig {
    let socket = |number: u32| {
        let [_, _, high, low] = number.to_be_bytes();
        SocketAddr::from(([203, 0, high, low], 5060))
    };
    let sockets: Vec<_> = (0..users.div_ceil(BEHIND_ONE)).map(socket).collect();
    PhonesConfig {
        contacts: vec![server_address(0)],
        sockets,
        transport: load::Transport::Udp,
        registrar: edge_address(0),
        domain: DOMAIN.to_owned(),
        accounts: Accounts::Numbered {
            users,
            password: Some(PASSWORD.to_owned()),
        },
        turns: Turns::Once,
        rate: Rate::Constant(1e-9),
        stream: Stream::Even,
        expires: s(3_600),
        refresh: 0.9,
        retransmission: Retransmission::Rfc3261,
    }
}
