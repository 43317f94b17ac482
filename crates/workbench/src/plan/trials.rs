//! Predictions of models beside runs of real nodes in the simulator.

mod farm;
mod tap;

use std::collections::BTreeSet;

use capture::{Ended, Flow, Machines, Options, Reason, Role, Study};
use lqn::Model;

use self::farm::{Seen, forking_proxy, slow_store, troubled_servers, two_stages};
use super::solved::{Solved, solved};

/// The share by which a response time may be off, and a utilisation.
const OFF_MAX: [f64; 2] = [0.1, 0.05];

/// Prints what was predicted and what was seen, and compares both.
#[track_caller]
fn check(what: &str, predicted: &Solved, seen: &Seen) {
    let mut missed = Vec::new();
    let mut compare = |name: &str, bar: f64, predicted: f64, seen: f64| {
        let off = predicted / seen - 1.0;
        eprintln!(
            "| {what} | {name} | {predicted:.3} | {seen:.3} | {:+.1} % |",
            100.0 * off
        );
        if off.abs() > bar {
            missed.push(name.to_owned());
        }
    };
    let response = predicted.runs.iter().map(|run| run.response_ms.unwrap());
    compare("response, ms", OFF_MAX[0], response.sum(), seen.response_ms);
    for (name, busy) in &seen.busy {
        let of = |it: &&super::solved::Busy| it.name == *name;
        let found = predicted.processors.iter().find(of);
        let found = found.unwrap_or_else(|| panic!("{name} is not in {predicted:?}"));
        compare(name, OFF_MAX[1], found.utilisation, *busy);
    }
    let is_all = std::env::var_os("TRIALS").is_some();
    assert!(is_all || missed.is_empty(), "{what}: {missed:?}");
}

fn experiment(name: &str) -> Model {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/plan");
    crate::model::read(format!("{folder}/{name}.lqn").as_ref()).unwrap()
}

/// The usual load of a test, or all of them, which are printed and not judged: `TRIALS=all cargo test -p workbench --lib trials -- --nocapture`.
fn loads<const N: usize>(usual: f64, all: [f64; N]) -> Vec<f64> {
    match std::env::var_os("TRIALS") {
        Some(_) => all.to_vec(),
        None => vec![usual],
    }
}

/// Two servers behind an edge crash, packets are lost, callers cancel, and the capture begins and ends amid calls.
#[test]
fn all_calls_are_used_or_have_their_reason() {
    let taps = troubled_servers();
    let options = Options::default();
    let study = Study::new(&taps.trace(), &options).unwrap();
    let reasons = study.reasons();
    let used = study.used(&options);
    assert_eq!(used + study.unused.len(), taps.call_ids(), "{reasons:?}");
    assert!(used > 100, "{used}, {reasons:?}");
    for reason in [
        Reason::BeginningMissing,
        Reason::EndMissing,
        Reason::Unanswered,
        Reason::Retransmitted,
        Reason::OtherFlow(2),
    ] {
        assert!(reasons.contains_key(&reason), "{reason:?}: {reasons:?}");
    }
    let ends: Vec<_> = study
        .flows
        .iter()
        .map(|flow| (flow.outcome, flow.ended))
        .collect();
    for expected in [
        (Some(200), Some(Ended::ByDriver)),
        (Some(487), Some(Ended::Cancelled)),
        (Some(503), None),
    ] {
        assert!(ends.contains(&expected), "{expected:?}: {ends:?}");
    }
    let look = |flow: &Flow| {
        format!(
            "{:?}",
            Flow {
                calls: 0,
                servers: Vec::new(),
                ..flow.clone()
            }
        )
    };
    let looks: BTreeSet<String> = study.flows.iter().map(look).collect();
    assert_eq!(looks.len(), study.flows.len(), "{:#?}", study.flows);
}

/// A user's three phones ring at the same time; one answers after a second, and the others are cancelled.
#[test]
fn a_captured_fork_predicts_a_forking_proxy() {
    let (_, taps) = forking_proxy(1.0, 3_000);
    let options = Options {
        unseen_ms: vec![(Role::Server, 0.0)],
        ..Options::default()
    };
    let study = Study::new(&taps.trace(), &options).unwrap();
    let (flow, used) = (&study.flows[0], study.used(&options));
    assert_eq!((flow.branches, flow.outcome), (3, Some(200)), "{flow:?}");
    assert!(used > 2_900, "{used}, {:?}", study.reasons());
    let model = study.model("forking proxy", &Machines::default()).unwrap();
    assert!(model.has_forks(), "{}", model.to_text());
    if let Some(file) = std::env::var_os("WRITE") {
        std::fs::write(file, model.to_text()).unwrap();
    }
    for rate in loads(40.0, [20.0, 40.0, 60.0]) {
        let what = format!("forking proxy, {rate} calls/s");
        let (seen, _) = forking_proxy(rate, 20_000);
        check(&what, &solved(&model, rate), &seen);
        let what = format!("{what}, the file");
        check(&what, &solved(&experiment("forking-proxy"), rate), &seen);
    }
}

#[test]
fn copies_predict_two_stages() {
    for rate in loads(250.0, [125.0, 250.0, 375.0]) {
        let seen = two_stages(rate, 20_000);
        let predicted = solved(&experiment("two-stages"), rate);
        check(&format!("two stages, {rate} calls/s"), &predicted, &seen);
    }
}

#[test]
fn a_slow_store_predicts_its_registrar() {
    for rate in loads(50.0, [25.0, 50.0, 75.0]) {
        let seen = slow_store(rate, 20_000);
        let predicted = solved(&experiment("slow-store"), rate);
        check(
            &format!("slow store, {rate} registrations/s"),
            &predicted,
            &seen,
        );
    }
}
