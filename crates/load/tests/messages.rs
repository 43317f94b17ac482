//! Single messages: what a server or a caller answers to them.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::{net::SocketAddr, time::Duration};

use fastrand::Rng;
use load::{Arrivals, Caller, CallerConfig, Failure, Law, Outbox, Server, ServerConfig};
use sip::Message;

const HERE: &str = "192.0.2.101:5070";
const SERVER: &str = "192.0.2.11:7001";
const RINGING: Duration = Duration::from_secs(3);

struct Uas {
    server: Server,
    now: Duration,
    /// The To tag of the last response that had one.
    tag: String,
}

impl Uas {
    fn new() -> Self {
        let config = ServerConfig {
            ringing: Law::Constant(RINGING),
            ..ServerConfig::prompt(address(SERVER))
        };
        Self {
            server: Server::new(config, Rng::with_seed(1), Duration::ZERO),
            now: Duration::ZERO,
            tag: String::new(),
        }
    }

    /// Sends a request; `tag` says whether it carries the last To tag. Returns the first lines.
    fn check(&mut self, method: &str, tag: bool, expected: &[&str]) {
        let tag = if tag {
            format!(";tag={}", self.tag)
        } else {
            String::new()
        };
        let request = request(method, &tag);
        let mut out = Outbox::default();
        self.server
            .handle_input(self.now, address(HERE), request.as_bytes(), &mut out);
        self.expect(&out, method, expected);
    }

    /// Lets time pass.
    fn wait(&mut self, time: Duration, expected: &[&str]) {
        let until = self.now + time;
        let mut out = Outbox::default();
        while let Some(deadline) = self.server.deadline().filter(|deadline| *deadline <= until) {
            self.now = self.now.max(deadline);
            self.server.handle_timeout(self.now, &mut out);
        }
        self.now = until;
        self.expect(&out, "time", expected);
    }

    fn expect(&mut self, out: &Outbox, what: &str, expected: &[&str]) {
        let mut got = Vec::new();
        for (_, to, bytes) in out.datagrams() {
            assert_eq!(to, address(HERE));
            let message = Message::parse(bytes, 64).unwrap();
            message.validate().unwrap();
            if let Some(tag) = message.to_tag().unwrap() {
                self.tag = String::from_utf8(tag.to_vec()).unwrap();
            }
            got.push(first_line(bytes));
        }
        assert_eq!(got, expected, "{what} at {:?}", self.now);
    }
}

#[test]
fn a_call_rings_is_answered_and_ends() {
    let mut uas = Uas::new();
    uas.check("INVITE", false, &["SIP/2.0 180 Ringing"]);
    uas.check("INVITE", false, &["SIP/2.0 180 Ringing"]);
    uas.wait(RINGING, &["SIP/2.0 200 OK"]);
    uas.check("INVITE", false, &["SIP/2.0 200 OK"]);
    uas.check("ACK", true, &[]);
    uas.wait(RINGING, &[]);
    uas.check("INVITE", false, &[]);
    uas.check("INFO", true, &["SIP/2.0 200 OK"]);
    uas.check("BYE", true, &["SIP/2.0 200 OK"]);
    uas.check("BYE", true, &["SIP/2.0 200 OK"]);
    uas.check(
        "INFO",
        true,
        &["SIP/2.0 481 Call/Transaction Does Not Exist"],
    );
    uas.check("INVITE", false, &[]);
    let stats = uas.server.stats();
    assert_eq!(
        (stats.invites, stats.answered, stats.byes, stats.others),
        (1, 1, 1, 1)
    );
    assert_eq!(
        (stats.repeated, stats.strangers, uas.server.open_calls()),
        (5, 1, 0)
    );
}

/// RFC 3261 §17.2.2: a server that is working on a request drops its copies.
#[test]
fn copies_of_a_request_are_little_work() {
    let mut uas = Uas::new();
    let config = ServerConfig {
        repeated: Law::Constant(Duration::from_millis(1)),
        ..ServerConfig::prompt(address(SERVER))
    };
    uas.server = Server::new(config, Rng::with_seed(1), Duration::ZERO);
    uas.check("INVITE", false, &["SIP/2.0 180 Ringing", "SIP/2.0 200 OK"]);
    uas.check("ACK", true, &[]);
    uas.server.stall(uas.now, Duration::from_secs(1));
    uas.check("BYE", true, &[]);
    uas.check("BYE", true, &[]);
    uas.check("BYE", true, &[]);
    uas.wait(Duration::from_secs(2), &["SIP/2.0 200 OK"]);
    assert_eq!(uas.server.stats().repeated, 2);
    assert_eq!(uas.server.busy(), Duration::from_millis(2));
    uas.check("BYE", true, &[]);
    uas.wait(Duration::from_secs(1), &["SIP/2.0 200 OK"]);
    assert_eq!(uas.server.busy(), Duration::from_millis(3));
}

#[test]
fn a_cancelled_call_is_refused_until_the_ack() {
    let mut uas = Uas::new();
    uas.check(
        "CANCEL",
        false,
        &["SIP/2.0 481 Call/Transaction Does Not Exist"],
    );
    uas.check("INVITE", false, &["SIP/2.0 180 Ringing"]);
    let refused = "SIP/2.0 487 Request Terminated";
    uas.check("CANCEL", false, &["SIP/2.0 200 OK", refused]);
    uas.check("CANCEL", false, &["SIP/2.0 200 OK"]);
    uas.wait(Duration::from_millis(1600), &[refused, refused]);
    uas.check("ACK", true, &[]);
    uas.wait(Duration::from_secs(60), &[]);
    assert_eq!(
        (uas.server.stats().cancelled, uas.server.open_calls()),
        (1, 0)
    );
}

#[test]
fn without_an_ack_the_server_ends_the_call() {
    let mut uas = Uas::new();
    uas.check("INVITE", false, &["SIP/2.0 180 Ringing"]);
    // At 0, 0.5, 1.5, 3.5 s and then every 4 s, 64*T1 long (RFC 3261 §13.3.1.4).
    let mut expected = vec!["SIP/2.0 200 OK"; 11];
    expected.push("BYE sip:caller@192.0.2.101:5070 SIP/2.0");
    uas.wait(RINGING + Duration::from_secs(32), &expected);
    let response =
        request("BYE", "").replacen("BYE sip:service@example.com SIP/2.0", "SIP/2.0 200 OK", 1);
    uas.server.handle_input(
        uas.now,
        address(HERE),
        response.as_bytes(),
        &mut Outbox::default(),
    );
    uas.wait(Duration::from_secs(60), &[]);
    assert_eq!(
        (uas.server.stats().unconfirmed, uas.server.open_calls()),
        (1, 0)
    );
}

#[test]
fn requests_outside_of_calls() {
    for (method, status) in [
        ("OPTIONS", "200 OK"),
        ("MESSAGE", "200 OK"),
        ("BYE", "481 Call/Transaction Does Not Exist"),
        ("CANCEL", "481 Call/Transaction Does Not Exist"),
    ] {
        Uas::new().check(method, false, &[&format!("SIP/2.0 {status}")]);
    }
    for method in ["BYE", "INFO", "INVITE"] {
        let mut uas = Uas::new();
        "0011223344556677".clone_into(&mut uas.tag);
        uas.check(
            method,
            true,
            &["SIP/2.0 481 Call/Transaction Does Not Exist"],
        );
    }
    let mut uas = Uas::new();
    uas.check("ACK", false, &[]);
    uas.server
        .handle_input(uas.now, address(HERE), b"\r\n\r\n", &mut Outbox::default());
}

#[test]
fn a_refusal_is_acknowledged_each_time_it_comes() {
    let (mut caller, invite) = one_call();
    let refusal = answer(&invite, 503);
    for strays in 0..3 {
        let out = input(&mut caller, &refusal);
        assert_eq!(out.len(), 1);
        let (ack, invite) = (
            Message::parse(&out[0], 64).unwrap(),
            Message::parse(&invite, 64).unwrap(),
        );
        assert_eq!(ack.method(), Some(sip::Method::Ack));
        assert_eq!(ack.request_uri(), invite.request_uri());
        assert_eq!(
            ack.top_via().unwrap().branch,
            invite.top_via().unwrap().branch
        );
        assert_eq!(ack.to_tag(), Ok(Some(b"callee".as_slice())));
        assert_eq!(caller.stats().failed.get(&Failure::Rejected(503)), Some(&1));
        assert_eq!(caller.stats().strays, strays);
    }
}

#[test]
fn an_answer_is_acknowledged_each_time_it_comes() {
    let (mut caller, invite) = one_call();
    let answered = answer(&invite, 200);
    for _ in 0..3 {
        let out = input(&mut caller, &answered);
        assert_eq!(out.len(), 1);
        assert_eq!(
            first_line(&out[0]),
            "ACK sip:callee@192.0.2.11:7001 SIP/2.0"
        );
    }
    assert_eq!((caller.open_calls(), caller.stats().strays), (1, 2));
}

#[test]
fn a_caller_can_be_hung_up_on() {
    let (mut caller, invite) = one_call();
    input(&mut caller, &answer(&invite, 200));
    let call_id = Message::parse(&invite, 64)
        .unwrap()
        .call_id()
        .unwrap()
        .to_vec();
    let bye = request("BYE", "").replace("4711", std::str::from_utf8(&call_id).unwrap());
    for status in [
        "SIP/2.0 200 OK",
        "SIP/2.0 481 Call/Transaction Does Not Exist",
    ] {
        let out = input(&mut caller, bye.as_bytes());
        assert_eq!(first_line(&out[0]), status);
        assert_eq!(caller.stats().failed.get(&Failure::HungUp), Some(&1));
    }
}

/// A caller that has sent one INVITE.
fn one_call() -> (Caller, Vec<u8>) {
    let config = CallerConfig {
        holding: Law::NEVER,
        calls_max: 1,
        ..CallerConfig::plain(vec![address(HERE)], address(SERVER), Arrivals::Window(1))
    };
    let mut caller = Caller::new(config, Rng::with_seed(1), Duration::ZERO);
    let mut out = Outbox::default();
    caller.handle_timeout(Duration::ZERO, &mut out);
    let invite = out.datagrams().next().unwrap().2.to_vec();
    Message::parse(&invite, 64).unwrap().validate().unwrap();
    assert!((650..800).contains(&invite.len()), "{}", invite.len());
    (caller, invite)
}

fn input(caller: &mut Caller, bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Outbox::default();
    caller.handle_input(Duration::ZERO, 0, address(SERVER), bytes, &mut out);
    let sent: Vec<_> = out
        .datagrams()
        .map(|(_, _, bytes)| bytes.to_vec())
        .collect();
    for bytes in &sent {
        Message::parse(bytes, 64).unwrap().validate().unwrap();
    }
    sent
}

fn answer(invite: &[u8], status: u16) -> Vec<u8> {
    let mut out = Vec::new();
    let contact = [("Contact", "<sip:callee@192.0.2.11:7001>")];
    let invite = Message::parse(invite, 64).unwrap();
    sip::write_reply(
        &invite,
        status,
        "Any",
        Some("callee"),
        address(HERE),
        &contact,
        &mut out,
    );
    out
}

fn request(method: &str, to_tag: &str) -> String {
    format!(
        "{method} sip:service@example.com SIP/2.0\r\n\
         Via: SIP/2.0/UDP {HERE};rport;branch=z9hG4bK1\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:caller@example.com>;tag=1\r\n\
         To: <sip:service@example.com>{to_tag}\r\n\
         Call-ID: 4711\r\n\
         CSeq: 1 {method}\r\n\
         Contact: <sip:caller@{HERE}>\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

fn first_line(bytes: &[u8]) -> String {
    String::from_utf8(bytes.split(|byte| *byte == b'\r').next().unwrap().to_vec()).unwrap()
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}
