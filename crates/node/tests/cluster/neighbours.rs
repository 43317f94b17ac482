//! What an overloaded node tells its neighbours: the server's part of RFC 7339 and RFC 7415.

use std::time::Duration;

use node::{Config, Forecast, Transport, config::Listener, stats::Event};

use crate::{
    control::{ALL, address, controlled, tell, told, via},
    harness::{ALICE, BOB, Cluster, ONE, Sent, config, ms, stateful},
    message::{Msg, request},
};

/// A node that believes Alice's host.
fn server(mut config: Config) -> Cluster {
    config.trust.peers = vec![format!("{}/32", address(ALICE).ip()).parse().unwrap()];
    Cluster::new(config)
}

fn offering(call: &str, from: &str, algorithms: &str) -> Msg {
    let invite = request("INVITE", from, call);
    let offer = format!("{};oc;oc-algo=\"{algorithms}\"", via(&invite));
    let mut offering = invite;
    offering.headers[0].1 = offer;
    offering
}

/// The parameters of overload control that an answer has, without `oc-seq`.
fn terms(answer: &Msg) -> String {
    let params = via(answer)
        .split(';')
        .filter(|param| param.starts_with("oc"));
    let known = params.filter(|param| !param.starts_with("oc-seq="));
    known.collect::<Vec<_>>().join(";")
}

#[test]
fn neighbours_are_told_how_much_to_send() {
    for config in [config(&[ONE]), stateful(&[ONE])] {
        let mut node = server(config);
        let calm = node.pass(&offering("calm", ALICE, "loss,rate"));
        assert!(!via(&calm).contains(";oc"), "RFC 7339 §5.6: {}", via(&calm));
        assert!(!calm.headers[1].1.contains(";oc"), "{}", calm.headers[1].1);
        let back = node.pass(&calm.respond(180));
        assert_eq!(terms(&back), "oc=0;oc-algo=\"rate\";oc-validity=0");
        node.shared.neighbours().set_capacity(0, Some(100.0));
        node.now += ms(200);
        let over = node.pass(&offering("over", ALICE, "loss,rate"));
        let back = node.pass(&over.respond(180));
        assert_eq!(terms(&back), "oc=105;oc-algo=\"rate\";oc-validity=2000");
        node.shared.neighbours().set_capacity(0, None);
        node.now += ms(200);
        let back = node.pass(&over.respond(183));
        assert!(terms(&back).ends_with("oc-validity=2000"), "not at once");
        node.now += ms(1_200);
        let back = node.pass(&over.respond(183));
        assert_eq!(terms(&back), "oc=0;oc-algo=\"rate\";oc-validity=0");
        let seq = |answer: &Msg| via(answer).split("oc-seq=").nth(1).unwrap().to_owned();
        assert!(seq(&back).len() > 6, "{}", seq(&back));
    }
}

/// The first of three nodes sent on what the last had no room for, and the one between refused it all.
#[test]
fn a_neighbour_is_told_what_those_behind_take() {
    let mut node = server(controlled(config(&[ONE])));
    let fifty = ";oc=50;oc-algo=\"rate\";oc-validity=60000;oc-seq=1.0";
    tell(&mut node, "call", fifty);
    let mut last = String::new();
    for number in 0..400 {
        node.wait(ms(10));
        let sent = node.pass(&offering(&format!("call{number}"), ALICE, "rate"));
        match sent.is_request() {
            true => drop(node.send(&told(&sent, 486, fifty))),
            false => last = terms(&sent),
        }
    }
    assert!(
        node.event(Event::Restricted) > 100,
        "{}",
        node.event(Event::Restricted)
    );
    let rate = last.split(['=', ';']).nth(1).unwrap().parse::<u32>();
    assert!((45..=60).contains(&rate.unwrap()), "{last}");
    assert!(last.ends_with("oc-validity=2000"), "{last}");
}

/// Its messages come to any worker, and its calls belong to any.
#[test]
fn all_workers_tell_the_same() {
    let mut config = config(&[ONE]);
    config.trust.peers = vec![format!("{}/32", address(ALICE).ip()).parse().unwrap()];
    let mut node = Cluster::with_workers(config, 4);
    for (worker, capacity) in [(0, 30.0), (2, 20.0)] {
        node.shared
            .neighbours()
            .set_capacity(worker, Some(capacity));
    }
    node.pass(&offering("first", ALICE, "rate"));
    node.now += ms(100);
    for number in 0..40 {
        let sent = node.pass(&offering(&format!("call{number}"), ALICE, "rate"));
        let back = node.pass(&sent.respond(180));
        assert_eq!(terms(&back), "oc=105;oc-algo=\"rate\";oc-validity=2000");
    }
}

#[test]
fn a_neighbour_that_knows_no_rate_is_told_a_loss() {
    let mut node = server(config(&[ONE]));
    node.shared.neighbours().set_capacity(0, Some(10.0));
    let mut last = String::new();
    for number in 0..300 {
        node.now += ms(10);
        let sent = node.pass(&offering(&format!("call{number}"), ALICE, "loss"));
        let back = node.pass(&sent.respond(486));
        last = terms(&back);
    }
    let loss = last.split(['=', ';']).nth(1).unwrap();
    // It obeys nothing: so it seems to want more and more.
    assert!(loss.parse::<u32>().unwrap() >= 89, "{last}");
    assert!(
        last.ends_with("oc-algo=\"loss\";oc-validity=2000"),
        "{last}"
    );
}

/// The operator says who gets how much of what an overloaded node can serve.
#[test]
fn who_weighs_more_is_told_more() {
    let mut config = config(&[ONE]);
    config.trust.peers = vec!["203.0.113.0/24".parse().unwrap()];
    config.trust.weights = vec![(address(ALICE).ip().into(), 3)];
    let mut node = Cluster::new(config);
    node.shared.neighbours().set_capacity(0, Some(100.0));
    let mut told = [String::new(), String::new()];
    for number in 0..100 {
        node.now += ms(10);
        for (from, told) in [ALICE, BOB].into_iter().zip(&mut told) {
            let sent = node.pass(&offering(&format!("{number}-{from}"), from, "rate"));
            *told = terms(&node.pass(&sent.respond(486)));
        }
    }
    let [alice, bob] = told;
    // Of 105, and rounded to either side.
    let is_told = |terms: &str, either: [&str; 2]| either.iter().any(|it| terms.starts_with(it));
    assert!(is_told(&alice, ["oc=78;", "oc=79;"]), "{alice}");
    assert!(is_told(&bob, ["oc=26;", "oc=27;"]), "{bob}");
}

/// Beside a flood of calls over strangers' connections a neighbour that obeys was told half of what it could send. Strangers over
/// streams have the time that neighbours leave.
#[test]
fn strangers_have_a_claim_over_udp_alone() {
    let mut config = config(&[ONE]);
    config.trust.peers = vec![format!("{}/32", address(ALICE).ip()).parse().unwrap()];
    config.listeners.push(Listener {
        transport: Transport::Tcp,
        ..config.listeners[0].clone()
    });
    for (listener, told) in [(0, ["oc=52;", "oc=53;"]), (1, ["oc=105;", "oc=105;"])] {
        let mut node = Cluster::new(config.clone());
        node.shared.neighbours().set_capacity(0, Some(100.0));
        if listener == 1 {
            node.connect(BOB, listener, 7);
        }
        let mut last = String::new();
        for number in 0..100 {
            node.now += ms(10);
            for copy in 0..4 {
                node.send(&request("INVITE", BOB, &format!("{number}-{copy}")));
            }
            let sent = node.pass(&offering(&format!("{number}-alice"), ALICE, "rate"));
            last = terms(&node.pass(&sent.respond(486)));
        }
        assert!(
            told.iter().any(|it| last.starts_with(it)),
            "{listener}: {last}"
        );
    }
}

/// A neighbour that took no part had nine times as much served as those who obeyed.
#[test]
fn who_overruns_its_share_waits_with_strangers() {
    let mut config = config(&[ONE]);
    config.trust.peers = vec!["203.0.113.0/24".parse().unwrap()];
    let mut node = Cluster::new(config);
    node.shared.neighbours().set_capacity(0, Some(100.0));
    for number in 0..100 {
        node.now += ms(10);
        node.send(&offering(&format!("{number}-alice"), ALICE, "rate"));
        for copy in 0..4 {
            node.send(&request("INVITE", BOB, &format!("{number}-{copy}-bob")));
        }
    }
    let snapshot = node.shared.snapshot();
    let has_lanes = |from| node.shared.has_lanes(&snapshot, address(from).ip());
    assert_eq!([ALICE, BOB].map(has_lanes), [false, true]);
    assert_eq!(node.event(Event::Unruly), 1);
    assert_eq!(node.shared.unruly_hosts(), [address(BOB).ip()]);

    // `explain` said that its urgent calls come in, but the kernel's rule stops them as those of strangers.
    for number in 0..3_000 {
        if number % 10 == 0 {
            node.nodes[0].handle_delay(node.now, None, ms(50));
            node.wait(ms(10));
        }
        node.send(&request("INVITE", BOB, &format!("{number}-late")));
    }
    let stay_out = |from: &str, target: &str| {
        let calls = (0..200).map(|number| {
            let mut invite = request("INVITE", from, &format!("{number}-urgent"));
            invite.start = format!("INVITE {target} SIP/2.0");
            invite.with("Resource-Priority", "ets.0").to_string()
        });
        let node = &node.nodes[0];
        let now = Duration::from_secs(10);
        let forecasts =
            calls.map(|text| node.explain_message(now, text.as_bytes(), Some(address(from)), 0));
        let out = forecasts
            .filter(|forecast| matches!(forecast, Forecast::StaysOut { class: "calls", .. }));
        out.count()
    };
    assert!(stay_out(BOB, "sip:service@example.com") > 0);
    assert_eq!(stay_out(ALICE, "sip:service@example.com"), 0);
    assert_eq!(stay_out(BOB, "urn:service:sos"), 0);
}

#[test]
fn answers_of_our_own_tell_it_too() {
    let mut node = server(stateful(&[ONE]));
    node.shared.neighbours().set_capacity(0, Some(100.0));
    node.pass(&offering("call", ALICE, "rate"));
    let trying = node.wait(ms(200));
    let trying = trying.iter().find(|sent| sent.status() == 100).unwrap();
    assert_eq!(terms(trying), "oc=105;oc-algo=\"rate\";oc-validity=2000");
    node.shared.drain();
    let refused = node.pass(&offering("another", ALICE, "rate"));
    assert_eq!(refused.status(), 503);
    assert!(
        terms(&refused).starts_with("oc=105;oc-algo=\"rate\""),
        "{}",
        via(&refused)
    );
}

/// What is refused unread is offered, too, and its answer tells how much to send.
#[test]
fn who_waited_in_vain_is_counted_and_told() {
    let mut node = server(config(&[ONE]));
    node.is_overloaded();
    node.nodes[0].handle_delay(node.now, None, ms(50));
    for call in ["one", "two"] {
        assert_eq!(
            node.send(&offering(call, ALICE, "rate")).len(),
            0,
            "it waits"
        );
    }
    let refused = node.wait(ms(450));
    let is_of_them = |sent: &Sent| ["one@test", "two@test"].contains(&sent.get("Call-ID"));
    let is_told = |sent: &&Sent| sent.status() == 503 && is_of_them(sent);
    let told: Vec<_> = refused.iter().filter(is_told).collect();
    assert!(!told.is_empty(), "{refused:#?}");
    for refusal in told {
        assert!(via(refusal).contains(";oc="), "{}", via(refusal));
    }
    assert_eq!(node.shared.neighbours().followed(), 1);
}

/// Anybody can write an offer and somebody's address on a datagram.
#[test]
fn strangers_are_told_nothing() {
    let mut node = server(config(&[ONE]));
    node.shared.neighbours().set_capacity(0, Some(100.0));
    let sent = node.pass(&offering("call", BOB, "loss,rate"));
    let back = node.pass(&sent.respond(180));
    assert_eq!(terms(&back), "");
    node.shared.drain();
    let refused = node.pass(&offering("another", BOB, "loss,rate"));
    assert_eq!(terms(&refused), "oc;oc-algo=\"loss,rate\"", "as it came");
    assert_eq!(node.shared.neighbours().followed(), 0);
}

/// A server behind the node can't speak for the node.
#[test]
fn what_a_server_says_of_others_goes_no_further() {
    let mut node = server(config(&[ONE]));
    let sent = node.pass(&request("INVITE", ALICE, "call"));
    let mut answer = sent.respond(180);
    let own = answer.headers.iter_mut().filter(|(name, _)| name == "Via");
    own.last().unwrap().1.push_str(ALL);
    assert_eq!(terms(&node.pass(&answer)), "");
}
