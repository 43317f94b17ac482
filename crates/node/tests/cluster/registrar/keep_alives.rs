//! Keep-alives to bindings.

use std::time::Duration;

use node::{
    config::{KeepAlive, KeepAliveMethod},
    stats::Event,
};

use super::*;

fn kept(method: KeepAliveMethod) -> World {
    let mut config = open();
    config.registrar.as_mut().unwrap().keep_alive = Some(KeepAlive {
        method,
        interval: s(30),
        fall: 3,
    });
    World::new(config)
}

/// A phone of this number that has registered.
fn phone(world: &mut World, number: u32) -> String {
    let at = format!("198.51.100.{number}:5060");
    let contact = format!("<sip:user@{at}>;expires=7200");
    let register = of(
        request("REGISTER", &at, &format!("phone-{number}")),
        &format!("user{number}"),
        1,
    );
    let register = register.with("Contact", contact);
    // A binding was not found again in the store, which keeps whole milliseconds.
    world.cluster.wait(Duration::from_nanos(1_234_567));
    assert_eq!(world.pass(&register).status(), 200);
    at
}

/// What phones are sent within some time, each of which answers with this status at once.
fn wait(world: &mut World, time: Duration, status: u16) -> Vec<Sent> {
    let end = world.cluster.now + time;
    let mut seen = Vec::new();
    while world.cluster.now < end {
        let sent = world.cluster.wait(ms(100));
        for asked in world.answer_all(sent) {
            if status > 0 {
                let answer = world.cluster.send(&asked.respond(status));
                assert!(world.answer_all(answer).is_empty());
            }
            seen.push(asked);
        }
    }
    seen
}

#[test]
fn phones_that_answer_are_kept_and_asked_at_different_times() {
    let mut world = kept(KeepAliveMethod::Options);
    for number in 1..=60 {
        phone(&mut world, number);
    }
    let mut most = 0;
    for _ in 0..60 {
        most = most.max(wait(&mut world, s(1), 405).len());
    }
    let sent = world.cluster.event(Event::KeptFlow);
    assert!((100..=180).contains(&sent), "{sent}");
    assert!(most <= 12, "{most} together");
    assert_eq!(world.store.len(), 60);
}

#[test]
fn a_silent_phone_is_forgotten() {
    let mut world = kept(KeepAliveMethod::Options);
    let at = phone(&mut world, 1);
    let asked = wait(&mut world, s(140), 0);
    assert!(
        asked
            .iter()
            .all(|asked| asked.to.to_string() == at && asked.method() == "OPTIONS")
    );
    assert_eq!(asked.len(), 3, "it has three chances");
    assert!(world.store.is_empty());
    assert_eq!(world.cluster.event(Event::FlowRemoved), 1);
    assert!(wait(&mut world, s(60), 0).is_empty());
}

/// An edge answers 430, or an ICMP error quotes the keep-alive.
#[test]
fn a_dead_flow_is_forgotten_at_once() {
    for is_told_by_icmp in [false, true] {
        let mut world = kept(KeepAliveMethod::Options);
        phone(&mut world, 1);
        let asked = wait(&mut world, s(31), 0).remove(0);
        let told = match is_told_by_icmp {
            true => world.cluster.quote(asked.to, &asked.bytes),
            false => world.cluster.send(&asked.respond(430)),
        };
        world.answer_all(told);
        assert!(world.store.is_empty());
    }
}

#[test]
fn who_unregisters_is_left_alone() {
    let mut world = kept(KeepAliveMethod::Options);
    world.pass(&register(
        1,
        "<sip:bob@198.51.100.1>, <sip:bob@198.51.100.2>",
    ));
    world.pass(&register(2, "<sip:bob@198.51.100.1>;expires=0"));
    let asked = wait(&mut world, s(60), 200);
    assert!(!asked.is_empty() && asked.iter().all(|asked| asked.to.to_string() == DESK));
    world.pass(&register(3, "*").with("Expires", 0));
    assert!(wait(&mut world, s(60), 200).is_empty());
}

/// They end at the next hop: what is behind another proxy gets none.
#[test]
fn empty_lines_go_to_phones_that_are_here() {
    let mut world = kept(KeepAliveMethod::Crlf);
    phone(&mut world, 1);
    let behind = register(1, "<sip:bob@10.0.0.9>").with("Path", "<sip:192.0.2.77:5070;lr>");
    world.pass(&through(OUTER, behind));
    world.cluster.wait(s(31));
    assert_eq!(world.cluster.event(Event::KeptFlow), 1);
}

/// A forged answer buries nobody.
#[test]
fn an_answer_to_nothing_is_dropped() {
    let mut world = kept(KeepAliveMethod::Options);
    phone(&mut world, 1);
    let asked = wait(&mut world, s(31), 0).remove(0);
    let branch = asked.branch().to_owned();
    let other = format!("{}{}", &branch[..branch.len() - 5], "00000");
    let mut forged = asked.respond(430);
    forged.headers[0].1 = forged.headers[0].1.replace(&branch, &other);
    assert!(world.send(&forged).is_empty());
    assert_eq!(world.store.len(), 1);
}
