//! More comes than the node can serve.

use std::time::Duration;

use node::stats::{Dropped, Event};

use crate::{
    harness::{ALICE, Cluster, ONE, Sent, TWO, config, ms, stateful},
    message::{Msg, request},
};

const BOB: &str = "198.51.100.2:5060";

impl Cluster {
    /// The driver has found datagrams that waited for so long.
    fn falls_behind(&mut self, delay: Duration) {
        self.nodes[0].handle_delay(self.now, delay);
    }

    /// The driver has read all that came.
    fn catch_up(&mut self) -> Vec<Sent> {
        self.nodes[0].handle_waiting(self.now, &mut self.out);
        self.settle()
    }
}

fn invite(call: &str) -> Msg {
    request("INVITE", ALICE, call)
}

fn calls(sent: &[Sent]) -> Vec<&str> {
    let requests = sent.iter().filter(|sent| sent.is_request());
    let call_ids = requests.map(|sent| sent.get("Call-ID"));
    call_ids.map(|id| id.trim_end_matches("@test")).collect()
}

/// Messages were served in the order in which they came: under more calls than the node can carry, none was
/// carried at all, as each waited until its caller repeated it.
#[test]
fn what_is_known_goes_first_and_then_the_newest() {
    for config in [config(&[ONE, TWO]), stateful(&[ONE, TWO])] {
        let mut cluster = Cluster::new(config);
        let mut call = cluster.establish("known");
        cluster.falls_behind(ms(19));
        assert_eq!(calls(&cluster.send(&invite("before"))), ["before"]);
        cluster.falls_behind(ms(21));
        for call in ["first", "second"] {
            assert_eq!(cluster.send(&invite(call)).len(), 0, "it waits");
        }
        let help = Msg {
            start: "INVITE urn:service:sos SIP/2.0".into(),
            ..invite("help")
        };
        assert_eq!(cluster.send(&help).len(), 0, "it waits");
        assert_eq!(cluster.send(&invite("third")).len(), 0, "it waits");
        cluster.exchange(&call.caller.request("BYE"), 200);
        assert!(cluster.nodes[0].has_waiting());
        let served = cluster.catch_up();
        assert_eq!(calls(&served), ["help", "third", "second", "first"]);
        assert!(!cluster.nodes[0].has_waiting());
        assert_eq!(cluster.event(Event::OverloadWaited), 4);
        cluster.wait(ms(150));
        assert_eq!(calls(&cluster.send(&invite("after"))), ["after"]);
    }
}

#[test]
fn who_waits_too_long_is_refused_and_not_charged() {
    let mut cluster = Cluster::new(config(&[ONE]));
    cluster.falls_behind(ms(50));
    assert_eq!(cluster.send(&invite("late")).len(), 0);
    let register = request("REGISTER", BOB, "register");
    assert_eq!(cluster.send(&register).len(), 0);
    assert_eq!(cluster.wait(ms(99)).len(), 0);
    let answers = cluster.wait(ms(10));
    let [refusal, pause] = &answers[..] else {
        panic!("{answers:#?}");
    };
    assert_eq!((refusal.status(), refusal.get("Retry-After")), (503, ""));
    assert_eq!(pause.status(), 503);
    let seconds: u64 = pause.get("Retry-After").parse().unwrap();
    assert!((4..=8).contains(&seconds), "{seconds}");
    assert_eq!(cluster.event(Event::OverloadRefused), 2);

    let mut ack = request("ACK", ALICE, "late");
    ack = ack
        .set("To", refusal.get("To"))
        .set("Via", refusal.get("Via"));
    assert_eq!(cluster.send(&ack).len(), 0);
    assert_eq!(cluster.dropped(Dropped::AckOfOurs), 1);
    assert_eq!(cluster.dropped(Dropped::RefusedAck), 0);
}

/// A call that rings is not refused because its INVITE was repeated while the node was behind.
#[test]
fn what_repeats_a_call_is_not_refused() {
    for config in [config(&[ONE]), stateful(&[ONE])] {
        let mut cluster = Cluster::new(config);
        assert_eq!(calls(&cluster.send(&invite("rings"))), ["rings"]);
        cluster.falls_behind(ms(50));
        assert_eq!(cluster.send(&invite("rings")).len(), 0);
        cluster.wait(ms(120));
        assert_eq!(cluster.event(Event::OverloadRefused), 0);
    }
}

/// Only so many are told: to tell all would cost what the others need.
#[test]
fn refusals_are_bounded() {
    let mut cluster = Cluster::new(config(&[ONE]));
    cluster.falls_behind(ms(50));
    for number in 0..1_000 {
        cluster.send(&invite(&format!("call {number}")));
    }
    cluster.wait(ms(120));
    assert_eq!(cluster.event(Event::OverloadRefused), 64);
    assert_eq!(cluster.dropped(Dropped::Overload), 936);
    assert_eq!(cluster.shared.workers()[0].lobby_bytes(), 0);
}
