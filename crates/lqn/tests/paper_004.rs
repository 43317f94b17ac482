//! "Performance Measurements and Modeling of a Java-based Session Initiation Protocol (SIP)
//! Application Server" (Franks, Lau, Hrischuk, QoSA 2011): the cluster model from its Tables 1 and 2,
//! and its Figure 10. docs/results/paper-004.md says what had to be fitted.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{fs, path::Path};

use lqn::{Builder, Model, Multiplicity, Results, Scheduling};
use serde_json::Value;

/// Customers: fitted, the paper doesn't print their number.
const CUSTOMERS: u32 = 16;

/// Times of packets on a network and the share of it that can be used: Table 2d, 2e and §3.2.2.
#[derive(Clone, Copy)]
struct Network {
    packet: f64,
    usable: f64,
}

impl Network {
    /// The packet, and the time that the network is away: equation 1.
    fn phases(self) -> [f64; 2] {
        [self.packet, self.packet * (1.0 - self.usable) / self.usable]
    }
}

/// Figure 9, in milliseconds.
fn cluster(outer: Network, inner: Network) -> Model {
    let mut builder = Builder::new("the cluster of Figure 9");
    builder.processor("Pdriver", Scheduling::Delay);
    builder.processor("LoadBalancer", Scheduling::Sharing { quantum: 0.1 });
    builder.processor("SIPServer", Scheduling::Fcfs);
    builder.processor("Network", Scheduling::Fcfs);
    builder.processor("Pnull", Scheduling::Delay);
    builder
        .reference("driver", "Pdriver")
        .multiplicity(Multiplicity::Finite(CUSTOMERS));
    builder.task("driverports", "Pdriver");
    builder
        .task("balancer_up", "Pnull")
        .multiplicity(Multiplicity::Infinite);
    builder.task("balancer_down", "Pnull");
    builder
        .task("balancer", "LoadBalancer")
        .multiplicity(Multiplicity::Finite(10));
    builder
        .task("server", "SIPServer")
        .multiplicity(Multiplicity::Finite(10));
    builder.task("net", "Network");
    builder.entry("neta", "net").service(&outer.phases());
    builder.entry("netb", "net").service(&inner.phases());
    // The sum of Table 2a's user times; every other packet on the outer network is the user's.
    let user = builder
        .entry("User", "driver")
        .service(&[0.168])
        .calls("neta", &[8.0]);
    for up in ["up1", "up2", "up3", "up4"] {
        user.calls(up, &[1.0]);
    }
    let (up, server) = ([0.491, 0.185, 0.176, 0.143], [1.211, 0.552, 0.428, 0.402]);
    for number in 1..=4 {
        let name = |what: &str| format!("{what}{number}");
        builder
            .entry(&name("c"), "balancer")
            .service(&[up[number - 1]]);
        let entry = builder
            .entry(&name("server"), "server")
            .service(&[server[number - 1]]);
        if number < 4 {
            entry.calls("netb", &[1.0]).sends(&name("dn"), &[1.0]);
        }
        let entry = builder
            .entry(&name("up"), "balancer_up")
            .calls("netb", &[2.0]);
        entry
            .calls(&name("c"), &[1.0])
            .calls(&name("server"), &[1.0]);
    }
    let (down, ports) = ([0.177, 0.093, 0.091], [0.514, 0.164, 0.136]);
    for number in 1..=3 {
        let name = |what: &str| format!("{what}{number}");
        builder
            .entry(&name("r"), "balancer")
            .service(&[down[number - 1]]);
        builder
            .entry(&name("port"), "driverports")
            .service(&[ports[number - 1]]);
        let entry = builder
            .entry(&name("dn"), "balancer_down")
            .calls("neta", &[1.0]);
        entry.calls(&name("r"), &[1.0]).sends(&name("port"), &[1.0]);
    }
    builder.build().unwrap()
}

fn throughput(results: &Results) -> f64 {
    results.tasks[0].throughput.value * 1000.0
}

#[test]
fn the_cluster_of_tables_3_and_4() {
    let outer = Network {
        packet: 0.0616,
        usable: 0.4,
    };
    let inner = Network {
        packet: 0.0381,
        usable: 0.2,
    };
    let model = cluster(outer, inner);
    let results = lqn::solve(&model);
    let busy = |name: &str| {
        let processor = model.processor_named(name).unwrap();
        results.processor(processor).utilization.value
    };
    let task = |name: &str| {
        let task = model.task_named(name).unwrap();
        results.task(task).utilization.value
    };
    assert!(
        (throughput(&results) / 280.0 - 1.0).abs() < 0.02,
        "{}",
        throughput(&results)
    );
    assert!((busy("Network") - 1.0).abs() < 0.005, "{}", busy("Network"));
    assert!(
        (busy("SIPServer") - 0.73).abs() < 0.015,
        "{}",
        busy("SIPServer")
    );
    assert!(
        (busy("LoadBalancer") - 0.32).abs() < 0.015,
        "{}",
        busy("LoadBalancer")
    );
    assert!(
        (task("balancer") - 0.47).abs() < 0.03,
        "{}",
        task("balancer")
    );
    assert!(
        (task("server") / 4.57 - 1.0).abs() < 0.03,
        "{}",
        task("server")
    );
}

#[test]
fn figure_10() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/fig10-grid.json");
    let grid: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let mut off_by = Vec::new();
    for point in grid.as_array().unwrap() {
        let side = match point["s"].as_str().unwrap() {
            "lo" => -1.0,
            "hi" => 1.0,
            _ => 0.0,
        };
        let outer = Network {
            packet: 0.0616 + side * 0.0029,
            usable: point["eta1"].as_f64().unwrap(),
        };
        let inner = Network {
            packet: 0.0381 + side * 0.0006,
            usable: point["eta2"].as_f64().unwrap(),
        };
        let ours = throughput(&lqn::solve(&cluster(outer, inner)));
        let known = point["lam"].as_f64().unwrap() * 1000.0;
        off_by.push(((ours / known - 1.0).abs(), format!("{point}: {ours}")));
    }
    off_by.sort_by(|a, b| b.0.total_cmp(&a.0));
    assert_eq!(off_by.len(), 75);
    assert!(off_by[0].0 < 0.03, "{:?}", &off_by[..2]);
}
