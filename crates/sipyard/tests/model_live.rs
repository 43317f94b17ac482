//! `sipyard model from-live` on a node that carries calls.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::process::{Command, Stdio};

use common::{
    Edge, free_address,
    load::{Serving, call},
    sipyard,
};
use serde_json::Value;
use testbed::Running;

/// Runs `sipyard model from-live` against a node: its exit code, standard output, standard error.
fn from_live(admin: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = looking(admin, arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn looking(admin: &str, arguments: &[&str]) -> Running {
    let child = sipyard()
        .args(["model", "from-live", "--admin", admin])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    child.unwrap().into()
}

fn admin_of(edge: &Edge) -> String {
    format!("http://{}", edge.settings.admin)
}

#[test]
fn a_running_node_becomes_a_model() {
    let servers = Serving::start(&["--servers", "2", "--service", "INVITE=6ms,BYE=3ms"]);
    let first = servers.address;
    let second = (first.ip(), first.port() + 1).into();
    let edge = Edge::before(&[first, second]);
    let folder = edge.folder();
    let [model, page] = ["farm.lqn", "farm.html"].map(|name| folder.join(name));
    let [model, page] = [&model, &page].map(|path| path.to_str().unwrap());
    let arguments = ["--during", "4s", "--json", "--out", model, "--html", page];
    let looking = looking(&admin_of(&edge), &arguments);
    let calls = call(edge.sip(), &["--rate", "40", "--duration", "6s"]);
    assert!(calls.status.success(), "{calls:?}");
    let looked = looking.output().unwrap();
    let told: Value = serde_json::from_slice(&looked.stdout).unwrap();

    let node = &told["demands"][0];
    assert_eq!(node["station"], "Pbalancer", "{told:#}");
    let node_ms = node["demand_ms"].as_f64().unwrap();
    assert!(node_ms > 0.0 && node_ms < 9.0, "{told:#}");
    // 6 ms and 3 ms of work, and what a busy machine adds.
    let app = &told["demands"][1];
    assert_eq!(
        (&app["station"], &app["servers"]),
        (&"Papp".into(), &2.into())
    );
    let app_ms = app["demand_ms"].as_f64().unwrap();
    assert!((8.9..30.0).contains(&app_ms), "{told:#}");
    let invites = told["kinds"].as_array().unwrap().iter();
    let mut invites = invites.filter(|kind| kind["method"] == "INVITE");
    assert_eq!(invites.next().unwrap()["per_call"], 1.0);

    let output = Command::new(env!("CARGO_BIN_EXE_sipyard"))
        .args(["model", "solve", model, "--json"])
        .output()
        .unwrap();
    let solved: Value = serde_json::from_slice(&output.stdout).unwrap();
    let per_ms = solved["tasks"]["driver"]["throughput"].as_f64().unwrap();
    let bound = 2.0 / app_ms;
    assert!(
        (0.9 * bound..=1.001 * bound).contains(&per_ms),
        "{solved:#}"
    );
    assert!(std::fs::read_to_string(page).unwrap().contains("Papp"));
}

#[test]
fn a_node_that_tells_nothing_is_said_so() {
    let edge = Edge::before(&[free_address()]);
    let (code, _, problems) = from_live(&admin_of(&edge), &["--during", "10ms"]);
    assert_eq!(code, Some(2), "{problems}");
    assert!(problems.contains("no request was answered"), "{problems}");

    let nowhere = format!("http://{}", free_address());
    let (code, _, problems) = from_live(&nowhere, &["--during", "10ms"]);
    assert_eq!(code, Some(1), "{problems}");
    assert!(problems.contains("check that the node runs"), "{problems}");

    let (code, _, problems) = from_live(&nowhere, &["--out", "farm.txt"]);
    assert_eq!(code, Some(2), "{problems}");
    assert!(
        problems.contains("the file's name must end in .lqn"),
        "{problems}"
    );
}
