//! Servers die, come back, drain, come and go while calls are made.

use std::{net::SocketAddr, time::Duration};

use crate::{
    common::{Edge, PATIENCE},
    edge::{self, Counts, wait_until_idle, within_counts},
    process::{whole_machine, within},
    sipp::{Caller, Server, addresses, scenario},
};

/// Calls that may begin between a look at the counts and what follows it.
const SLACK: u64 = 25;

fn placed(edge: &Edge, server: SocketAddr) -> u64 {
    Counts::of(edge).of_server(server, "placed")
}

/// Waits for so many more calls.
fn await_calls(caller: &Caller, more: u64) {
    let target = caller.created() + more;
    within(PATIENCE * 2, "more calls", || caller.created() >= target);
}

/// Only the calls that a dead server had are lost with it. One that was ringing there has the
/// caller wait; SIPp does so for as long as it is told.
#[test]
fn a_server_dies_and_comes_back() {
    const CALLS: u64 = 5_000;
    let alone = whole_machine();
    let mut servers = Server::start_many(4, &scenario("server"));
    let pool = "probe = { interval = \"500ms\", timeout = \"400ms\" }\nslow_start = \"1s\"";
    let edge = edge::start(pool, &addresses(&servers));
    let load = [
        "-r",
        "400",
        "-m",
        "5000",
        "-d",
        "1000",
        "-max_non_invite_retrans",
        "3",
        "-recv_timeout",
        "8000",
    ];
    let mut caller = Caller::start(edge.sip(), &scenario("caller"), &load);
    await_calls(&caller, 1_200);

    let dead = servers.remove(0);
    let address = dead.address;
    let lost = Counts::of(&edge).of_server(address, "calls") + SLACK;
    dead.kill();
    within_counts(&edge, PATIENCE, "it is down", |counts| {
        counts.state(address) == "down"
    });
    let placed_before = placed(&edge, address);
    await_calls(&caller, 600);
    assert_eq!(placed(&edge, address), placed_before);

    let back = Server::start_at(address, &scenario("server"));
    within_counts(&edge, PATIENCE, "it gets calls again", |counts| {
        counts.of_server(address, "placed") >= placed_before + 50
    });
    let outcome = caller.outcome(Duration::from_secs(60));
    drop(alone);
    assert!(outcome.failed <= lost, "{outcome:?}, {lost} may be lost");
    assert_eq!(outcome.successful + outcome.failed, CALLS);
    assert!(servers.iter().all(|server| server.foreign_byes() == 0));
    assert!(back.invites() >= 50);
    // The BYEs that the dead server left without an answer end after 64*T1.
    wait_until_idle(&edge, Duration::from_secs(45));
}

/// What an operator does to servers costs no call.
#[test]
fn operators_change_servers_under_load() {
    const CALLS: u64 = 5_000;
    const POOL: &str = "policy = \"cjsq\"\nslow_start = \"0s\"";
    let _alone = whole_machine();
    let servers = Server::start_many(5, &scenario("server"));
    let all = addresses(&servers);
    let edge = edge::start(POOL, &all[..4]);
    let ctl = |arguments: &[&str]| {
        let (code, said, error) = edge.ctl(arguments);
        assert_eq!(code, Some(0), "{said}{error}");
    };
    let load = ["-r", "400", "-m", "5000", "-d", "500"];
    let mut caller = Caller::start(edge.sip(), &scenario("caller"), &load);
    await_calls(&caller, 400);

    let drained = all[0];
    ctl(&["drain", &drained.to_string()]);
    let placed_before = placed(&edge, drained);
    within_counts(&edge, PATIENCE, "it has drained", |counts| {
        counts.of_server(drained, "calls") == 0
    });
    await_calls(&caller, 400);
    assert_eq!(placed(&edge, drained), placed_before);
    ctl(&["undrain", &drained.to_string()]);
    within_counts(&edge, PATIENCE, "it gets calls again", |counts| {
        counts.of_server(drained, "placed") >= placed_before + 50
    });

    let heavy = all[1];
    ctl(&["weight", &heavy.to_string(), "4"]);
    await_calls(&caller, 200);
    let placed_before = placed(&edge, heavy);
    await_calls(&caller, 700);
    let share = (placed(&edge, heavy) - placed_before) as f64 / 700.0;
    assert!((0.45..0.7).contains(&share), "4 of 7 parts, had {share}");

    let (gone, new) = (&servers[2], all[4]);
    edge::configure(&edge.settings, POOL, &[all[0], all[1], all[3], new]);
    ctl(&["reload"]);
    within_counts(&edge, PATIENCE, "the new server gets calls", |counts| {
        counts.of_server(new, "placed") >= 100
    });
    within(PATIENCE, "the last BYE of the server that went", || {
        gone.byes() == gone.invites()
    });
    let invites_before = gone.invites();
    await_calls(&caller, 400);
    assert_eq!(gone.invites(), invites_before);

    assert_eq!(caller.failed(), 0);
    caller.outcome(Duration::from_secs(60)).expect_all(CALLS);
    wait_until_idle(&edge, PATIENCE);
    within(PATIENCE, "all BYEs at the servers", || {
        servers
            .iter()
            .all(|server| server.byes() == server.invites())
    });
    assert!(servers.iter().all(|server| server.foreign_byes() == 0));
}
