//! Next hops that are names: RFC 3263. The DNS is asked, and only who needs it waits.

use location::Binding;
use node::{Answer, Ask, Name, NextHop, Transport, stats::Event};

use crate::{
    forking::{PHONE, binding, check, is_idle, record_of},
    harness::{ALICE, BOB, Cluster, EDGE, ONE, TWO, config, location, ms, s},
    message::{Dialog, Msg, request},
    originated::outward,
};

const FIRST: &str = "198.51.100.11:5080";
const SECOND: &str = "198.51.100.12:5080";

fn located(addresses: &[&str]) -> Answer {
    let addresses = addresses.iter().map(|address| address.parse().unwrap());
    Answer::Located(addresses.map(NextHop::udp).collect())
}

/// Alice calls whoever has this binding; the DNS is asked for this name.
fn call(cluster: &mut Cluster, binding: Binding<'_>, host: &str, port: Option<u16>) -> Msg {
    let invite = request("INVITE", ALICE, "call");
    assert!(cluster.send(&invite).is_empty());
    assert!(cluster.answer(record_of(&[binding])).is_empty());
    asks(cluster, host, port);
    invite
}

fn asks(cluster: &Cluster, host: &str, port: Option<u16>) {
    let Some(Ask::Locate { name, .. }) = cluster.questions.last().map(|it| it.ask.clone()) else {
        panic!("the DNS is not asked: {:?}", cluster.questions);
    };
    let host = host.into();
    assert_eq!(
        name,
        Name {
            host,
            port,
            transport: port.map(|_| Transport::Udp)
        }
    );
}

/// RFC 3263 §4.3
#[test]
fn a_contact_by_name_is_tried_at_each_of_its_addresses() {
    let mut cluster = Cluster::new(location());
    let contact = binding("sip:bob@phones.example.net");
    let invite = call(&mut cluster, contact, "phones.example.net", None);
    let first = cluster.answer(located(&[FIRST, SECOND]));
    check(&first, &[(FIRST, "INVITE")]);
    assert_eq!(first[0].uri(), "sip:bob@phones.example.net");
    let second = cluster.send(&first[0].respond(503));
    check(&second, &[(FIRST, "ACK"), (SECOND, "INVITE")]);
    assert_ne!(second[1].branch(), first[0].branch());
    let answer = cluster.pass(&second[1].respond(200));
    let mut caller = Dialog::of_caller(&invite, &answer);
    assert_eq!(cluster.pass(&caller.ack()).to.to_string(), SECOND);
    let bye = cluster.exchange(&caller.request("BYE"), 200);
    assert_eq!(bye.to.to_string(), SECOND, "the call stays there");
    is_idle(&mut cluster);
}

#[test]
fn the_failure_at_the_last_address_is_the_targets() {
    let mut cluster = Cluster::new(location());
    let contact = binding("sip:bob@phones.example.net:5080");
    call(&mut cluster, contact, "phones.example.net", Some(5080));
    let first = cluster.answer(located(&[FIRST, SECOND]));
    let second = cluster.send(&first[0].respond(503));
    let refused = cluster.send(&second[1].respond(486));
    check(&refused, &[(SECOND, "ACK"), (ALICE, "486")]);
    is_idle(&mut cluster);
}

#[test]
fn a_silent_address_is_left_for_the_next() {
    let mut cluster = Cluster::new(location());
    let contact = binding("sip:bob@phones.example.net");
    call(&mut cluster, contact, "phones.example.net", None);
    let first = cluster.answer(located(&[FIRST, SECOND]));
    let sent = cluster.wait(ms(4_050));
    let second = sent.iter().find(|sent| sent.to == SECOND.parse().unwrap());
    let second = second.expect("it goes on after 8*T1").clone();
    assert_eq!(cluster.event(Event::FailedOver), 1);
    check(&cluster.send(&first[0].respond(180)), &[(FIRST, "CANCEL")]);
    check(&cluster.send(&second.respond(200)), &[(ALICE, "200")]);
    check(&cluster.send(&first[0].respond(487)), &[(FIRST, "ACK")]);
    is_idle(&mut cluster);
}

#[test]
fn a_request_moves_on_when_an_address_times_out() {
    let mut cluster = Cluster::new(location());
    let mut message = request("MESSAGE", ALICE, "text");
    message = message.without("Contact");
    assert!(cluster.send(&message).is_empty());
    cluster.answer(record_of(&[binding("sip:bob@phones.example.net")]));
    let first = cluster.answer(located(&[FIRST, SECOND]));
    check(&first, &[(FIRST, "MESSAGE")]);
    let sent = cluster.wait(s(33));
    assert!(
        sent.iter().any(|sent| sent.to == SECOND.parse().unwrap()),
        "after Timer F: {sent:#?}"
    );
    is_idle(&mut cluster);
}

/// A phone that is behind a NAT or that made its name up is where it registered from.
#[test]
fn a_contact_whose_name_leads_nowhere_is_where_it_came_from() {
    for answer in [
        located(&[]),
        Answer::Failed,
        located(&["[2001:db8::1]:5060"]),
    ] {
        let mut cluster = Cluster::new(location());
        let contact = binding("sip:bob@phones.example.net");
        call(&mut cluster, contact, "phones.example.net", None);
        check(&cluster.answer(answer), &[(PHONE, "INVITE")]);
        assert_eq!(cluster.event(Event::NameNotFound), 1);
    }
    let mut cluster = Cluster::new(location());
    cluster.send(&request("INVITE", ALICE, "call"));
    let sent = cluster.answer(record_of(&[binding("sip:bob@x7f3.invalid")]));
    check(&sent, &[(PHONE, "INVITE")]);
}

/// RFC 3327 §5.4
#[test]
fn a_path_may_be_a_name() {
    let via_edge = |answer| {
        let mut cluster = Cluster::new(location());
        let contact = Binding {
            path: "<sip:edge.example.net;lr>",
            ..binding("sip:bob@10.1.2.3")
        };
        call(&mut cluster, contact, "edge.example.net", None);
        cluster.answer(answer)
    };
    let sent = via_edge(located(&[FIRST]));
    check(&sent, &[(FIRST, "INVITE")]);
    assert_eq!(sent[0].get("Route"), "<sip:edge.example.net;lr>");
    check(&via_edge(located(&[])), &[(ALICE, "480")]);
}

#[test]
fn a_slow_dns_is_not_waited_for() {
    let mut cluster = Cluster::new(location());
    let contact = binding("sip:bob@phones.example.net");
    let invite = call(&mut cluster, contact, "phones.example.net", None);
    let sent = cluster.wait(ms(4_050));
    check(&sent, &[(ALICE, "100"), (PHONE, "INVITE")]);
    assert!(cluster.answer(located(&[FIRST])).is_empty(), "too late");
    assert_eq!(cluster.send(&invite.cancel()).len(), 1);
    is_idle(&mut cluster);
}

#[test]
fn a_search_for_a_name_may_be_cancelled() {
    let mut cluster = Cluster::new(location());
    let contact = binding("sip:bob@phones.example.net");
    let invite = call(&mut cluster, contact, "phones.example.net", None);
    let sent = cluster.send(&invite.cancel());
    check(&sent, &[(ALICE, "200"), (ALICE, "487")]);
    assert!(cluster.answer(located(&[FIRST])).is_empty(), "too late");
    is_idle(&mut cluster);
}

/// A call of ONE to Bob, whose phone is at a name from then on.
fn server_side(cluster: &mut Cluster) -> Dialog {
    let invite = outward("INVITE", ONE);
    let received = cluster.pass(&invite);
    let answered = cluster.pass(&received.respond(200));
    cluster.pass(&Dialog::of_caller(&invite, &answered).ack());
    Dialog::of_caller(&invite, &answered)
}

fn to_name(mut request: Msg) -> Msg {
    request.start = format!("{} sip:bob@phone.example.com SIP/2.0", request.method());
    request
}

/// RFC 3261 §16.6 step 7
#[test]
fn a_server_reaches_a_phone_by_its_name() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let mut server = server_side(&mut cluster);
    let info = to_name(server.request("INFO"));
    assert!(cluster.send(&info).is_empty());
    asks(&cluster, "phone.example.com", None);
    let asked = cluster.questions[0].ask.clone();
    assert_eq!(cluster.sizes().2, 1, "a node that stops waits for it");
    let sent = cluster.answer(located(&[FIRST, SECOND]));
    check(&sent, &[(FIRST, "INFO")]);
    assert_eq!(sent[0].uri(), "sip:bob@phone.example.com");
    assert!(cluster.send(&info).is_empty(), "it comes again");
    assert_eq!(cluster.questions[0].ask, asked, "and goes to the same");
    let again = cluster.answer(located(&[FIRST, SECOND]));
    assert_eq!(again[0].bytes, sent[0].bytes);
    check(&cluster.send(&sent[0].respond(200)), &[(ONE, "200")]);
    let ack = to_name(server.request("INFO"));
    cluster.send(&ack);
    cluster.answer(located(&[FIRST]));
    assert!(cluster.questions.is_empty());
}

/// RFC 3261 §16.9
#[test]
fn a_name_that_leads_nowhere_is_a_503() {
    for answer in [Some(located(&[])), Some(Answer::Failed), None] {
        let mut cluster = Cluster::new(config(&[ONE]));
        let mut server = server_side(&mut cluster);
        assert!(cluster.send(&to_name(server.request("INFO"))).is_empty());
        let sent = match answer {
            Some(answer) => cluster.answer(answer),
            None => cluster.wait(ms(4_050)),
        };
        check(&sent, &[(ONE, "503")]);
        assert_eq!(cluster.event(Event::NameNotFound), 1);
        assert_eq!(cluster.sizes().2, 0);
    }
}

#[test]
fn a_server_calls_through_a_proxy_by_its_name() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let invite = outward("INVITE", ONE)
        .without("Route")
        .with("Route", format!("<sip:{EDGE};lr>"))
        .with("Route", "<sip:carrier.example.net:5070;lr>");
    assert!(cluster.send(&invite).is_empty());
    asks(&cluster, "carrier.example.net", Some(5070));
    let sent = cluster.answer(located(&[SECOND]));
    check(&sent, &[(SECOND, "INVITE")]);
    assert_eq!(sent[0].get("Route"), "<sip:carrier.example.net:5070;lr>");
    assert_eq!(sent[0].uri(), format!("sip:bob@{BOB}"));
    assert_eq!(cluster.total(), (1, 0, 0.0));
}

/// Only a server's requests lead outwards: a stranger's name is nothing to ask the DNS for.
#[test]
fn the_dns_is_not_asked_for_strangers() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let invite = to_name(request("INVITE", ALICE, "call"));
    cluster.pass(&invite);
    let mut lost = Dialog::of_caller(&invite, &invite.response(ALICE.parse().unwrap(), 200, "x"));
    lost.routes.clear();
    cluster.send(&to_name(lost.request("INFO")));
    assert!(cluster.questions.is_empty());
}

#[test]
fn only_so_many_wait_for_the_dns() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let mut server = server_side(&mut cluster);
    for _ in 0..1_024 {
        assert!(cluster.send(&to_name(server.request("INFO"))).is_empty());
    }
    let refused = cluster.send(&to_name(server.request("INFO")));
    check(&refused, &[(ONE, "503")]);
    assert_eq!(cluster.event(Event::UnlocatedFull), 1);
    check(&cluster.answer(located(&[FIRST])), &[(FIRST, "INFO")]);
    assert!(cluster.send(&to_name(server.request("INFO"))).is_empty());
    // What was refused took its part of the memory for good.
    cluster.wait(s(5));
    cluster.sizes();
    assert_eq!(cluster.shared.workers()[0].unlocated_bytes(), 0);
}

/// The DNS chooses the transport of a URI that says none, and the node takes the first that it speaks. RFC 3263 §4.1
#[test]
fn the_dns_chooses_the_transport() {
    let hop = |transport, address: &str| NextHop {
        transport,
        address: address.parse().unwrap(),
    };
    for (contact, asked, listens, expected) in [
        ("sip:bob@phones.example.net", None, true, Transport::Tcp),
        ("sip:bob@phones.example.net", None, false, Transport::Udp),
        (
            "sip:bob@phones.example.net;transport=tcp",
            Some(Transport::Tcp),
            true,
            Transport::Tcp,
        ),
    ] {
        let mut config = location();
        if listens {
            config.listeners.push(node::config::Listener {
                transport: Transport::Tcp,
                address: EDGE.parse().unwrap(),
                advertise: EDGE.to_owned(),
            });
        }
        let mut cluster = Cluster::new(config);
        assert!(cluster.send(&request("INVITE", ALICE, "call")).is_empty());
        assert!(cluster.answer(record_of(&[binding(contact)])).is_empty());
        let Some(Ask::Locate { name, .. }) = cluster.questions.last().map(|it| it.ask.clone())
        else {
            panic!("the DNS is not asked");
        };
        assert_eq!(name.transport, asked, "{contact}");
        let hops = [
            hop(Transport::Tls, FIRST),
            hop(Transport::Tcp, FIRST),
            hop(Transport::Udp, SECOND),
        ];
        let sent = cluster.answer(Answer::Located(hops.into()));
        assert_eq!(sent[0].flow.transport, expected, "{contact}");
    }
}
