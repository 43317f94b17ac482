//! Where new users stumbled: what users of other tools expect of a node and of its commands.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{fs, process::Stdio};

use common::{Edge, Settings, eventually, phones::Phone, phones::reply, sipyard};
use serde_json::Value;

fn edge(pool: &str, node: &str) -> Edge {
    let settings = Settings::new();
    settings.write(pool, "");
    let file = fs::read_to_string(settings.path()).unwrap();
    settings.write_whole(&file.replace("workers = 1", &format!("workers = 1{node}")));
    settings.start()
}

fn pool_of(server: &Phone) -> String {
    let address = server.address();
    format!("servers = [ {{ address = \"{address}\" }} ]\nprobe = false")
}

/// Opens a call, and leaves it open; its route set.
fn open(edge: &Edge, caller: &Phone, server: &Phone, call: &str) -> String {
    caller.send(edge.sip(), &caller.request("INVITE", call, "alice", ""));
    let invite = server.expect("INVITE");
    server.send(edge.sip(), &reply(&invite, "200 OK"));
    let answer = caller.expect("SIP/2.0 200");
    let recorded = answer
        .lines()
        .filter_map(|line| line.strip_prefix("Record-Route:"));
    let routes: Vec<String> = recorded.map(|route| format!("Route:{route}\r\n")).collect();
    let routes = routes.concat();
    caller.send(edge.sip(), &caller.request("ACK", call, "alice", &routes));
    server.expect("ACK");
    routes
}

/// `serve FILE` was refused while `check FILE` worked.
#[test]
fn serve_takes_its_file_as_check_does() {
    let settings = Settings::new();
    settings.write("servers = []", "");
    let output = sipyard()
        .arg("serve")
        .arg("/nowhere/edge.toml")
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("/nowhere/edge.toml"), "{told}");
}

/// `--admin HOST:PORT` was refused, and there was no variable for it.
#[test]
fn ctl_finds_a_node_by_host_and_port_and_by_a_variable() {
    let edge = edge(
        "servers = [ { address = \"127.0.0.1:9\" } ]\nprobe = false",
        "",
    );
    let address = edge.settings.admin.to_string();
    let output = sipyard()
        .args(["ctl", "--admin", &address, "status"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let output = sipyard()
        .args(["ctl", "status"])
        .env("SIPYARD_ADMIN", &address)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let output = sipyard().args(["ctl", "stauts"]).output().unwrap();
    let hint = String::from_utf8(output.stderr).unwrap();
    assert!(hint.contains("'status'"), "{hint}");
    for (wrong, right) in [("stauts", "'ctl status'"), ("capacity", "'plan capacity'")] {
        let output = sipyard().arg(wrong).output().unwrap();
        let hint = String::from_utf8(output.stderr).unwrap();
        assert!(hint.contains(right), "{hint}");
    }
}

/// `check` told programs nothing but its exit code.
#[test]
fn check_reports_as_json() {
    let settings = Settings::new();
    settings.write("servers = [ { adress = \"127.0.0.1:9\" } ]", "");
    let output = sipyard()
        .args(["check", "--json"])
        .arg(settings.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told[0]["is_good"], false);
    let problem = &told[0]["problems"][0];
    assert_eq!(problem["line"], 7, "{problem}");
    assert!(
        problem["message"]
            .as_str()
            .unwrap()
            .contains("`address` is missing"),
        "{problem}"
    );
}

/// `/readyz` was ready while no server took calls.
#[test]
fn a_node_without_a_live_server_is_not_ready() {
    let server = Phone::new();
    let settings = Settings::new();
    let at = server.address();
    settings.write(
        &format!("servers = [ {{ address = \"{at}\" }} ]\nprobe = false"),
        "",
    );
    let edge = settings.start();
    assert_eq!(edge.ask("GET", "/readyz").0, 200);
    assert_eq!(edge.ctl(&["drain", &at.to_string()]).0, Some(0));
    let (status, told) = edge.ask("GET", "/readyz");
    assert_eq!(
        (status, &*told),
        (503, "no server of any pool takes calls\n")
    );
    assert_eq!(edge.ctl(&["undrain", &at.to_string()]).0, Some(0));
    assert_eq!(edge.ask("GET", "/readyz").0, 200);
}

/// `explain` hid why other servers were not chosen.
#[test]
fn explain_tells_why_each_other_server_was_not_chosen() {
    let (caller, one, two) = (Phone::new(), Phone::new(), Phone::new());
    let (first, second) = (one.address(), two.address());
    let pool = format!(
        "servers = [ {{ address = \"{first}\" }}, {{ address = \"{second}\", capacity = 2.0 }} ]\nprobe = false"
    );
    let edge = edge(&pool, "");
    assert_eq!(edge.ctl(&["drain", &first.to_string()]).0, Some(0));
    caller.send(edge.sip(), &caller.request("INVITE", "why", "alice", ""));
    two.expect("INVITE");
    let (_, told, _) = edge.ctl(&["explain", "why"]);
    assert!(told.contains(&format!("{first} drains\n")), "{told}");
    assert!(told.contains("at capacity 2.00   <- chosen\n"), "{told}");
}

/// SIGTERM ended a lone node while calls were open, so their BYEs found nobody.
#[test]
fn a_node_that_ends_waits_for_its_calls_if_told_so() {
    let (caller, server) = (Phone::new(), Phone::new());
    let mut edge = edge(&pool_of(&server), ", drain_calls = \"1m\"");
    let routes = open(&edge, &caller, &server, "lasting");
    eventually("the call is counted", || {
        edge.status()["workers"][0]["sessions_active"] == 1
    });
    edge.signal("TERM");
    eventually("it drains", || {
        edge.ask("GET", "/readyz").1 == "draining: 1 open calls\n"
    });
    assert_eq!(edge.status()["state"], "draining");
    caller.send(edge.sip(), &caller.request("INVITE", "late", "bob", ""));
    caller.expect("SIP/2.0 503");
    caller.send(
        edge.sip(),
        &caller.request("BYE", "lasting", "alice", &routes),
    );
    let bye = server.expect("BYE");
    server.send(edge.sip(), &reply(&bye, "200 OK"));
    caller.expect("SIP/2.0 200");
    assert_eq!(edge.wait().code(), Some(0));
    assert!(!edge.log().contains("still open"), "{}", edge.log());
}

#[test]
fn an_operator_drains_the_node_and_takes_it_back() {
    let (caller, server) = (Phone::new(), Phone::new());
    let edge = edge(&pool_of(&server), "");
    let (code, told, _) = edge.ctl(&["drain"]);
    assert_eq!(
        (code, &*told),
        (Some(0), "the node takes no new calls; 0 are open\n")
    );
    caller.send(edge.sip(), &caller.request("INVITE", "one", "alice", ""));
    caller.expect("SIP/2.0 503");
    assert_eq!(edge.ctl(&["undrain"]).0, Some(0));
    assert_eq!(edge.ask("GET", "/readyz").0, 200);
    edge.wait_for_log("audit: the Unix socket: POST /api/v1/drain: 200");
}

/// `--log debug` added nothing, and nothing said why a 481 was sent.
#[test]
fn the_log_tells_the_way_of_messages_when_it_is_asked_to() {
    let (caller, server) = (Phone::new(), Phone::new());
    let edge = edge(&pool_of(&server), "");
    assert_eq!(edge.ctl(&["log", "info,messages=debug"]).0, Some(0));
    caller.send(
        edge.sip(),
        &caller.request("BYE", "unknown", "alice", "Subject: x\r\n"),
    );
    caller.expect("SIP/2.0 481");
    edge.wait_for_log(&format!("from {}: BYE, Call-ID unknown", caller.address()));
    edge.wait_for_log("replied 481: The node knows no such dialog or INVITE");
    let (code, _, problem) = edge.ctl(&["log", "loud"]);
    assert_eq!(code, Some(2), "{problem}");
}

#[test]
fn the_log_comes_as_json_lines() {
    let settings = Settings::new();
    settings.write(
        "servers = [ { address = \"127.0.0.1:9\" } ]\nprobe = false",
        "",
    );
    let mut child = sipyard()
        .args(["serve", "--log-format", "json"])
        .arg(settings.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the node answers", || {
        let admin = settings.path().with_file_name("admin.sock");
        let status = sipyard()
            .args(["ctl", "--admin"])
            .arg(admin)
            .arg("status")
            .output()
            .unwrap();
        status.status.success()
    });
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(line["level"], "INFO");
    assert!(
        line["message"].as_str().unwrap().contains("has started"),
        "{line}"
    );
}
