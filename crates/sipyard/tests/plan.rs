//! `sipyard plan`: the answers are in the forms that are asked for, and what makes no sense is refused.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, process::Command};

use serde_json::Value;

/// Exit code, standard output, standard error.
fn run(arguments: &str) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_sipyard"))
        .arg("plan")
        .args(arguments.split(' '))
        .output()
        .unwrap();
    let [printed, problems] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code(), printed, problems)
}

#[test]
fn the_papers_cluster_has_five_nines() {
    let arguments = "availability --first-stage 99% --second-stage 99% --plan 3,3,3 --json";
    let (code, printed, problems) = run(arguments);
    assert_eq!((code, problems.as_str()), (Some(0), ""));
    let answer: Value = serde_json::from_str(&printed).unwrap();
    let availability = answer["given"]["availability"].as_f64().unwrap();
    assert!((availability - 0.999_996).abs() < 1e-9);
    let cheapest = &answer["cheapest"];
    assert_eq!(
        (&cheapest["first"], &cheapest["backups"]),
        (&3.into(), &3.into())
    );
}

#[test]
fn capacity_says_what_limits_a_farm() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("plan.html");
    let arguments = format!(
        "capacity --busy-hour-calls 360000 --stage edge:call-ms=0.1 --stage app:call-ms=20,cores=2 --html {}",
        page.display()
    );
    let (code, printed, problems) = run(&arguments);
    assert_eq!((code, problems.as_str()), (Some(0), ""));
    // 100 calls/s of 20 ms keep two cores busy: two nodes of two cores.
    assert!(printed.starts_with(
        "You need 2 x edge (1 core) and 3 x app (2 cores): one of each is a spare.\n"
    ));
    for text in [
        "app is the first bottleneck",
        "720000 calls",
        "one app fewer",
        "overloaded",
        "+20 %",
    ] {
        assert!(printed.contains(text), "{text} is not in\n{printed}");
    }
    assert!(fs::read_to_string(page).unwrap().contains("<svg"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (arguments, expected) in [
        ("capacity --busy-hour-calls 1", "--stage"),
        (
            "capacity --busy-hour-calls 0 --stage a:call-ms=1",
            "there is no demand",
        ),
        (
            "capacity --busy-hour-calls 1 --model none.lqn",
            "none.lqn: No such file",
        ),
        (
            "capacity --busy-hour-calls 1 --stage a:call-ms=1 --transport tls=70%:2 --transport ws=70%:2",
            "add up to 140 %",
        ),
        (
            "availability --first-stage 2 --second-stage 0.9",
            "\"2\" is not a share",
        ),
        (
            "availability --first-stage 10% --second-stage 10%",
            "no cluster of such nodes",
        ),
    ] {
        let (code, _, problems) = run(arguments);
        assert_eq!(code, Some(2), "{arguments}");
        assert!(
            problems.contains(expected),
            "{expected} is not in\n{problems}"
        );
    }
}

/// The paper gives 5200 for its own program: the exact answer is 5152.
#[test]
fn two_nodes_in_series_carry_5152_calls() {
    let topology = "../../experiments/003/two.toml";
    let (code, printed, problems) = run(&format!("state {topology}"));
    assert_eq!((code, problems.as_str()), (Some(0), ""));
    for text in [
        "5152 calls/s",
        "4700 calls/s",
        "+9.6 %",
        "[S1: holds 2576/s] -> [S2: holds 2576/s]",
    ] {
        assert!(printed.contains(text), "{text} is not in\n{printed}");
    }
    let (_, printed, _) = run(&format!("state {topology} --json"));
    let answer: Value = serde_json::from_str(&printed).unwrap();
    let busy = answer["best"]["nodes"][1]["utilisation"].as_f64().unwrap();
    assert!((busy - 1.0).abs() < 1e-6);
}

#[test]
fn mistakes_in_a_topology_have_a_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.toml");
    let text = "[node.a]\nstateless = 10\nstateful = 20\n[[path]]\nnodes = [\"a\", \"b\"]\n";
    fs::write(&file, text).unwrap();
    let (code, _, problems) = run(&format!("state {}", file.display()));
    assert_eq!(code, Some(2));
    for text in [
        "state.toml:3:12",
        "can't carry more calls",
        "state.toml:5:9",
        "there is no node \"b\"",
    ] {
        assert!(problems.contains(text), "{text} is not in\n{problems}");
    }
}

/// docs/scale.md quotes its answer.
#[test]
fn a_hundred_million_users_are_planned() {
    let design = "../../experiments/scale/hundred-million.toml";
    let (code, printed, problems) = run(&format!("scale {design}"));
    assert_eq!((code, problems.as_str()), (Some(0), ""));
    assert!(printed.starts_with("100,000,000 users and 40,000 calls/s need "));
    let (_, printed, _) = run(&format!("scale {design} --times 2 --json"));
    let answer: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(answer["sites"].as_array().unwrap().len(), 3);
    assert_eq!(answer["losses"].as_array().unwrap().len(), 6);
    let (code, _, problems) = run(&format!("scale {design} --times 0.5"));
    assert_eq!(code, Some(2));
    assert!(problems.contains("write a number from 1 to 1000"));
}

/// Shares that don't add up were told at the beginning of the file.
#[test]
fn shares_that_do_not_add_up_are_told_at_the_first_of_them() {
    let design = fs::read_to_string("../../experiments/scale/hundred-million.toml").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("design.toml");
    let wrong = design.replace("share = 0.1\n", "share = 0.2\n").replace(
        "[site.europe]\nshare = 0.3\n",
        "[site.europe]\nshare = 0.4\n",
    );
    fs::write(&file, wrong).unwrap();
    let (code, _, problems) = run(&format!("scale {}", file.display()));
    assert_eq!(code, Some(2));
    for (table, what) in [("[transport.udp]", "transport"), ("[site.america]", "site")] {
        let line = 1 + design.lines().position(|line| line == table).unwrap();
        let place = format!("design.toml:{line}:");
        let told = problems.lines().find(|told| told.contains(&place));
        let told = told.unwrap_or_else(|| panic!("{place} {problems}"));
        assert!(
            told.contains(&format!("{what}: the shares of all")),
            "{told}"
        );
    }
}
