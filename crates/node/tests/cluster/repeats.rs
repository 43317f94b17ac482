//! What a held transaction repeats at a server that has told how much to send.

use node::stats::Event;

use crate::{
    control::{address, controlled, tell},
    harness::{ALICE, Cluster, ONE, Sent, ms, stateful},
    message::request,
};

/// A sender had sent thousands of INVITEs before it heard of a rate. It repeated them all, and the server had no time for
/// anything else.
#[test]
fn an_unanswered_invite_is_repeated_only_as_the_server_wants() {
    let terms = |validity| format!(";oc=0;oc-algo=\"rate\";oc-validity={validity};oc-seq=1.0");
    let to = |sent: &[Sent], peer| sent.iter().filter(|it| it.to == address(peer)).count();
    let begin = |validity| {
        let mut cluster = Cluster::new(controlled(stateful(&[ONE])));
        cluster.pass(&request("INVITE", ALICE, "slow"));
        tell(&mut cluster, "other", &terms(validity));
        cluster
    };
    let mut longer = begin(5_000);
    let sent = longer.wait(ms(1_400));
    assert_eq!(
        (to(&sent, ONE), longer.event(Event::RepeatWithheld)),
        (0, 1)
    );
    let sent = longer.wait(ms(200));
    let answer = sent.iter().find(|it| it.to == address(ALICE)).unwrap();
    assert_eq!((answer.message.status(), to(&sent, ONE)), (500, 0));
    assert_eq!(longer.event(Event::RepeatWithheld), 2);

    let mut shorter = begin(1_000);
    assert_eq!(to(&shorter.wait(ms(1_400)), ONE), 0);
    assert_eq!(to(&shorter.wait(ms(200)), ONE), 1, "as usual again");
}

/// An INVITE within a call was withheld like a new one, and refused after 1.5 s.
#[test]
fn an_unanswered_invite_within_a_call_is_repeated_all_the_same() {
    let mut cluster = Cluster::new(controlled(stateful(&[ONE])));
    let mut call = cluster.establish("call");
    cluster.pass(&call.caller.request("INVITE"));
    let terms = ";oc=0;oc-algo=\"rate\";oc-validity=5000;oc-seq=1.0";
    tell(&mut cluster, "other", terms);
    let sent = cluster.wait(ms(1_600));
    let repeated = sent.iter().filter(|it| it.to == address(ONE)).count();
    assert_eq!((repeated, cluster.event(Event::RepeatWithheld)), (2, 0));
}
