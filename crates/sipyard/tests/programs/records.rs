//! Call records of real calls, through crashes of the node.

use std::{
    collections::HashSet,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;
use testbed::Redis;

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

/// `more` stands in the settings of records.
fn start(more: &str) -> (Serving, Edge, PathBuf) {
    let servers = Serving::start(&[]);
    let settings = Settings::new();
    configure(&settings, "", &[servers.address]);
    let text = fs::read_to_string(settings.path()).unwrap();
    let file = settings.path().with_file_name("calls.jsonl");
    settings.write_whole(&format!(
        "{text}\n[calls]\nrecords = {{ file = \"calls.jsonl\"{more} }}\n"
    ));
    (servers, settings.start(), file)
}

fn records(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// Calls for so many seconds, in each of which the node is killed, until all are over; how many were carried. `meanwhile`
/// learns how often it was killed.
fn call_through(kills: usize, mut edge: Edge, mut meanwhile: impl FnMut(usize)) -> (Edge, usize) {
    let mut caller = sipyard();
    let to = edge.sip().to_string();
    caller.args(["load", "call", "--json", "-", "--to", &to]);
    caller.args(["--rate", &RATE.to_string(), "--holding", "1500ms"]);
    caller.args(["--duration", &format!("{}s", kills + 1)]);
    let caller = caller.stdout(Stdio::piped()).spawn().unwrap();
    for kill in 0..kills {
        #[expect(clippy::disallowed_methods, reason = "the load is to run for a while")]
        thread::sleep(Duration::from_secs(1));
        edge = crash_and_start(edge);
        meanwhile(kill + 1);
    }
    let output = caller.wait_with_output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    within(PATIENCE, "all calls are told", || {
        let (_, metrics) = edge.ask("GET", "/metrics");
        metrics.contains("sipyard_call_records_open 0")
    });
    let carried = told["carried"].as_u64().unwrap() as usize;
    (edge, carried)
}

/// `RECORD_KILLS` says how often the node is killed.
#[test]
#[expect(clippy::print_stdout, reason = "it tells its figures")]
fn each_call_has_one_record_though_the_node_is_killed() {
    let _alone = whole_machine();
    let kills = env::var("RECORD_KILLS").map_or(3, |kills| kills.parse().unwrap());
    let (servers, edge, file) = start("");
    let (_edge, carried) = call_through(kills, edge, |_| ());
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
    let (servers, mut edge, file) = start("");
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

/// The records in a stream, in their order.
fn streamed(redis: &Redis) -> Vec<String> {
    let mut ask = Command::new("redis-cli");
    ask.args(["-u", &redis.url(), "--raw"]);
    let output = ask.args(["XRANGE", "sipyard:calls", "-", "+"]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let records = text.lines().filter(|line| line.starts_with('{'));
    records.map(str::to_owned).collect()
}

/// Whatever happens to the node and to Redis: the stream has what the file has.
#[test]
fn each_record_is_in_the_stream_once() {
    let _alone = whole_machine();
    let redis = Redis::start(&[]).unwrap();
    let stream = format!(", redis = {{ store = \"{}\" }}", redis.url());
    let (servers, edge, file) = start(&stream);
    let (mut edge, carried) = call_through(3, edge, |kills| match kills {
        1 => redis.signal("STOP").unwrap(),
        3 => redis.signal("CONT").unwrap(),
        _ => {}
    });
    let calls = call(edge.sip(), &["--rate", "200", "--calls", "100"]);
    assert!(calls.status.success());
    edge.signal("TERM");
    assert!(edge.wait().success());
    let text = fs::read_to_string(&file).unwrap();
    let records: Vec<_> = text.lines().map(str::to_owned).collect();
    assert!(records.len() >= carried + 100, "{carried}");
    assert!(streamed(&redis) == records, "{records:#?}");
    drop(servers);
}
