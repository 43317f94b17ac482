//! What a driver sees of a node by a tap.

use node::{
    stats::{Dropped, Event},
    tap::{Tap, Tapped, What, Why},
};

use crate::{
    harness::{ALICE, Cluster, ONE, TWO, config, ms},
    message::request,
};

fn seen(cluster: &mut Cluster) -> Vec<String> {
    let tap = cluster.out.tap.as_ref().unwrap();
    let entries = tap.entries().iter().flat_map(|entry| match entry.what {
        What::Received(flow) => vec![format!(
            "{} sends {}",
            flow.remote,
            word(tap.message(entry))
        )],
        What::Sent(flow) => vec![format!("{} gets {}", flow.remote, word(tap.message(entry)))],
        What::Because(moves) => moves.reasons().map(Why::label).collect(),
        What::Placed(place) => {
            let (session, view) = tap.placement(place, &cluster.shared.snapshot());
            assert_eq!(session, cluster.shared.snapshot().session_of(b"call@test"));
            vec![format!("{} chose of {}", view.policy, view.ledgers.len())]
        }
    });
    let seen = entries.collect();
    cluster.out.tap.as_mut().unwrap().clear();
    seen
}

fn word(message: &[u8]) -> String {
    let text = String::from_utf8_lossy(message);
    text.split(' ').next().unwrap_or_default().to_owned()
}

#[test]
fn a_tap_tells_what_came_and_went_and_why() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    cluster.out.tap = Some(Tap::new(10_000));
    let received = cluster.pass(&request("INVITE", ALICE, "call"));
    let server = received.to;
    let arrival = [
        format!("{ALICE} sends INVITE"),
        "cjsq chose of 2".to_owned(),
        format!("{server} gets INVITE"),
    ];
    assert_eq!(seen(&mut cluster), arrival);
    let moved = cluster.wait(ms(1_100));
    let timed_out = [
        "failed_over".to_owned(),
        "cjsq chose of 2".to_owned(),
        format!("{} gets INVITE", moved[0].to),
    ];
    assert_eq!(seen(&mut cluster), timed_out);
    let via = "SIP/2.0/UDP 192.0.2.99;branch=z9hG4bKsomebodys";
    cluster.send(&received.respond(200).set("Via", via));
    let dropped = Why::Dropped(Dropped::ForeignResponse).label();
    assert_eq!(seen(&mut cluster)[1..], [dropped]);
    let to = "<sip:bob@example.com>;tag=1";
    cluster.send(&request("BYE", ALICE, "other").set("To", to));
    assert_eq!(seen(&mut cluster)[1], Why::Replied(481).label());
}

#[test]
fn a_full_tap_counts_what_it_misses() {
    let mut cluster = Cluster::new(config(&[ONE]));
    cluster.out.tap = Some(Tap::new(100));
    cluster.pass(&request("INVITE", ALICE, "call"));
    assert_eq!(cluster.out.tap.as_ref().unwrap().missed(), 3);
    assert_eq!(cluster.event(Event::Received), 1);
    assert_eq!(seen(&mut cluster), Vec::<String>::new());
}

/// All of a flood of requests that were refused was recorded, which took a sixth of an overloaded node.
#[test]
fn a_tap_leaves_most_of_a_flood_out() {
    let mut cluster = Cluster::new(config(&[ONE]));
    cluster.out.tap = Some(Tap::new(1_000_000));
    let via = "SIP/2.0/UDP 192.0.2.99;branch=z9hG4bKsomebodys";
    let received = cluster.pass(&request("INVITE", ALICE, "call"));
    let foreign = received.respond(200).set("Via", via);
    let mut flood = |responses: u32| {
        cluster.out.tap.as_mut().unwrap().clear();
        (0..responses).for_each(|_| drop(cluster.send(&foreign)));
        let tap = cluster.out.tap.as_ref().unwrap();
        let is_message = |entry: &&Tapped| matches!(entry.what, What::Received(_));
        let recorded = tap.entries().iter().filter(is_message).count();
        let missed = tap.missed();
        cluster.wait(ms(1_000));
        (recorded, missed)
    };
    assert_eq!(flood(150), (100, 50));
    assert_eq!(flood(100), (100, 0), "in the next second");
}

/// To copy all messages of each call took a quarter of a busy node, and its memory held a fifth of a second of them.
#[test]
fn a_tap_leaves_calls_out_whole() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let mut tap = Tap::new(1_000_000);
    tap.keep_one_in(4);
    cluster.out.tap = Some(tap);
    let recorded = |cluster: &mut Cluster| {
        let tap = cluster.out.tap.as_mut().unwrap();
        let is_message = |entry: &&Tapped| matches!(entry.what, What::Received(_) | What::Sent(_));
        let messages = tap.entries().iter().filter(is_message).count();
        let bytes = (tap.len(), tap.left_out());
        tap.clear();
        (messages, bytes)
    };
    let mut kept = 0;
    for call in 0..200 {
        let received = cluster.pass(&request("INVITE", ALICE, &format!("call-{call}")));
        cluster.send(&received.respond(200));
        match recorded(&mut cluster) {
            (0, (0, 1..)) => {}
            (4, (1.., 0)) => kept += 1,
            some => panic!("a part of a call: {some:?}"),
        }
    }
    assert!((30..70).contains(&kept), "{kept}");
    cluster.send(&request("INVITE", ALICE, "malformed").without("CSeq"));
    let (messages, (_, left_out)) = recorded(&mut cluster);
    assert_eq!((messages, left_out), (2, 0), "what is of no call is kept");
}
