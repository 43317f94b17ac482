//! `sipyard model` from outside: files in, JSON and messages out.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sipyard"));
    command.arg("model").args(arguments).output().unwrap()
}

fn reference(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lqn/tests/models");
    folder.join(name).to_str().unwrap().to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn solve_prints_the_agreed_json() {
    for name in ["t01-repairman.lqn", "t01-repairman.lqnx"] {
        let answer = json(&["solve", &reference(name), "--json"]);
        assert_eq!(
            keys(&answer),
            ["converged", "entries", "iterations", "processors", "tasks"]
        );
        assert_eq!(
            keys(&answer["entries"]["se"]),
            ["service_time", "throughput", "waiting"]
        );
        assert_eq!(keys(&answer["processors"]["Ps"]), ["utilization"]);
        let throughput = answer["tasks"]["cT"]["throughput"].as_f64().unwrap();
        assert!((throughput - 0.715_132).abs() < 1e-5, "{throughput}");
        assert_eq!(answer["converged"], true);
    }
}

#[test]
fn simulate_has_intervals_and_repeats_itself() {
    let file = reference("t01-repairman.lqn");
    let arguments = [
        "simulate", &file, "--json", "--seed", "7", "--events", "20000",
    ];
    let answer = json(&arguments);
    assert_eq!(answer, json(&arguments));
    for (kind, name) in [("tasks", "cT"), ("processors", "Ps"), ("entries", "ce")] {
        let figures = &answer[kind][name];
        for figure in keys(&figures["ci95"]) {
            assert!(figures[figure].is_number(), "{kind} {name} {figure}");
        }
    }
    assert!(
        answer["tasks"]["cT"]["ci95"]["throughput"]
            .as_f64()
            .unwrap()
            > 0.0
    );
}

#[test]
fn compare_sets_figures_side_by_side() {
    let file = reference("t01-repairman.lqn");
    let output = run(&["compare", &file, "--measured", "X=700", "--events", "20000"]);
    let text = text(&output.stdout);
    assert!(text.contains("cT, per second"), "{text}");
    assert!(text.contains("+2.2"), "{text}");
}

#[test]
fn what_if_varies_all_combinations() {
    let file = reference("t01-repairman.lqn");
    let vary = [
        "--vary",
        "cT.multiplicity=1..3",
        "--vary",
        "sT.se.1=50%,100%",
        "--csv",
    ];
    let output = run(&[["what-if", &file].as_slice(), &vary].concat());
    let text = text(&output.stdout);
    assert_eq!(text.lines().count(), 7, "{text}");
    assert!(text.contains("1,1,166.7,1.000,Ps,16.7"), "{text}");
}

#[test]
fn pages_hold_diagram_tables_and_bars() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let output = run(&[
        "solve",
        &reference("cluster-shed.lqn"),
        "--html",
        page.to_str().unwrap(),
    ]);
    assert!(output.status.success());
    let page = std::fs::read_to_string(page).unwrap();
    for expected in [
        "balancer_down",
        "<svg",
        "wait for a thread, ms",
        "The bottleneck is processor Network",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
}

#[test]
fn mistakes_are_told_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let good = std::fs::read_to_string(reference("t01-repairman.lqn")).unwrap();
    let bad = file(
        "bad.lqn",
        &good
            .replace("y ce se 1", "y ce ze 1")
            .replace("s se 1", "s se -2"),
    );
    let empty = file("empty.lqn", "");
    let missing = folder.path().join("missing.lqn");
    let reference = reference("t01-repairman.lqn");
    let cases: [(&[&str], &str); 6] = [
        (
            &["solve", bad.to_str().unwrap()],
            "bad.lqn:13: entry ce calls ze, which no task serves",
        ),
        (
            &["simulate", bad.to_str().unwrap()],
            "bad.lqn:8: entry se, phase 1: service time -2",
        ),
        (
            &["solve", empty.to_str().unwrap()],
            "empty.lqn: nothing drives the model",
        ),
        (
            &["solve", missing.to_str().unwrap()],
            "missing.lqn: No such file",
        ),
        (
            &["compare", &reference, "--measured", "Y=1"],
            "the model has no Y: write X, TASK",
        ),
        (
            &["what-if", &reference, "--vary", "sT.se.2=1"],
            "entry se has phases 1 to 1",
        ),
    ];
    for (arguments, expected) in cases {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let told = text(&output.stderr);
        assert!(told.contains(expected), "{arguments:?}: {told}");
    }
}
