//! The fuzz target's corpus, replayed. Its seeds are calls as they are played here: a message
//! carries branches and tokens that only the node can make.

use std::{fs, path::PathBuf};

use crate::{
    harness::{ALICE, BOB, Cluster, ONE, TRANSACTION_MAX, ms, s},
    message::{Dialog, request},
    play::{HELD, config, play},
};

fn corpus() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/corpus/node"
    ))
}

#[test]
fn what_the_fuzzer_found_is_withstood() {
    for entry in fs::read_dir(corpus()).unwrap() {
        play(&fs::read(entry.unwrap().path()).unwrap());
    }
}

/// A seed that is not as it is played is written anew; then this passes, and git shows it.
#[test]
fn seeds_are_calls() {
    for (name, scenario) in SEEDS {
        let mut cluster = Cluster::with_workers(config(), 2);
        scenario(&mut cluster);
        let path = corpus().join(name);
        let is_current = fs::read(&path).is_ok_and(|seed| seed == cluster.tape);
        if !is_current {
            fs::write(&path, &cluster.tape).unwrap();
        }
        assert!(
            is_current,
            "{name} was not up to date: look at it and commit it"
        );
        assert_eq!(
            play(&cluster.tape),
            cluster.sent,
            "{name} is played as it was recorded"
        );
    }
}

type Scenario = fn(&mut Cluster);

const SEEDS: [(&str, Scenario); 10] = [
    ("call", call),
    ("cancel", cancel),
    ("failover", failover),
    ("icmp", icmp),
    ("leak", leak),
    ("originated", originated),
    ("path", path),
    ("stateful", stateful),
    ("subscription", subscription),
    ("tokens", tokens),
];

fn call(cluster: &mut Cluster) {
    let mut call = cluster.establish("call");
    cluster.exchange(&call.caller.request("INFO"), 200);
    let sent = call.callee.request("INVITE");
    cluster.exchange(&sent, 200);
    cluster.pass(&call.callee.ack_latest());
    cluster.exchange(&call.caller.request("BYE"), 200);
    cluster.wait(TRANSACTION_MAX + ms(20));
}

fn cancel(cluster: &mut Cluster) {
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    cluster.pass(&received.respond(180));
    cluster.exchange(&invite.cancel(), 200);
    let failure = cluster.pass(&received.respond(487));
    cluster.pass(&invite.ack_of(&failure));
}

fn failover(cluster: &mut Cluster) {
    let invite = request("INVITE", ALICE, "call");
    let first = cluster.pass(&invite);
    let sent = cluster.wait(s(1) + ms(20));
    let second = sent.iter().find(|sent| sent.method() == "INVITE").unwrap();
    let sent = cluster.send(&second.respond(503).with("Retry-After", 5));
    cluster.send(&first.respond(500));
    cluster.pass(&sent[0].respond(200));
}

fn icmp(cluster: &mut Cluster) {
    let first = cluster.pass(&request("INVITE", ALICE, "call"));
    let server = first.to.to_string();
    let sent = cluster.unreachable(&server);
    let second = sent.iter().find(|sent| sent.method() == "INVITE").unwrap();
    cluster.wait(ms(300));
    cluster.unreachable(&server);
    cluster.quote(second.to, &first.bytes[..90]);
    cluster.pass(&second.respond(200));
}

fn leak(cluster: &mut Cluster) {
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    let answer = received.respond(200).with("Session-Expires", 90);
    let answered = cluster.pass(&answer);
    let mut caller = Dialog::of_caller(&invite, &answered);
    cluster.pass(&caller.ack());
    cluster.wait(s(60));
    cluster.exchange(&caller.request("UPDATE"), 200);
    let name = format!("{};to-tag=a;from-tag=b", invite.get("Call-ID"));
    cluster.pass(&request("INVITE", BOB, "other").with("Replaces", name));
    cluster.wait(s(300));
}

fn originated(cluster: &mut Cluster) {
    let mut invite = request("INVITE", ONE, "out");
    invite.start = format!("INVITE sip:bob@{BOB} SIP/2.0");
    let received = cluster.pass(&invite);
    let answer = received.respond(200);
    let answered = cluster.pass(&answer);
    cluster.pass(&Dialog::of_caller(&invite, &answered).ack());
    let mut callee = Dialog::of_callee(&received, &answer);
    cluster.exchange(&callee.request("BYE"), 200);
}

fn subscription(cluster: &mut Cluster) {
    let sent = request("SUBSCRIBE", ALICE, "watch").with("Event", "presence");
    let received = cluster.pass(&sent);
    let answer = received.respond(200).with("Expires", 600);
    cluster.pass(&answer);
    let mut notifier = Dialog::of_callee(&received, &answer);
    let last = notifier
        .request("NOTIFY")
        .with("Subscription-State", "terminated");
    cluster.exchange(&last, 200);
}

/// A phone registers through the node, and is called by its Path, by its server and by a stranger.
fn path(cluster: &mut Cluster) {
    let register = request("REGISTER", ALICE, "phone").set("Contact", "<sip:alice@192.168.1.2>");
    let received = cluster.pass(&register);
    let path = received.all("Path").join(", ");
    cluster.pass(&received.respond(200));
    for (from, call) in [(ONE, "called"), (BOB, "stolen")] {
        let mut invite = request("INVITE", from, call).with("Route", &path);
        invite.start = "INVITE sip:alice@192.168.1.2 SIP/2.0".to_owned();
        cluster.send(&invite);
    }
    cluster.wait(TRANSACTION_MAX);
}

/// A call whose transactions are held: repeated, cancelled, refused.
fn stateful(cluster: &mut Cluster) {
    let mut invite = request("INVITE", ALICE, "held");
    invite.start = format!("INVITE sip:bob@{HELD} SIP/2.0");
    let sent = cluster.send(&invite);
    let received = sent.iter().find(|sent| sent.method() == "INVITE").unwrap();
    cluster.send(&invite);
    cluster.send(&received.respond(180));
    cluster.send(&invite.cancel());
    cluster.wait(s(1));
    for failure in cluster.send(&received.respond(487)) {
        cluster.send(&invite.ack_of(&failure));
    }
    cluster.wait(TRANSACTION_MAX);
}

/// The token of a call with its tags swapped, with another Call-ID, cut, and from another address.
fn tokens(cluster: &mut Cluster) {
    let mut call = cluster.establish("call");
    let info = call.caller.request("INFO");
    let (from, to) = (info.get("From").to_owned(), info.get("To").to_owned());
    let route = info.get("Route").to_owned();
    let cut = route.replacen("sip:", "sip:A", 1);
    let swapped = info.clone().set("From", to).set("To", from);
    let other = info.clone().set("Call-ID", "other");
    let damaged = info.clone().set("Route", cut);
    for forged in [swapped, other, damaged] {
        cluster.send(&forged);
        cluster.send(&forged.from(BOB));
    }
    cluster.wait(TRANSACTION_MAX);
}
