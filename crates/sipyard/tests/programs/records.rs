//! Call records of real calls, through crashes of the node.

use std::{
    collections::HashSet,
    env, fs,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::{
    common::{
        Edge, Settings,
        load::{Serving, call},
        sipyard,
    },
    edge::configure,
    process::{whole_machine, within},
    restart::crash_and_start,
};

const RATE: usize = 100;
const PATIENCE: Duration = Duration::from_secs(60);

fn start() -> (Serving, Edge, PathBuf) {
    let servers = Serving::start(&[]);
    let settings = Settings::new();
    configure(&settings, "", &[servers.address]);
    let text = fs::read_to_string(settings.path()).unwrap();
    let file = settings.path().with_file_name("calls.jsonl");
    settings.write_whole(&format!(
        "{text}\n[calls]\nrecords = {{ file = \"calls.jsonl\" }}\n"
    ));
    (servers, settings.start(), file)
}

fn records(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// `RECORD_KILLS` says how often the node is killed.
#[test]
#[expect(clippy::print_stdout, reason = "it tells its figures")]
fn each_call_has_one_record_though_the_node_is_killed() {
    let _alone = whole_machine();
    let kills = env::var("RECORD_KILLS").map_or(3, |kills| kills.parse().unwrap());
    let (servers, mut edge, file) = start();
    let mut caller = sipyard();
    caller.args([
        "load",
        "call",
        "--json",
        "-",
        "--to",
        &edge.sip().to_string(),
    ]);
    caller.args(["--rate", &RATE.to_string(), "--holding", "1500ms"]);
    caller.args(["--duration", &format!("{}s", kills + 1)]);
    let caller = caller.stdout(Stdio::piped()).spawn().unwrap();
    for _ in 0..kills {
        #[expect(clippy::disallowed_methods, reason = "the load is to run for a while")]
        thread::sleep(Duration::from_secs(1));
        edge = crash_and_start(edge);
    }
    let output = caller.wait_with_output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let carried = told["carried"].as_u64().unwrap() as usize;
    within(PATIENCE, "all calls are told", || {
        let (_, metrics) = edge.ask("GET", "/metrics");
        metrics.contains("sipyard_call_records_open 0")
    });
    let records = records(&file);
    let ended: Vec<_> = records
        .iter()
        .filter(|record| record["outcome"] == "answered")
        .map(|record| record["id"].as_str().unwrap())
        .collect();
    let alone = records
        .iter()
        .filter(|record| record["begun"].is_null())
        .count();
    let known: HashSet<_> = ended.iter().collect();
    // A call that was told may have failed for its caller, whose BYE found the node dead; not the other way round.
    let lost = carried.saturating_sub(ended.len());
    println!(
        "{kills} kills at {RATE} calls/s: {carried} calls carried, {} records of an end, {alone} of them without a \
         beginning, {lost} lost, {} doubled",
        ended.len(),
        ended.len() - known.len()
    );
    assert_eq!(known.len(), ended.len(), "a call has two records");
    assert!(alone > 0, "no call was open in a crash");
    assert_eq!(lost, 0, "of {carried}");
    drop(servers);
}

/// What ended just before the node did is told, too.
#[test]
fn a_node_that_stops_has_told_all() {
    let _alone = whole_machine();
    let (servers, mut edge, file) = start();
    let calls = call(edge.sip(), &["--rate", "200", "--calls", "400"]);
    let calls: Value = serde_json::from_slice(&calls.stdout).unwrap();
    edge.signal("TERM");
    assert!(edge.wait().success());
    let records = records(&file);
    let is_whole = |record: &Value| {
        let times = ["begun", "answered", "ended"];
        times.iter().all(|time| record[*time].is_string()) && record["ended_by"] == "caller"
    };
    let whole = records.iter().filter(|record| is_whole(record)).count();
    // On a busy machine the node refuses some.
    let refused = records
        .iter()
        .filter(|record| record["outcome"] == "refused");
    assert_eq!(calls["carried"], whole, "{calls}");
    assert_eq!(calls["failed"], refused.count(), "{calls}");
    assert_eq!(records.len(), 400);
    drop(servers);
}
