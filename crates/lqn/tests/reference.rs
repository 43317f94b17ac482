//! Solver and simulator against the answers of other programs.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, path::PathBuf};

use lqn::{Builder, Model, Multiplicity, Results, Scheduling, SimulationSettings};
use serde_json::Value;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/models")
}

fn model(name: &str) -> Model {
    Model::from_text(&fs::read_to_string(folder().join(format!("{name}.lqn"))).unwrap()).unwrap()
}

fn json(name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(folder().join(name)).unwrap()).unwrap()
}

/// A figure of another simulator, with the half-width of its interval.
struct Known {
    what: String,
    value: f64,
    width: f64,
    ours: fn(&Results, usize) -> lqn::Figure,
    place: usize,
}

/// Throughputs of entries, utilisations of tasks and processors, waits for threads.
fn known(model: &Model, answers: &Value) -> Vec<Known> {
    let mut known = Vec::new();
    let mut add = |what: String, pair: &Value, ours, place| {
        if let (Some(value), Some(width)) = (pair[0].as_f64(), pair[1].as_f64()) {
            known.push(Known {
                what,
                value,
                width,
                ours,
                place,
            });
        }
    };
    for (place, entry) in model.entries().iter().enumerate() {
        let answers = &answers["entry"][&entry.name];
        let name = &entry.name;
        add(
            format!("X {name}"),
            &answers["thr"],
            |r, place| r.entries[place].throughput,
            place,
        );
        add(
            format!("W {name}"),
            &answers["wait"],
            |r, place| r.entries[place].waiting,
            place,
        );
    }
    for (place, task) in model.tasks().iter().enumerate() {
        let answers = &answers["task"][&task.name];
        let name = &task.name;
        add(
            format!("X {name}"),
            &answers["X"],
            |r, place| r.tasks[place].throughput,
            place,
        );
        let utilization = if answers.is_array() {
            answers
        } else {
            &answers["U"]
        };
        add(
            format!("U {name}"),
            utilization,
            |r, place| r.tasks[place].utilization,
            place,
        );
    }
    for (place, processor) in model.processors().iter().enumerate() {
        let name = &processor.name;
        add(
            format!("U {name}"),
            &answers["proc"][name],
            |r, place| r.processors[place].utilization,
            place,
        );
    }
    known
}

const SMALL: [&str; 10] = [
    "t01-repairman",
    "t02-three-tier",
    "t03-multiserver",
    "t05-overtake1",
    "t07-async",
    "t08-open",
    "t09-forward",
    "t10-ps-delay",
    "t12-det-cv",
    "t14-soft-bottleneck",
];

/// A queue that grows for ever: its mean wait says how long was simulated, nothing else.
fn is_flooded(name: &str, known: &Known) -> bool {
    name == "t07-async" && known.what == "W le"
}

#[test]
fn the_solver_comes_close_to_simulation() {
    let answers = json("reference.json");
    for name in SMALL {
        let model = model(name);
        let results = lqn::solve(&model);
        assert!(results.converged, "{name}");
        for known in known(&model, &answers[name]["des"]) {
            if is_flooded(name, &known) {
                continue;
            }
            let ours = (known.ours)(&results, known.place).value;
            let bar = if known.what.starts_with('W') {
                0.03
            } else {
                0.01
            };
            let off = (ours - known.value).abs();
            assert!(
                off <= bar * known.value + known.width,
                "{name} {}: {ours}, not {}",
                known.what,
                known.value
            );
        }
    }
}

#[test]
fn the_simulator_agrees_with_both_others() {
    let answers = json("reference.json");
    let settings = SimulationSettings { events: 400_000 };
    for name in SMALL {
        let model = model(name);
        let results = lqn::simulate(&model, &settings, &mut fastrand::Rng::with_seed(3), |_| {});
        for other in ["des", "lqsim-6.2.31"] {
            for known in known(&model, &answers[name][other]) {
                if is_flooded(name, &known) {
                    continue;
                }
                let ours = (known.ours)(&results, known.place);
                // Of some hundred pairs of intervals a few are to miss by a little.
                let width = 1.3 * (known.width + ours.ci95.unwrap()) + 1e-9;
                let off = (ours.value - known.value).abs();
                assert!(
                    off <= width,
                    "{name} {} {other}: {ours:?}, not {}",
                    known.what,
                    known.value
                );
            }
        }
    }
}

#[test]
fn the_sip_models_are_solved_close_to_simulation() {
    let answers = json("sip-reference.json");
    for (name, bar) in [
        ("standalone-plain", 0.01),
        ("standalone-fifo-n10", 0.01),
        ("standalone-ordered", 0.01),
        ("cluster-shed", 0.02),
        ("cluster-all22", 0.02),
        ("cluster-h1", 0.02),
    ] {
        let model = model(name);
        let results = lqn::solve(&model);
        let throughput = results.tasks[0].throughput.value;
        let known = answers[name]["des"]["X"][0].as_f64().unwrap();
        assert!(
            (throughput / known - 1.0).abs() < bar,
            "{name}: {throughput}, not {known}"
        );
        let processors = model.processors().iter().zip(&results.processors);
        for (processor, result) in processors {
            let servers = processor
                .servers()
                .finite()
                .map_or(f64::INFINITY, f64::from);
            assert!(
                result.utilization.value <= servers + 1e-9,
                "{name} {}",
                processor.name
            );
        }
    }
}

/// What nobody waits for was capped to what customers leave of a processor. The customers then went on as if they were
/// alone: 29,289 calls per second where one call needs 38 us, and three of four messages lost.
#[test]
fn messages_and_customers_share_a_full_processor() {
    for (scheduling, customers) in [
        (Scheduling::Sharing { quantum: 0.1 }, 1000),
        (Scheduling::Sharing { quantum: 0.1 }, 200),
        (Scheduling::Fcfs, 1000),
    ] {
        let mut builder = Builder::new("a balancer, its calls and its messages");
        builder.processor("desk", Scheduling::Delay);
        builder.processor("core", scheduling);
        builder
            .reference("driver", "desk")
            .multiplicity(Multiplicity::Finite(customers));
        builder
            .task("balancer", "core")
            .multiplicity(Multiplicity::Infinite);
        let user = builder.entry("user", "driver").service(&[0.07]);
        user.calls("call", &[1.0]).sends("message", &[3.0]);
        builder.entry("call", "balancer").service(&[0.032]);
        builder.entry("message", "balancer").service(&[0.002]);
        let results = lqn::solve(&builder.build().unwrap());
        let throughput = results.tasks[0].throughput.value;
        assert!((throughput * 0.038 - 1.0).abs() < 0.005, "{throughput}");
        assert!(results.entries[2].lost.value < 1e-3 * throughput);
    }
}
