//! `sipyard load` with programs that others wrote, and with the node.

use std::time::Duration;

use serde_json::Value;

use crate::{
    common::load::{Serving, call, load},
    edge::{self, Counts, wait_until_idle},
    kamailio::Kamailio,
    process::{whole_machine, within},
    sipp::{Caller, DEFAULT_CALLER, DEFAULT_SERVER, Server},
};

const CALLS: u64 = 2_000;
const PATIENCE: Duration = Duration::from_secs(60);

fn sum(reports: &[Value], name: &str) -> u64 {
    let numbers = reports.iter().map(|report| report[name].as_u64().unwrap());
    numbers.sum()
}

#[test]
fn sipp_answers_our_callers() {
    let _alone = whole_machine();
    let server = Server::start(DEFAULT_SERVER);
    let output = call(server.address, &["--rate", "400", "--calls", "2000"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let calls: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(calls["carried"], CALLS, "{calls}");
    within(PATIENCE, "SIPp's counts", || server.byes() == CALLS);
    assert_eq!((server.invites(), server.foreign_byes()), (CALLS, 0));
}

#[test]
fn our_servers_answer_sipp() {
    let _alone = whole_machine();
    let servers = Serving::start(&["--service", "INVITE=1ms,BYE=0.5ms", "--law", "exponential"]);
    let rate = ["-r", "400", "-m", "2000"];
    let mut caller = Caller::start(servers.address, DEFAULT_CALLER, &rate);
    caller.outcome(PATIENCE).expect_all(CALLS);
    let reports = servers.end();
    assert_eq!(sum(&reports, "calls"), CALLS);
    assert_eq!(sum(&reports, "ended"), CALLS);
    assert_eq!(sum(&reports, "strangers"), 0);
    let busy = reports[0]["busy"].as_f64().unwrap();
    assert!((0.3..0.7).contains(&busy), "{busy}");
}

#[test]
fn every_habit_goes_through_the_node() {
    let _alone = whole_machine();
    let servers: Vec<_> = (0..3)
        .map(|_| Serving::start(&["--ring", "50ms", "--service", "INVITE=1ms"]))
        .collect();
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    let edge = edge::start("", &addresses);
    let habits = [
        "--rate",
        "300",
        "--calls",
        "2000",
        "--holding",
        "exponential:300ms",
        "--reinvite",
        "10%",
        "--cancel",
        "10%",
        "--ports",
        "4",
    ];
    let output = call(edge.sip(), &habits);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let calls: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(calls["failed"], 0, "{calls}");
    assert!(calls["cancelled"].as_u64().unwrap() > 100, "{calls}");
    wait_until_idle(&edge, Duration::from_secs(5));
    assert_eq!(Counts::of(&edge).event("leaked"), 0);
    let reports: Vec<_> = servers.into_iter().flat_map(Serving::end).collect();
    assert_eq!(sum(&reports, "calls"), CALLS);
    assert_eq!(sum(&reports, "ended"), calls["carried"].as_u64().unwrap());
    assert_eq!((sum(&reports, "strangers"), sum(&reports, "open")), (0, 0));
    assert!(sum(&reports, "reinvites") > 100);
}

#[test]
fn phones_register_at_kamailio_and_are_called() {
    let _alone = whole_machine();
    let servers = Serving::start(&["--ring", "20ms"]);
    let kamailio = Kamailio::start(include_str!("scenarios/registrar.cfg"));
    let (to, contact) = (kamailio.address.to_string(), servers.address.to_string());
    let register = [
        "register", "--to", &to, "--json", "-", "--users", "200", "--rate", "200",
    ];
    let stay = ["--contact", &contact, "--stay"];
    let output = load(&[&register[..], &stay].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let calls = [
        "--users",
        "200",
        "--rate",
        "100",
        "--calls",
        "300",
        "--reinvite",
        "10%",
    ];
    let output = call(kamailio.address, &calls);
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["carried"], 300, "{outcome}");
    let output = load(&register);
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["carried"], 400, "{outcome}");
    let reports = servers.end();
    assert_eq!((sum(&reports, "ended"), sum(&reports, "open")), (300, 0));
}
