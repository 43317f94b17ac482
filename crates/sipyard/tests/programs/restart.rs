//! The node is killed in the middle of calls and started again: no call notices.

use std::{mem, time::Duration};

use crate::{
    common::{Edge, PATIENCE, Settings},
    edge::{self, Counts, wait_until_idle, within_counts},
    process::{whole_machine, within},
    sipp::{Caller, Server, addresses, scenario},
};

/// Kills a node and starts another on the same file.
pub(crate) fn crash_and_start(mut edge: Edge) -> Edge {
    let settings = mem::replace(&mut edge.settings, Settings::new());
    drop(edge);
    settings.start()
}

/// Each server got the BYE of each call that it had, and no other.
fn expect_every_bye_at_its_server(servers: &[Server], calls: u64) {
    within(PATIENCE, "all BYEs at the servers", || {
        servers.iter().map(Server::byes).sum::<u64>() >= calls
    });
    for server in servers {
        assert_eq!(server.byes(), server.invites());
        assert_eq!(server.foreign_byes(), 0);
    }
    assert_eq!(servers.iter().map(Server::invites).sum::<u64>(), calls);
}

/// All calls are open when the node dies. Their re-INVITEs tell its successor of them, and it
/// counts each where its predecessor did, until its BYE.
#[test]
fn counts_are_right_again() {
    const CALLS: u64 = 2_000;
    let _alone = whole_machine();
    let servers = Server::start_many(4, &scenario("server"));
    let edge = edge::start("", &addresses(&servers));
    let load = ["-r", "800", "-m", "2000", "-d", "6000"];
    let mut caller = Caller::start(edge.sip(), &scenario("refreshing_caller"), &load);
    within_counts(&edge, PATIENCE, "all calls open", |counts| {
        counts.calls() == CALLS && counts.transactions() == 0
    });
    let per_server = |counts: &Counts| {
        let calls = servers
            .iter()
            .map(|server| counts.of_server(server.address, "calls"));
        calls.collect::<Vec<_>>()
    };
    let before = per_server(&Counts::of(&edge));

    let edge = crash_and_start(edge);
    let mut rebuilt = 0;
    within_counts(&edge, PATIENCE * 2, "all calls counted again", |counts| {
        let known = before.iter().zip(per_server(counts));
        assert!(known.clone().all(|(before, after)| after <= *before));
        rebuilt = counts.event("rebuilt");
        known.clone().all(|(before, after)| after == *before) && counts.transactions() == 0
    });
    assert_eq!(rebuilt, CALLS);
    let outcome = caller.outcome(Duration::from_secs(60));
    eprintln!("{}", Counts::of(&edge));
    outcome.expect_all(CALLS);
    expect_every_bye_at_its_server(&servers, CALLS);
    wait_until_idle(&edge, PATIENCE);
}

/// Calls begin and end while the node dies. An INVITE whose answer is lost with it comes again and
/// must meet the server that has it: the placement is a function of the Call-ID here.
#[test]
fn a_crash_under_load() {
    const CALLS: u64 = 4_000;
    let _alone = whole_machine();
    let servers = Server::start_many(4, &scenario("server"));
    let edge = edge::start("policy = \"hash\"", &addresses(&servers));
    let load = ["-r", "500", "-m", "4000", "-d", "4000"];
    let mut caller = Caller::start(edge.sip(), &scenario("caller"), &load);
    within(PATIENCE * 2, "calls that begin and end", || {
        caller.created() >= 2_500
    });
    let open = Counts::of(&edge).calls();
    assert!(open >= 1_500, "{open} calls are open");

    let edge = crash_and_start(edge);
    let outcome = caller.outcome(Duration::from_secs(60));
    eprintln!("{}", Counts::of(&edge));
    outcome.expect_all(CALLS);
    expect_every_bye_at_its_server(&servers, CALLS);
    wait_until_idle(&edge, PATIENCE);
    let counts = Counts::of(&edge);
    assert!(counts.event("rebuilt") > 0, "{counts}");
    assert_eq!(counts.event("forged_token"), 0, "{counts}");
}

/// Calls ring when the node dies, and are cancelled through its successor.
#[test]
fn what_rang_is_cancelled() {
    const CALLS: u64 = 50;
    let _alone = whole_machine();
    let servers = Server::start_many(4, &scenario("ringing_server"));
    let pool = "probe = false\nanswer_timeout = \"32s\"";
    let edge = edge::start(pool, &addresses(&servers));
    let load = ["-r", "50", "-m", "50", "-d", "6000"];
    let mut caller = Caller::start(edge.sip(), &scenario("cancelling_caller"), &load);
    let invites = || servers.iter().map(Server::invites).sum::<u64>();
    within(PATIENCE, "all calls ringing", || invites() == CALLS);
    let edge = crash_and_start(edge);
    caller.outcome(Duration::from_secs(60)).expect_all(CALLS);
    within(PATIENCE, "all failures acknowledged", || {
        servers.iter().map(Server::acks).sum::<u64>() == CALLS
    });
    let counts = Counts::of(&edge);
    assert_eq!(counts.event("orphaned_cancels"), CALLS, "{counts}");
    wait_until_idle(&edge, PATIENCE);
}
