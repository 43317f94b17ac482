//! Calls that belong to another worker than the one whose socket was hit.

use node::stats::Event;

use crate::{
    harness::{ALICE, Cluster, ONE, TWO, config},
    message::request,
};

#[test]
fn any_worker_takes_any_message_of_a_call() {
    let mut cluster = Cluster::with_workers(config(&[ONE, TWO]), 4);
    for number in 0..40 {
        let mut call = cluster.establish(&format!("call{number}"));
        cluster.exchange(&call.caller.request("INFO"), 200);
        cluster.exchange(&call.callee.request("BYE"), 200);
    }
    assert_eq!(cluster.total(), (0, 0, 0.0));
    assert_eq!(cluster.sizes(), (0, 40, 0));
    assert!(cluster.event(Event::HandedOver) > 100);
    assert!(cluster.nodes.iter().all(|node| node.recount().is_empty()));
}

#[test]
fn a_handover_is_received_once() {
    let mut cluster = Cluster::with_workers(config(&[ONE]), 4);
    for number in 0..20 {
        cluster.pass(&request("OPTIONS", ALICE, &format!("call{number}")));
    }
    assert_eq!(cluster.event(Event::Received), 20);
    assert_eq!(cluster.event(Event::Sent), 20);
}

#[test]
fn calls_are_shared_out_among_the_workers() {
    let mut cluster = Cluster::with_workers(config(&[ONE]), 4);
    for number in 0..200 {
        cluster.pass(&request("INVITE", ALICE, &format!("call{number}")));
    }
    for node in &cluster.nodes {
        let calls: u64 = node.recount().values().map(|open| open.calls).sum();
        assert!((25..=75).contains(&calls), "{calls}");
    }
}
