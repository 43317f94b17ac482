//! `sipyard sim` as a user meets it.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn sipyard(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sipyard"));
    command.arg("sim").args(arguments).output().unwrap()
}

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A scenario that runs in no time.
const SMALL: &str = r#"
title = "Small"
about = "Two policies."
policy = ["tlwl", { name = "heavy", policy = "tlwl", costs = { INVITE = 3.0 } }]
load = [0.2, 0.4]
holding = "100ms"
warm_up = "1s"
calls = 500
seeds = 3
occupancy = true

[[servers]]
count = 2
service = { law = "exponential", INVITE = "10ms", BYE = "5ms" }

[[event]]
at = "1s"
slow = "server-1"
speed = 0.5

[[plot]]
title = "Means"
x = "load"
y = "invite_mean_ms"
stated = [{ curve = "tlwl", x = 0.2, y = 9 }]

[[plot]]
title = "By policy"
x = "policy"
y = "bye_p99_ms"

[[plot]]
title = "Occupancy"
x = "occupancy"
y = "occupancy_cdf"
where = { load = 0.4 }

[[bar]]
says = "more load, longer times"
metric = "invite_mean_ms"
of = { policy = "tlwl", load = 0.4 }
over = { policy = "tlwl", load = 0.2 }
least = 1
"#;

#[test]
fn results_are_written_and_depend_on_the_seed_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.toml");
    fs::write(&file, SMALL).unwrap();
    let run = |name: &str, more: &[&str]| {
        let out = folder.path().join("out");
        let arguments = [
            file.to_str().unwrap(),
            "--out",
            out.to_str().unwrap(),
            "--name",
            name,
        ];
        let output = sipyard(&[&arguments, more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let read = |ending: &str| fs::read_to_string(out.join(format!("{name}.{ending}"))).unwrap();
        (
            text(&output.stdout),
            read("csv"),
            read("md"),
            read("html"),
            read("json"),
        )
    };
    let (shown, csv, md, html, json) = run("one", &["--threads", "1"]);
    assert!(shown.contains("more load, longer times"), "{shown}");
    assert_eq!(csv.lines().filter(|line| !line.is_empty()).count(), 1 + 4);
    assert!(
        csv.starts_with("scenario,policy,servers,edges,exchange,arrivals,load,invite_mean_ms,")
    );
    assert!(
        md.contains("| load | tlwl | heavy |") && md.contains("±"),
        "{md}"
    );
    assert!(md.contains("Stated in the text of the paper"), "{md}");
    assert_eq!(html.matches("<svg").count(), 3);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["scenarios"][0]["points"].as_array().unwrap().len(), 4);
    assert_eq!(json["scenarios"][0]["bars"][0]["holds"], true);
    assert_eq!(run("two", &["--threads", "2"]).1, csv);
    assert_ne!(run("three", &["--seed", "100"]).1, csv);
}

#[test]
fn a_bar_that_does_not_hold_fails_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.toml");
    fs::write(&file, SMALL.replace("least = 1\n", "most = 0.1\n")).unwrap();
    let output = sipyard(&[file.to_str().unwrap(), "--seeds", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("at most 0.1"));
}

#[test]
fn a_peak_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("peak.toml");
    let scenario = r#"
title = "Peak"
warm_up = "2s"
duration = "5s"
seeds = 2
[peak]
step = 0.1
within = "500ms"
[[servers]]
service = { INVITE = "10ms", BYE = "10ms" }
[[plot]]
title = "Peak"
x = "policy"
y = "peak_per_s"
[[bar]]
says = "a server carries what its processor can do"
metric = "peak_per_s"
of = {}
least = 35
"#;
    fs::write(&file, scenario).unwrap();
    let output = sipyard(&[file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stdout));
}

/// What in the small experiment becomes what; the place and the words that are told then.
const MISTAKES: [(&str, &str, &str, &str); 14] = [
    (
        "load = [0.2, 0.4]",
        "load = [0.2, 9]",
        "4:8",
        "9 is out of range",
    ),
    (
        "load = [0.2, 0.4]",
        "",
        "1:1",
        "the number of calls is unclear",
    ),
    (
        "calls = 500",
        "calls = 500\nduration = \"1s\"",
        "1:1",
        "the length of the measurement is unclear",
    ),
    (
        "holding = \"100ms\"",
        "holding = \"100\"",
        "5:11",
        "expected a time",
    ),
    ("\"tlwl\", {", "\"tlvl\", {", "3:11", "did you mean `tlwl`?"),
    (
        "slow = \"server-1\"",
        "slow = \"server-3\"",
        "17:8",
        "there is no server-3: the last one is server-2",
    ),
    (
        "slow = \"server-1\"",
        "",
        "15:1",
        "the event has no single action",
    ),
    (
        "x = \"load\"",
        "x = \"rate\"",
        "22:5",
        "unknown axis \"rate\"",
    ),
    (
        "y = \"invite_mean_ms\"",
        "y = \"invite_mean\"",
        "23:5",
        "did you mean `invite_mean_ms`?",
    ),
    (
        "of = { policy = \"tlwl\", load = 0.4 }",
        "of = { policy = \"tlwl\" }",
        "40:6",
        "also give load, one of ",
    ),
    ("count = 2", "cuont = 2", "12:1", "did you mean `count`?"),
    (
        "seeds = 3",
        "seeds = 3\nedges = [1, { name = \"S0P2\", count = 0, nodes = 2 }]",
        "9:13",
        "count = 0 needs nodes = 1",
    ),
    (
        "seeds = 3",
        "seeds = 3\nprocessor = { per_s = 900 }",
        "9:13",
        "`messages` is missing",
    ),
    (
        "[[servers]]",
        "[nodes]\nduty = \"lookup\"\n\n[[servers]]",
        "12:8",
        "did you mean `look-up`?",
    ),
];

#[test]
fn every_mistake_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.toml");
    for (old, new, place, message) in MISTAKES {
        let wrong = SMALL.trim_start().replacen(old, new, 1);
        assert_ne!(wrong, SMALL.trim_start(), "{old}");
        fs::write(&file, wrong).unwrap();
        let output = sipyard(&[file.to_str().unwrap()]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(message), "{told}");
        assert!(
            told.contains(&format!("wrong.toml:{place}: ")),
            "{place}: {told}"
        );
    }
}

#[test]
fn a_trace_shows_the_first_messages() {
    let first = experiments().join("first.toml");
    let output = sipyard(&[first.to_str().unwrap(), "--trace", "12"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        shown.lines().filter(|line| !line.starts_with('#')).count(),
        12
    );
    assert!(
        shown.contains("caller-1") && shown.contains("INVITE"),
        "{shown}"
    );
}

/// Whether a file is for `plan state` or `plan scale`, whose own tests read it.
fn is_plan(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap();
    let plans = ["[node.", "[demand]"];
    text.lines()
        .any(|line| plans.iter().any(|plan| line.starts_with(plan)))
}

/// Every file there is can be read, and runs when nearly nothing is asked of it.
#[test]
fn the_experiments_are_valid() {
    let mut folders = vec![experiments()];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "toml") && !is_plan(&path) {
                let output = sipyard(&[path.to_str().unwrap(), "--trace", "1"]);
                assert!(output.status.success(), "{}", text(&output.stderr));
                count += 1;
            }
        }
    }
    assert!(count > 0);
}

/// Policies and farms with one name were told at the beginning of the file.
#[test]
fn what_has_the_name_of_another_is_told_at_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("twice.toml");
    let farm = "[[servers]]\ncount = 2\nservice = { INVITE = \"10ms\", BYE = \"5ms\" }\n";
    let twice = SMALL
        .replace("name = \"heavy\"", "name = \"tlwl\"")
        .replace("[[event]]", &format!("{farm}\n[[event]]"));
    fs::write(&file, &twice).unwrap();
    let output = sipyard(&[file.to_str().unwrap()]);
    let told = text(&output.stderr);
    let line_of = |words: &str| {
        1 + twice
            .lines()
            .position(|line| line.starts_with(words))
            .unwrap()
    };
    let second = 1 + twice
        .lines()
        .enumerate()
        .filter(|(_, line)| *line == "[[servers]]")
        .nth(1)
        .unwrap()
        .0;
    assert!(
        told.contains(&format!(
            "twice.toml:{}:19: policy: two policies",
            line_of("policy")
        )),
        "{told}"
    );
    assert!(
        told.contains(&format!("twice.toml:{second}:1: servers: two farms")),
        "{told}"
    );
}
