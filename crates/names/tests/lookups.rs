//! Look-ups at a DNS server that answers, refuses, is late or silent.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tests wait for records to expire"
)]

mod fake;

use std::{
    sync::{Arc, mpsc},
    task::Poll,
    time::{Duration, Instant},
};

use fake::{Dns, Reply};
use hickory_resolver::proto::rr::RecordType;
use names::{Answer, Count, Error, Limits, Names, Question, Transport};

const PATIENCE: Duration = Duration::from_secs(10);

fn limits() -> Limits {
    Limits {
        wait_max: Duration::from_millis(900),
        ..Limits::default()
    }
}

fn start(dns: &Dns) -> Names {
    Names::start(&[dns.address], limits()).unwrap()
}

fn ask(names: &Names, question: &Question) -> Result<Arc<Answer>, Error> {
    let (sender, receiver) = mpsc::channel();
    match names.ask(question, move |answer| sender.send(answer).unwrap()) {
        Poll::Ready(answer) => answer,
        Poll::Pending => receiver.recv_timeout(PATIENCE).unwrap(),
    }
}

/// Each server as "transport priority weight addresses", or why there is none.
fn told(names: &Names, question: &Question) -> String {
    let answer = match ask(names, question) {
        Ok(answer) => answer,
        Err(error) => return error.to_string(),
    };
    let targets = answer.targets.iter().map(|target| {
        let ips: Vec<String> = target.addresses.iter().map(ToString::to_string).collect();
        let ips = ips.join(",");
        let transport = target.transport.map(|of| format!("{of:?} "));
        format!(
            "{}{} {} {ips}:{}",
            transport.unwrap_or_default(),
            target.priority,
            target.weight,
            target.port
        )
    });
    let targets: Vec<String> = targets.collect();
    targets.join("; ")
}

#[track_caller]
fn eventually(what: &str, holds: impl FnMut() -> bool) {
    testbed::within(PATIENCE, what, holds);
}

const NONE: &str = "the DNS has no server of this name";

#[test]
fn a_domain_is_found_as_rfc_3263_has_it() {
    let dns = Dns::start();
    dns.host("a.test.", 60, &["192.0.2.1", "2001:db8::1"]);
    dns.host("b.test.", 60, &["192.0.2.2"]);
    // NAPTR first, by order and preference; those without servers are left out.
    let both = [
        (20, 1, "SIP+D2U", "_sip._udp.late.test."),
        (10, 5, "SIPS+D2T", "_sips._tcp.test."),
        (10, 9, "sip+d2u", "_sip._udp.best.test."),
    ];
    dns.naptr("naptr.test.", 60, &both);
    dns.service(
        "_sip._udp.best.test.",
        60,
        &[(1, 7, 5070, "a.test."), (2, 0, 5060, "b.test.")],
    );
    // SRV without NAPTR, an address without SRV.
    dns.service("_sip._udp.srv.test.", 60, &[(0, 3, 5080, "B.test.")]);
    dns.host("host.test.", 60, &["192.0.2.9"]);
    // What can't be reached.
    dns.naptr("sctp.test.", 60, &[(1, 1, "SIP+D2S", "_sip._sctp.test.")]);
    dns.naptr(
        "none.test.",
        60,
        &[(1, 1, "SIP+D2T", "_sip._tcp.none.test.")],
    );
    dns.service("_sip._udp.closed.test.", 60, &[(0, 0, 0, ".")]);
    dns.service("_sip._udp.nowhere.test.", 60, &[(0, 0, 1, "gone.test.")]);

    let names = start(&dns);
    let cases = [
        (
            "naptr.test",
            None,
            "Udp 1 7 192.0.2.1,2001:db8::1:5070; Udp 2 0 192.0.2.2:5060",
        ),
        ("srv.test", None, "Udp 0 3 192.0.2.2:5080"),
        ("host.test", None, "Udp 0 0 192.0.2.9:5060"),
        ("SRV.Test", None, "Udp 0 3 192.0.2.2:5080"),
        ("a.test", Some(5099), "0 0 192.0.2.1,2001:db8::1:5099"),
        (
            "sctp.test",
            None,
            "the DNS fails: the domain takes no SIP over UDP, TCP or TLS",
        ),
        ("none.test", None, NONE),
        ("closed.test", None, NONE),
        ("nowhere.test", None, NONE),
        ("absent.test", None, NONE),
        ("phone.invalid", None, NONE),
        ("a..test", Some(1), NONE),
    ];
    for (host, port, expected) in cases {
        let found = told(&names, &Question::of_uri(host, port, None));
        assert_eq!(found, expected, "{host} {port:?}");
    }
}

/// Whoever takes TLS alone was asked for over UDP. RFC 3263 §4.1
#[test]
fn the_dns_says_which_transport_a_domain_takes() {
    let dns = Dns::start();
    dns.host("a.test.", 60, &["192.0.2.1"]);
    dns.host("b.test.", 60, &["192.0.2.2"]);
    let rules = [
        (10, 1, "SIP+D2T", "_sip._tcp.naptr.test."),
        (5, 9, "SIPS+D2T", "_sips._tcp.naptr.test."),
        (20, 1, "SIP+D2U", "_sip._udp.naptr.test."),
    ];
    dns.naptr("naptr.test.", 60, &rules);
    dns.service("_sips._tcp.naptr.test.", 60, &[(0, 0, 5061, "a.test.")]);
    dns.service("_sip._tcp.naptr.test.", 60, &[(0, 0, 5060, "b.test.")]);
    dns.service("_sip._tcp.srv.test.", 60, &[(0, 0, 5070, "a.test.")]);
    dns.service("_sips._tcp.srv.test.", 60, &[(0, 0, 5071, "a.test.")]);
    dns.host("host.test.", 60, &["192.0.2.9"]);
    let names = start(&dns);
    let (tcp, tls) = (Some(Transport::Tcp), Some(Transport::Tls));
    for (host, wanted, expected) in [
        (
            "naptr.test",
            None,
            "Tls 0 0 192.0.2.1:5061; Tcp 0 0 192.0.2.2:5060",
        ),
        ("naptr.test", tcp, "Tcp 0 0 192.0.2.2:5060"),
        (
            "srv.test",
            None,
            "Tcp 0 0 192.0.2.1:5070; Tls 0 0 192.0.2.1:5071",
        ),
        ("srv.test", tls, "Tls 0 0 192.0.2.1:5071"),
        ("host.test", tcp, "Tcp 0 0 192.0.2.9:5060"),
        ("host.test", tls, "Tls 0 0 192.0.2.9:5061"),
        ("host.test", None, "Udp 0 0 192.0.2.9:5060"),
        ("absent.test", tls, NONE),
    ] {
        let found = told(&names, &Question::of_uri(host, None, wanted));
        assert_eq!(found, expected, "{host} {wanted:?}");
    }
}

#[test]
fn an_answer_is_kept_for_its_time_and_a_negative_one_too() {
    let dns = Dns::start();
    dns.host("a.test.", 1, &["192.0.2.1"]);
    dns.set("none.test.", RecordType::A, Reply::None(Some(60)));
    dns.set("none.test.", RecordType::AAAA, Reply::None(Some(60)));
    let names = start(&dns);
    let [host, none] = ["a.test.", "none.test."].map(|name| Question::host(name, 5060));
    for _ in 0..10 {
        assert_eq!(told(&names, &host), "0 0 192.0.2.1:5060");
        assert_eq!(told(&names, &none), NONE);
    }
    assert_eq!(dns.queries(), 4, "each kind of both once");
    dns.host("a.test.", 1, &["192.0.2.2"]);
    eventually("the new address", || {
        told(&names, &host) == "0 0 192.0.2.2:5060"
    });
    assert_eq!(names.stats().count(Count::NotFound), 1);
}

#[test]
fn what_is_out_of_date_is_told_at_once_while_the_dns_is_down() {
    let dns = Dns::start();
    dns.service("_sip._udp.test.", 1, &[(0, 0, 5060, "a.test.")]);
    dns.host("a.test.", 1, &["192.0.2.1"]);
    let names = start(&dns);
    let question = Question::service("_sip._udp.test.");
    assert_eq!(ask(&names, &question).unwrap().stale, None);
    dns.be_silent(true);
    eventually("the answer is known to be stale", || {
        let answer = names.ask(&question, |_| ());
        let Poll::Ready(Ok(answer)) = answer else {
            panic!("it had to wait: {answer:?}");
        };
        assert_eq!(answer.targets.len(), 1);
        answer.stale.is_some()
    });
    dns.be_silent(false);
    dns.host("a.test.", 1, &["192.0.2.7"]);
    eventually("the DNS is back", || {
        told(&names, &question) == "0 0 192.0.2.7:5060"
    });
}

#[test]
fn a_server_whose_address_fails_stays_as_it_was() {
    let dns = Dns::start();
    let both = [(0, 0, 5060, "a.test."), (0, 0, 5060, "b.test.")];
    dns.service("_sip._udp.test.", 1, &both);
    dns.host("a.test.", 1, &["192.0.2.1"]);
    dns.host("b.test.", 1, &["192.0.2.2"]);
    let names = start(&dns);
    let question = Question::service("_sip._udp.test.");
    assert_eq!(
        told(&names, &question),
        "0 0 192.0.2.1:5060; 0 0 192.0.2.2:5060"
    );
    dns.host("a.test.", 1, &["192.0.2.3"]);
    for kind in [RecordType::A, RecordType::AAAA] {
        dns.set("b.test.", kind, Reply::Fail);
    }
    eventually("the one changes and the other stays", || {
        told(&names, &question) == "0 0 192.0.2.3:5060; 0 0 192.0.2.2:5060"
    });
}

#[test]
fn a_silent_server_is_waited_for_only_so_long_and_holds_up_nobody() {
    let dns = Dns::start();
    dns.host("a.test.", 60, &["192.0.2.1"]);
    let names = start(&dns);
    let silent = |number: usize| {
        let name = format!("n{number}.dead.test.");
        for kind in [RecordType::A, RecordType::AAAA] {
            dns.set(&name, kind, Reply::Silence);
        }
        Question::host(&name, 5060)
    };
    let began = Instant::now();
    let (sender, receiver) = mpsc::channel();
    let waiting = limits().lookups / 4 + 10;
    for number in 0..waiting {
        let sender = sender.clone();
        let answer = names.ask(&silent(number), move |answer| sender.send(answer).unwrap());
        assert_eq!(answer, Poll::Pending);
    }
    // Names of the same domain are refused when it has its share, others are found.
    let refused: Vec<_> = (0..10)
        .map(|_| receiver.recv_timeout(PATIENCE).unwrap())
        .collect();
    assert!(refused.iter().all(|answer| *answer == Err(Error::Busy)));
    let other = Question::host("a.other.", 5060);
    dns.host("a.other.", 60, &["192.0.2.5"]);
    assert_eq!(told(&names, &other), "0 0 192.0.2.5:5060");
    assert!(began.elapsed() < limits().wait_max, "it waited for nobody");
    for _ in 10..waiting {
        let answer = receiver.recv_timeout(PATIENCE).unwrap();
        assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    }
    assert!(began.elapsed() < 3 * limits().wait_max);
    // The failure is remembered for a while.
    let queries = dns.queries();
    assert!(matches!(
        ask(&names, &silent(0)),
        Err(Error::Unavailable(_))
    ));
    assert_eq!(dns.queries(), queries);
}

#[test]
fn more_callers_than_may_wait_are_refused() {
    let dns = Dns::start();
    dns.be_silent(true);
    let limits = Limits {
        queue: 2,
        ..limits()
    };
    let names = Names::start(&[dns.address], limits).unwrap();
    let question = Question::host("a.test.", 5060);
    let asked: Vec<_> = (0..3).map(|_| names.ask(&question, |_| ())).collect();
    assert!(asked[..2].iter().all(Poll::is_pending));
    assert_eq!(asked[2], Poll::Ready(Err(Error::Busy)));
    assert_eq!(names.stats().count(Count::Refused), 1);
}
