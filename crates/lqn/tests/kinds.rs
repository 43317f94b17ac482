//! Models of the kinds of `models/t*.lqn` with other numbers: how far the solver is from the simulator.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fmt::Write as _;

use fastrand::Rng;
use lqn::{
    Builder, CallOrder, EntryDraft, Figure, Model, Multiplicity, Results, Scheduling,
    SimulationSettings,
};

/// Of each kind.
const MODELS: u64 = 4;

const EVENTS: u64 = 400_000;

type Kind = fn(&mut Rng, &mut Builder);

/// Solved and simulated.
type Compare = fn(&Model, &Results, &Results) -> Vec<(f64, f64, String)>;

const KINDS: [(&str, Kind); 10] = [
    ("repairman", repairman),
    ("three tiers", three_tiers),
    ("two phases", two_phases),
    ("messages", messages),
    ("open", open),
    ("forwarding", forwarding),
    ("sharing", sharing),
    ("fixed order", fixed_order),
    ("soft bottleneck", soft_bottleneck),
    ("two classes", two_classes),
];

fn between(rng: &mut Rng, least: f64, most: f64) -> f64 {
    least + (most - least) * rng.f64()
}

fn threads(rng: &mut Rng, most: u32) -> Multiplicity {
    Multiplicity::Finite(rng.u32(1..=most))
}

/// At most so many customers, who think and make these calls.
fn customers<'b>(
    rng: &mut Rng,
    builder: &'b mut Builder,
    name: &str,
    most: u32,
    calls: &[(&str, f64)],
) -> &'b mut EntryDraft {
    let population = Multiplicity::Finite(rng.u32(2..=most));
    let desk = format!("P{name}");
    builder.processor(&desk, Scheduling::Delay);
    builder
        .reference(name, &desk)
        .multiplicity(population)
        .think_time(between(rng, 0.0, 5.0));
    let entry = builder
        .entry(&format!("{name}_e"), name)
        .service(&[between(rng, 0.0, 0.3)]);
    for &(callee, number) in calls {
        entry.calls(callee, &[number]);
    }
    entry
}

fn repairman(rng: &mut Rng, builder: &mut Builder) {
    customers(rng, builder, "c", 30, &[("serve", 1.0)]);
    let cvsq = [0.0, 0.25, 1.0, 3.0][rng.usize(..4)];
    builder
        .processor("s", Scheduling::Fcfs)
        .multiplicity(rng.u32(1..=4));
    builder
        .task("server", "s")
        .multiplicity(Multiplicity::Infinite);
    builder
        .entry("serve", "server")
        .service(&[between(rng, 0.2, 1.0)])
        .cvsq(&[cvsq]);
}

fn three_tiers(rng: &mut Rng, builder: &mut Builder) {
    customers(rng, builder, "c", 14, &[("run", 1.0)]);
    builder.processor("a", Scheduling::Fcfs);
    builder.processor("d", Scheduling::Fcfs);
    let few = threads(rng, 5);
    builder.task("app", "a").multiplicity(few);
    builder.task("db", "d");
    builder
        .entry("run", "app")
        .service(&[between(rng, 0.1, 0.6)])
        .calls("read", &[between(rng, 0.5, 3.0)]);
    builder
        .entry("read", "db")
        .service(&[between(rng, 0.1, 0.4)]);
}

fn two_phases(rng: &mut Rng, builder: &mut Builder) {
    let number = between(rng, 0.5, 3.0);
    customers(rng, builder, "c", 12, &[("serve", number)]);
    builder.processor("s", Scheduling::Fcfs);
    let few = threads(rng, 2);
    builder.task("server", "s").multiplicity(few);
    builder
        .entry("serve", "server")
        .service(&[between(rng, 0.1, 1.0), between(rng, 0.1, 1.0)]);
}

fn messages(rng: &mut Rng, builder: &mut Builder) {
    customers(rng, builder, "c", 10, &[("serve", 1.0)]);
    builder.processor("s", Scheduling::Fcfs);
    builder.processor("l", Scheduling::Fcfs);
    let few = threads(rng, 3);
    builder.task("server", "s").multiplicity(few);
    builder.task("log", "l");
    builder
        .entry("serve", "server")
        .service(&[between(rng, 0.2, 0.8)])
        .sends("write", &[between(rng, 0.5, 2.0)]);
    builder
        .entry("write", "log")
        .service(&[between(rng, 0.1, 0.5)]);
}

fn open(rng: &mut Rng, builder: &mut Builder) {
    builder.processor("f", Scheduling::Fcfs);
    builder.processor("b", Scheduling::Fcfs);
    builder
        .task("front", "f")
        .multiplicity(Multiplicity::Infinite);
    builder.task("back", "b");
    builder
        .entry("ask", "front")
        .service(&[between(rng, 0.2, 0.6)])
        .calls("answer", &[between(rng, 0.5, 1.5)])
        .open_arrivals(between(rng, 0.2, 0.9));
    builder
        .entry("answer", "back")
        .service(&[between(rng, 0.2, 0.8)]);
    if rng.bool() {
        customers(rng, builder, "c", 6, &[("answer", 1.0)]);
    }
}

fn forwarding(rng: &mut Rng, builder: &mut Builder) {
    customers(rng, builder, "c", 12, &[("ask", 1.0)]);
    builder.processor("f", Scheduling::Fcfs);
    builder
        .processor("w", Scheduling::Fcfs)
        .multiplicity(rng.u32(1..=2));
    builder.task("front", "f");
    let few = threads(rng, 4);
    builder.task("worker", "w").multiplicity(few);
    builder
        .entry("ask", "front")
        .service(&[between(rng, 0.1, 0.5)])
        .forwards("work", between(rng, 0.3, 1.0));
    builder
        .entry("work", "worker")
        .service(&[between(rng, 0.4, 1.2)]);
}

fn sharing(rng: &mut Rng, builder: &mut Builder) {
    customers(rng, builder, "c", 20, &[("outer", 1.0), ("packet", 2.0)]);
    builder.processor("s", Scheduling::Sharing { quantum: 0.01 });
    builder.processor("n", Scheduling::Delay);
    for task in ["a", "b"] {
        builder.task(task, "s").multiplicity(Multiplicity::Infinite);
    }
    builder
        .task("net", "n")
        .multiplicity(Multiplicity::Infinite);
    builder
        .entry("outer", "a")
        .service(&[between(rng, 0.1, 0.3)])
        .calls("inner", &[between(rng, 1.0, 4.0)]);
    builder
        .entry("inner", "b")
        .service(&[between(rng, 0.05, 0.2)]);
    builder
        .entry("packet", "net")
        .service(&[between(rng, 0.01, 0.1)]);
}

fn fixed_order(rng: &mut Rng, builder: &mut Builder) {
    let number = f64::from(rng.u32(1..=4));
    customers(rng, builder, "c", 10, &[("serve", number)]).order(&[CallOrder::Deterministic]);
    builder.processor("s", Scheduling::Fcfs);
    builder
        .task("server", "s")
        .multiplicity(Multiplicity::Infinite);
    builder
        .entry("serve", "server")
        .service(&[between(rng, 0.2, 0.6)])
        .cvsq(&[between(rng, 0.1, 1.0)]);
}

fn soft_bottleneck(rng: &mut Rng, builder: &mut Builder) {
    customers(rng, builder, "c", 60, &[("run", 1.0)]);
    builder.processor("a", Scheduling::Fcfs);
    builder.processor("k", Scheduling::Fcfs);
    let few = threads(rng, 4);
    builder.task("app", "a").multiplicity(few);
    builder.task("disk", "k");
    builder
        .entry("run", "app")
        .service(&[between(rng, 0.05, 0.3)])
        .calls("read", &[between(rng, 1.0, 4.0)]);
    builder
        .entry("read", "disk")
        .service(&[between(rng, 0.05, 0.2)]);
}

fn two_classes(rng: &mut Rng, builder: &mut Builder) {
    builder.processor("s", Scheduling::Fcfs);
    builder
        .task("server", "s")
        .multiplicity(Multiplicity::Infinite);
    for class in ["c", "d"] {
        let entry = format!("serve_{class}");
        customers(rng, builder, class, 8, &[(&entry, 1.0)]);
        builder
            .entry(&entry, "server")
            .service(&[between(rng, 0.1, 2.0)]);
    }
}

/// A server with few threads that shares a full network with whoever calls it, as in the SIP cluster.
fn full_network(rng: &mut Rng, builder: &mut Builder) {
    builder.processor("desk", Scheduling::Delay);
    builder
        .reference("c", "desk")
        .multiplicity(Multiplicity::Finite(rng.u32(12..=24)))
        .think_time(between(rng, 0.0, 0.5));
    let packets = between(rng, 6.0, 12.0);
    builder
        .entry("c_e", "c")
        .service(&[between(rng, 0.05, 0.2)])
        .calls("packet", &[packets])
        .calls("balance", &[2.0])
        .calls("set_up", &[1.0])
        .calls("end", &[1.0]);
    builder.processor("n", Scheduling::Fcfs);
    builder
        .task("net", "n")
        .multiplicity(Multiplicity::Infinite);
    builder
        .entry("packet", "net")
        .service(&[between(rng, 0.1, 0.2)])
        .cvsq(&[between(rng, 0.1, 1.0)]);
    builder.processor("b", Scheduling::Sharing { quantum: 0.01 });
    builder
        .task("balancer", "b")
        .multiplicity(Multiplicity::Infinite);
    builder
        .entry("balance", "balancer")
        .service(&[between(rng, 0.1, 0.3)]);
    builder.processor("s", Scheduling::Fcfs);
    let few = Multiplicity::Finite(rng.u32(3..=12));
    builder.task("server", "s").multiplicity(few);
    for entry in ["set_up", "end"] {
        builder
            .entry(entry, "server")
            .service(&[between(rng, 0.2, 0.6)])
            .calls("packet", &[between(rng, 0.0, 2.0)]);
    }
}

/// By how much each figure is off, beyond the simulator's interval, and its bar.
fn compared(model: &Model, solved: &Results, simulated: &Results) -> Vec<(f64, f64, String)> {
    let mut compared = Vec::new();
    let mut compare = |what: String, ours: Figure, theirs: Figure, bar: f64| {
        let beyond = (ours.value - theirs.value).abs() - theirs.ci95.unwrap_or(0.0);
        if theirs.value > 1e-3 {
            compared.push(((beyond / theirs.value).max(0.0), bar, what));
        }
    };
    for (place, task) in model.tasks().iter().enumerate() {
        let (ours, theirs) = (&solved.tasks[place], &simulated.tasks[place]);
        compare(
            format!("X {}", task.name),
            ours.throughput,
            theirs.throughput,
            0.02,
        );
        compare(
            format!("U {}", task.name),
            ours.utilization,
            theirs.utilization,
            0.02,
        );
    }
    for (place, entry) in model.entries().iter().enumerate() {
        let (ours, theirs) = (&solved.entries[place], &simulated.entries[place]);
        // A queue that grows for ever has no mean wait.
        if ours.lost.value == 0.0 {
            compare(
                format!("W {}", entry.name),
                ours.waiting,
                theirs.waiting,
                0.05,
            );
        }
    }
    compared
}

/// What is off by more than its bar in these kinds of models, in words.
fn missed(kinds: &[(&str, Kind)], compared: Compare) -> String {
    let settings = SimulationSettings { events: EVENTS };
    let mut missed = String::new();
    for (name, kind) in kinds {
        for seed in 0..MODELS {
            let mut rng = Rng::with_seed(seed);
            let mut builder = Builder::new(name);
            kind(&mut rng, &mut builder);
            let model = builder.build().unwrap();
            let solved = lqn::solve(&model);
            assert!(solved.converged, "{name} {seed}: {}", model.to_text());
            let simulated = lqn::simulate(&model, &settings, &mut rng, |_| {});
            for (off, bar, what) in compared(&model, &solved, &simulated) {
                if off > bar {
                    writeln!(
                        missed,
                        "{name} {seed}: {what} off by {:.1} %, {:?}",
                        100.0 * off,
                        solved.method
                    )
                    .unwrap();
                }
            }
        }
    }
    missed
}

#[test]
fn solver_and_simulator_agree_on_models_of_all_kinds() {
    let missed = missed(&KINDS, compared);
    assert!(missed.is_empty(), "\n{missed}");
}

/// How many requests are without a thread was taken from the mean number there, and threads were up to 26 % busier
/// than in simulation. What they wait for is off by more still where hardly anybody waits.
#[test]
fn few_threads_behind_a_full_network() {
    let busy = |model: &Model, solved: &Results, simulated: &Results| {
        let figures = compared(model, solved, simulated).into_iter();
        let busy = figures.filter(|(_, _, what)| what.starts_with('U'));
        busy.map(|(off, _, what)| (off, 0.03, what)).collect()
    };
    let missed = missed(&[("full network", full_network)], busy);
    assert!(missed.is_empty(), "\n{missed}");
}
