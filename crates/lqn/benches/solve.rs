//! Time to solve the models of docs/results/lqn.md. Bars: the cluster in 10 ms, a thousand variants of it in 5 s on one core.

#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

use divan::{Bencher, black_box};
use lqn::{Builder, Model, Multiplicity, Parameter, Scheduling};

fn main() {
    divan::main();
}

fn model(name: &str) -> Model {
    let file = format!("tests/models/{name}.lqn");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    Model::from_text(&fs::read_to_string(file).unwrap()).unwrap()
}

const MODELS: [&str; 7] = [
    "t02-three-tier",
    "t14-soft-bottleneck",
    "standalone-plain",
    "standalone-fifo-n10",
    "standalone-ordered",
    "cluster-all22",
    "cluster-shed",
];

#[divan::bench(args = MODELS, sample_count = 10)]
fn one(bencher: Bencher<'_, '_>, name: &str) {
    let model = model(name);
    bencher.bench(|| lqn::solve(&model));
}

/// Ten balancers' times, ten servers' times, ten times of the network.
#[divan::bench(sample_count = 3, sample_size = 1)]
fn thousand_clusters(bencher: Bencher<'_, '_>) {
    let model = model("cluster-shed");
    let varied = ["balancer.c1.1", "server.server1.1", "net.neta.2"];
    let varied = varied.map(|name| Parameter::named(&model, name).unwrap());
    let point = |number: u32| {
        let share = |place: u32| 0.8 + 0.04 * f64::from(number / 10_u32.pow(place) % 10);
        let changes = varied.iter().zip(0..);
        let changes: Vec<_> = changes
            .map(|(&parameter, place)| (parameter, share(place) * parameter.value(&model)))
            .collect();
        model.with(&changes).unwrap()
    };
    let models: Vec<Model> = (0..1_000).map(point).collect();
    bencher.bench(|| {
        models
            .iter()
            .for_each(|model| drop(black_box(lqn::solve(model))))
    });
}

/// A cluster of two stages: three edges, so many registrars, a store for each.
#[divan::bench(args = [2, 4, 16, 64], sample_count = 10)]
fn copies(bencher: Bencher<'_, '_>, registrars: u32) {
    let edges = 3;
    let mut builder = Builder::new("two stages");
    builder.processor("desk", Scheduling::Delay);
    for (host, replicas) in [("e", edges), ("r", registrars), ("s", registrars)] {
        builder.processor(host, Scheduling::Fcfs).replicas(replicas);
    }
    let users = builder.reference("users", "desk").think_time(2.0);
    users
        .multiplicity(Multiplicity::Finite(20))
        .fan_out("edge", edges);
    let edge = builder.task("edge", "e").replicas(edges);
    edge.multiplicity(Multiplicity::Infinite)
        .fan_out("registrar", registrars);
    let registrar = builder.task("registrar", "r").replicas(registrars);
    registrar.multiplicity(Multiplicity::Infinite);
    builder.task("store", "s").replicas(registrars);
    builder
        .entry("call", "users")
        .calls("route", &[1.0 / f64::from(edges)]);
    let route = builder.entry("route", "edge").service(&[0.2]);
    route.calls("find", &[1.0 / f64::from(registrars)]);
    builder
        .entry("find", "registrar")
        .service(&[0.5])
        .calls("read", &[0.7]);
    builder.entry("read", "store").service(&[0.4]);
    let model = builder.build().unwrap();
    bencher.bench(|| lqn::solve(&model));
}

/// An INVITE that rings at so many phones at the same time, as an activity graph.
#[divan::bench(args = [2, 4, 8], sample_count = 10)]
fn forks(bencher: Bencher<'_, '_>, phones: u32) {
    let names: Vec<String> = (0..phones).map(|phone| format!("ring_{phone}")).collect();
    let work: String = names
        .iter()
        .map(|name| format!(" s {name} 0.05\n y {name} answer 1\n f {name} 1\n"))
        .collect();
    let all = names.join(" & ");
    let text = format!(
        "P 0\n p desk i\n p host f m 2\n p phone i\n-1\n\
         T 0\n t users r call -1 desk z 5 m 20\n t proxy i invite -1 host\n t phone i answer -1 phone\n-1\n\
         E 0\n y call invite 1 -1\n A invite find\n s answer 2 -1\n-1\n\
         A proxy\n s find 0.1\n{work} s done 0.05\n:\n find -> {all}; {all} -> done[invite]\n-1\n"
    );
    let model = Model::from_text(&text).unwrap();
    bencher.bench(|| lqn::solve(&model));
}

/// So many callers, and as many registering phones, whose server gives way to the callers'.
#[divan::bench(args = [2, 4, 8, 32], sample_count = 10)]
fn priorities(bencher: Bencher<'_, '_>, customers: u32) {
    let text = format!(
        "P 0\n p desk i\n p host p m 2\n-1\n\
         T 0\n t callers r call -1 desk z 5 m {customers}\n t phones r refresh -1 desk z 9 m {customers}\n\
         \u{20}t proxy i invite -1 host 1\n t registrar n register -1 host m 4\n-1\n\
         E 0\n y call invite 1 -1\n y refresh register 1 -1\n s invite 0.3 -1\n s register 0.5 -1\n-1\n"
    );
    let model = Model::from_text(&text).unwrap();
    bencher.bench(|| lqn::solve(&model));
}

/// So many callers at a table that a semaphore guards.
#[divan::bench(args = [2, 8, 32], sample_count = 10)]
fn semaphores(bencher: Bencher<'_, '_>, customers: u32) {
    let text = format!(
        "P 0\n p desk i\n p host f m 2\n-1\n\
         T 0\n t callers r call -1 desk z 5 m {customers}\n t proxy i invite -1 host\n\
         \u{20}t table S enter leave -1 host\n-1\n\
         E 0\n y call enter 1 -1\n y call invite 1 -1\n y call leave 1 -1\n f call 1 -1\n s invite 0.1 -1\n\
         \u{20}s enter 0.01 -1\n V enter\n s leave 0.01 -1\n P leave\n-1\n"
    );
    let model = Model::from_text(&text).unwrap();
    bencher.bench(|| lqn::solve(&model));
}
