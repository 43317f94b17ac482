//! Time to solve the models of docs/results/lqn.md. Bars: the cluster in 10 ms, a thousand variants of it in 5 s on one core.

#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

use divan::{Bencher, black_box};
use lqn::{Model, Parameter};

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
