//! Tables that were computed by hand.

use super::*;
use design::{Aims, Connection, Costs, Demand, Design, Machine, Site, Store, Transport};

#[track_caller]
fn near(value: f64, expected: f64) {
    assert!(
        (value - expected).abs() <= 1e-9 * expected.abs().max(1.0),
        "{value} is not {expected}"
    );
}

fn costs() -> Costs {
    Costs {
        edge_call_us: 50.0,
        edge_register_us: 10.0,
        registrar_call_us: 100.0,
        registrar_register_us: 40.0,
        registrar_news_us: 100.0,
        store_change_us: 100.0,
        store_news_us: 10.0,
        store_bus_us: 50.0,
        store_look_up_us: 20.0,
        call_bytes: 250.0,
        binding_bytes: 400.0,
        subscriber_bytes: 200.0,
        cached_bytes: 500.0,
        call_wire_bytes: 5_000.0,
        register_wire_bytes: 1_000.0,
    }
}

/// Two sites of 600,000 and 400,000 users, half of them over TLS, with round costs.
fn two() -> Design {
    let transport = |name: &str, keep_alive_every_s, connection| Transport {
        name: name.to_owned(),
        share: 0.5,
        register_every_s: 1_000.0,
        keep_alive_every_s,
        keep_alive_us: 10.0,
        keep_alive_bytes: 100.0,
        connection,
    };
    let connection = Connection {
        bytes: 10_000.0,
        handshake_us: 280.0,
    };
    let site = |name: &str, share| Site {
        name: name.to_owned(),
        share,
    };
    let machine = |connections_max| Machine {
        cores: 2.0,
        memory_gib: 8.0,
        connections_max,
        spare: 1.0,
    };
    Design {
        title: String::new(),
        demand: Demand {
            users: 1e6,
            calls_per_s: 1_000.0,
            holding_s: 100.0,
            between_sites: 0.25,
            away: 0.1,
            challenged: 0.5,
        },
        transports: vec![
            transport("udp", 25.0, None),
            transport("tls", 100.0, Some(connection)),
        ],
        sites: vec![site("one", 0.6), site("two", 0.4)],
        edge: machine(100_000.0),
        registrar: machine(0.0),
        store: Store {
            memory_gib: 1.0,
            replicas: 1.0,
        },
        aims: Aims {
            busy_max: 0.5,
            return_within_s: 100.0,
            round_trip_s: 0.1,
            store_round_trip_s: 0.001,
            link_gbit_per_s: 1.0,
        },
        costs: costs(),
        sources: Vec::new(),
    }
}

#[test]
fn the_load_of_a_site_is_that_of_its_users() {
    let load = two().load(600_000.0);
    near(load.calls_per_s, 600.0);
    near(load.open_calls, 60_000.0);
    // 600,000 in 1,000 s, half of them twice.
    near(load.changes_per_s, 600.0);
    near(load.registers_per_s, 900.0);
    near(load.connections, 300_000.0);
    // 300,000 / 25 s and 300,000 / 100 s, 10 us each.
    near(load.by_transport[0].keep_alives_per_s, 12_000.0);
    near(load.by_transport[1].keep_alives_per_s, 3_000.0);
    // 0.15 for keep-alives, 600 calls through two edges, 900 REGISTERs.
    near(load.edge_cores, 0.15 + 0.06 + 0.009);
    near(load.edge_bytes, 3e9 + 2.0 * 60_000.0 * 250.0);
    near(load.registrar_cores, 0.06 + 0.036);
    near(load.registrar_bytes, 3e8 + 1.5e7);
    near(load.look_ups_per_s, 1_500.0);
    // 1,200 passages of 5,000 bytes, 900 REGISTERs of 1,000, 15,000 keep-alives of 100.
    near(load.access_bits_per_s, 8.0 * (6e6 + 9e5 + 1.5e6));
    // A quarter of the calls and a tenth of the REGISTERs, there and back.
    near(
        load.link_bits_per_s,
        16.0 * (150.0 * 5_000.0 + 90.0 * 1_000.0),
    );
}

#[test]
fn each_site_can_take_over_the_other() {
    let design = two();
    near(design.taken(0, 1), 600_000.0);
    near(design.taken(0, 0), 0.0);
    let sites = design.sized();
    near(sites[0].worst.users, 1e6);
    near(sites[1].worst.users, 1e6);
    // 500,000 connections need five nodes of 100,000; one is spare.
    for site in &sites {
        assert_eq!((site.edges.nodes, site.edges.because), (6.0, "connections"));
    }
    // With all users there are 1,000 changes/s. A single store lets each registrar hear for .1 of a core:
    // (.1 + .06) cores of work on 1 - .1 of each, and 400,000 phones from the one site to the other in 100 s.
    assert_eq!(sites[1].registrars.nodes, 2.0);
}

#[test]
fn shards_hear_of_each_change() {
    let design = two();
    // 1,000 changes/s cost .1 where they are made, 2,000 look-ups .04, two listeners .02.
    near(design.shard_busy(1_000.0, 2_000.0, 1.0, 2.0), 0.16);
    // Each change costs each of four shards .05 as news from another one, but for the one that made it.
    near(
        design.shard_busy(1_000.0, 2_000.0, 4.0, 2.0),
        (0.1 + 0.04 + 0.02 + 0.15) / 4.0,
    );
    // However many shards there are, no store takes more than 20,000 changes/s: users need two.
    let busy = design.shard_busy(20_000.0, 0.0, 1_000.0, 0.0);
    assert!((0.99..1.01).contains(&busy), "{busy}");
    let many = design.times(30.0).sized();
    assert!(many[0].stores.clusters > 1.0);
    assert!(many[0].stores.busy_worst <= design.aims.busy_max);
}

#[test]
fn a_lost_site_comes_back_as_fast_as_the_slowest_stage() {
    let design = two();
    let sites = design.sized();
    let losses = design.losses(&sites);
    let [loss, back] = &losses[..] else {
        panic!("two sites, two losses")
    };
    assert_eq!((&loss.lost[..], &loss.by[..]), ("one", "two"));
    assert_eq!((&back.lost[..], &back.by[..]), ("two", "one"));
    near(loss.users, 600_000.0);
    near(loss.calls_per_s[0], 400.0);
    near(loss.calls_per_s[1], 1_000.0);
    // .365 busy of twelve cores with all users.
    near(loss.edges_busy[1], 0.365 / 12.0);
    // 300,000 phones, a handshake of 280 us and two REGISTERs of 10 us.
    near(loss.phones, 300_000.0);
    near(loss.edges_s, 90.0 / (12.0 - 0.365));
    // Two REGISTERs of 40 us; .16 cores of work and .1 on each of two registrars for news.
    near(loss.registrars_s, 24.0 / (4.0 - 0.16 - 0.2));
    // 6 nodes with 8,192 handshakes of two round trips each.
    near(loss.handshakes_s, 300_000.0 * 0.2 / 49_152.0);
    // 300,000 changes with two look-ups, two listeners, beside 1,000 changes/s and 2,500 look-ups/s.
    near(loss.stores_s, 300_000.0 * 160e-6 / (1.0 - 0.17));
    assert_eq!(loss.limit, "stores");
    near(loss.back_s, loss.stores_s);
}

#[test]
fn limits_come_in_the_order_in_which_growth_meets_them() {
    let design = two();
    let sites = design.sized();
    let of_nodes = design.limits_of_nodes(&sites);
    // Five nodes of 100,000 connections are full.
    assert_eq!(of_nodes[0].what, "edges: connections");
    let at = of_nodes[0].at_times.unwrap();
    assert!((1.0..1.01).contains(&at), "{at}");
    let reached: Vec<f64> = of_nodes.iter().filter_map(|it| it.at_times).collect();
    assert!(reached.is_sorted());
    let of_design = design.limits_of_design();
    // 64 edges of a site are reached with 6.3 million connections: 12.6 times.
    let edges = of_design.iter().find(|it| it.most == 64.0).unwrap();
    let at = edges.at_times.unwrap();
    assert!((12.6..12.65).contains(&at), "{at}");
}

#[test]
fn the_example_is_read_and_answered() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../experiments/scale/hundred-million.toml"
    );
    let design = read::load(file.as_ref()).unwrap();
    assert_eq!(design.demand.users, 1e8);
    let answer = Answer::new(design, 10.0);
    assert!(
        answer
            .summary
            .starts_with("100,000,000 users and 40,000 calls/s need "),
        "{}",
        answer.summary
    );
    for site in &answer.sites {
        assert!(site.stores.busy_worst <= 0.5 && site.edges.nodes > 3.0);
    }
    let aim = answer.design.aims.return_within_s;
    assert!(answer.losses.iter().all(|loss| loss.edges_s <= aim));
    let page = answer.page().html();
    assert!(page.contains("When a site is lost"));
}

#[test]
fn mistakes_have_a_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("design.toml");
    let example = include_str!("../../../../../experiments/scale/hundred-million.toml");
    let cases = [
        ("share = 0.4 ", "share = 0.3 ", "add up to 0.9"),
        ("users = 100_000_000", "users = -1", "out of range"),
        ("link_gbit", "link_gibt", "did you mean `link_gbit`?"),
        ("[site.asia]", "[site.europa]\nlevel = 1", "unknown key"),
        (
            "registrar_news_us",
            "news_us",
            "cost.registrar_news_us is missing",
        ),
    ];
    for (right, wrong, expected) in cases {
        std::fs::write(&file, example.replacen(right, wrong, 1)).unwrap();
        let problems = read::load(&file).unwrap_err();
        let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(
            texts.iter().any(|text| text.contains(expected)),
            "{wrong}: {texts:?}"
        );
    }
}
