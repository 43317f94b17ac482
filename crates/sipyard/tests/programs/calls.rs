//! Calls of SIPp: none is lost, and each server gets its share.

use std::time::Duration;

use crate::{
    common::Edge,
    edge::{self, Counts, wait_until_idle},
    process::{whole_machine, within},
    sipp::{Caller, DEFAULT_CALLER, DEFAULT_SERVER, Outcome, Server, addresses, scenario},
};

const PATIENCE: Duration = Duration::from_secs(90);
const SERVERS: usize = 4;

/// What came out of a run: the node, its servers, and the caller's view.
struct Run {
    edge: Edge,
    servers: Vec<Server>,
    /// Ended; what it wrote is shown if the test fails.
    #[expect(dead_code, reason = "kept for its log")]
    caller: Caller,
    outcome: Outcome,
}

impl Run {
    fn of<S: AsRef<str>>(pool: &str, server: &[S], caller: &[S], load: &[&str]) -> Self {
        let _alone = whole_machine();
        let servers = Server::start_many(SERVERS, server);
        let edge = edge::start(pool, &addresses(&servers));
        let mut caller = Caller::start(edge.sip(), caller, load);
        let outcome = caller.outcome(PATIENCE);
        Self {
            edge,
            servers,
            caller,
            outcome,
        }
    }

    /// All `calls` were carried and counted, and each server had its share but for `spread`.
    fn check(&self, calls: u64, spread: f64) {
        self.outcome.expect_all(calls);
        wait_until_idle(&self.edge, Duration::from_secs(5));
        within(Duration::from_secs(5), "all BYEs at the servers", || {
            self.servers.iter().map(Server::byes).sum::<u64>() == calls
        });
        let counts = Counts::of(&self.edge);
        let share = calls as f64 / SERVERS as f64;
        for server in &self.servers {
            let placed = counts.of_server(server.address, "placed");
            assert_eq!((server.invites(), server.byes()), (placed, placed));
            let off = (placed as f64 - share).abs() / share;
            assert!(off <= spread, "a server had {placed} of {calls} calls");
        }
        assert_eq!(counts.event("leaked"), 0);
        assert_eq!(counts.event("forged_token"), 0);
    }
}

/// Idle servers tie, and ties are drawn: the bound is five standard deviations of 20,000 draws.
#[test]
fn callers_that_follow_no_route_set() {
    // On a machine that stands still for T1 callers send an INVITE again, at which SIPp's server drops the call.
    let load = ["-r", "800", "-m", "20000", "-nr"];
    let run = Run::of("probe = false", DEFAULT_SERVER, DEFAULT_CALLER, &load);
    run.check(20_000, 0.061);
}

#[test]
fn callers_that_follow_the_route_set() {
    let load = ["-r", "800", "-m", "5000", "-d", "500"];
    let run = Run::of(
        "policy = \"cjsq\"",
        &scenario("server"),
        &scenario("caller"),
        &load,
    );
    run.check(5_000, 0.02);
    assert_eq!(run.servers.iter().map(Server::foreign_byes).sum::<u64>(), 0);
}
