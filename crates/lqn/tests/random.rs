//! Random models: what the solver says is near what happens, and never more than there is.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use fastrand::Rng;
use lqn::{Builder, Method, Model, Multiplicity, Scheduling, SimulationSettings};

const MODELS: u64 = 60;

/// Customers, then two or three layers of tasks that call each other downwards.
fn model(seed: u64) -> Model {
    let mut rng = Rng::with_seed(seed);
    let mut builder = Builder::new(&format!("random {seed}"));
    builder.processor("desk", Scheduling::Delay);
    let layers = 1 + rng.usize(1..3);
    let mut names: Vec<Vec<String>> = Vec::new();
    for layer in 0..layers {
        let mut tasks = Vec::new();
        for number in 0..1 + rng.usize(0..2) {
            let name = format!("t{layer}{number}");
            let scheduling = match rng.usize(0..4) {
                0 => Scheduling::Sharing { quantum: 0.1 },
                1 => Scheduling::Delay,
                _ => Scheduling::Fcfs,
            };
            builder.processor(&format!("p{layer}{number}"), scheduling);
            let threads = match rng.usize(0..5) {
                0 => Multiplicity::Infinite,
                1 => Multiplicity::Finite(3),
                _ => Multiplicity::Finite(1),
            };
            builder
                .task(&name, &format!("p{layer}{number}"))
                .multiplicity(threads);
            tasks.push(name);
        }
        names.push(tasks);
    }
    for classes in 0..1 + rng.usize(0..2) {
        let customers = Multiplicity::Finite(rng.u32(1..7));
        let think_time = 4.0 * rng.f64();
        let name = format!("c{classes}");
        builder
            .reference(&name, "desk")
            .multiplicity(customers)
            .think_time(think_time);
        let entry = builder
            .entry(&format!("{name}e"), &name)
            .service(&[0.1 + rng.f64()]);
        for callee in &names[0] {
            entry.calls(&format!("{callee}e"), &[0.5 + 1.5 * rng.f64()]);
        }
    }
    for layer in 0..layers {
        for task in &names[layer] {
            let second = if rng.usize(0..3) == 0 {
                0.5 * rng.f64()
            } else {
                0.0
            };
            let times = [0.1 + 0.6 * rng.f64(), second];
            let phases = if second > 0.0 { 2 } else { 1 };
            let entry = builder
                .entry(&format!("{task}e"), task)
                .service(&times[..phases]);
            if layer + 1 < layers {
                for callee in &names[layer + 1] {
                    entry.calls(&format!("{callee}e"), &[1.5 * rng.f64()]);
                }
            }
        }
    }
    builder.build().unwrap()
}

#[test]
fn solver_and_simulator_agree_on_random_models() {
    let settings = SimulationSettings { events: 400_000 };
    let mut off_by = Vec::new();
    for seed in 0..MODELS {
        let model = model(seed);
        let solved = lqn::solve(&model);
        let simulated = lqn::simulate(&model, &settings, &mut Rng::with_seed(seed), |_| {});
        assert!(solved.converged, "{seed}: {}", model.to_text());
        for (place, task) in model.tasks().iter().enumerate() {
            let threads = task.multiplicity.finite().map_or(f64::INFINITY, f64::from);
            let busy = solved.tasks[place].utilization.value;
            assert!(
                busy <= threads * (1.0 + 1e-6),
                "{seed} {}: {busy}",
                task.name
            );
            let (ours, theirs) = (
                solved.tasks[place].throughput.value,
                simulated.tasks[place].throughput,
            );
            let off = ((ours - theirs.value).abs() - theirs.ci95.unwrap()).max(0.0) / theirs.value;
            off_by.push((off, seed, task.name.clone(), solved.method));
        }
        for (place, processor) in model.processors().iter().enumerate() {
            let servers = processor
                .servers()
                .finite()
                .map_or(f64::INFINITY, f64::from);
            let busy = solved.processors[place].utilization.value;
            assert!(
                busy <= servers * (1.0 + 1e-6),
                "{seed} {}: {busy}",
                processor.name
            );
        }
    }
    let mean = off_by.iter().map(|(off, ..)| off).sum::<f64>() / off_by.len() as f64;
    off_by.sort_by(|a, b| b.0.total_cmp(&a.0));
    assert!(
        mean < 0.01 && off_by[0].0 < 0.1,
        "mean {mean}: {:?}",
        &off_by[..12]
    );
    let exact = off_by
        .iter()
        .find(|(.., method)| *method == Method::MarkovChain);
    assert!(exact.is_some_and(|(off, ..)| *off < 0.025), "{exact:?}");
}

/// A thread replies and takes the next request, and both its caller and its callee want the same processor at that
/// moment. With one order in the solver and another in the simulator they would be 3 % apart here.
#[test]
fn the_next_request_comes_before_the_caller_goes_on() {
    let text = "P 0\n p desk i\n p cpu f\n-1\n\
        T 0\n t many r call0 -1 desk z 3 m 5\n t one r call1 -1 desk z 1.5\n\
        \u{20}t gate n inside0 inside1 -1 desk\n t work i task other -1 cpu\n-1\n\
        E 0\n f call0 1 -1\n y call0 other 1 -1\n y call0 inside0 1 -1\n\
        \u{20}f call1 1 -1\n y call1 inside1 1 -1\n y call1 other 1 -1\n\
        \u{20}f inside0 1 -1\n y inside0 task 3 -1\n f inside1 1 -1\n y inside1 task 3 -1\n\
        \u{20}s task 0.2 -1\n s other 0.2 -1\n-1\n";
    let model = Model::from_text(text).unwrap();
    let settings = SimulationSettings { events: 1_000_000 };
    let simulated = lqn::simulate(&model, &settings, &mut Rng::with_seed(1), |_| {});
    let solved = lqn::solve(&model);
    assert_eq!(solved.method, Method::MarkovChain);
    for (solved, simulated) in solved.tasks.iter().zip(&simulated.tasks) {
        let off = solved.throughput.value / simulated.throughput.value - 1.0;
        assert!(off.abs() < 0.01, "{off}");
    }
}
