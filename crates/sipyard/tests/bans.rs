//! Failed logins on a running node: its log, its bans, and how they are lifted.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    net::{SocketAddr, UdpSocket},
    time::Duration,
};

use common::{Edge, PATIENCE, Settings, eventually};

/// A registrar on free ports. No server of a pool is on this machine, so we are strangers.
fn registrar() -> Edge {
    let settings = Settings::new();
    let (sip, admin) = (settings.sip, settings.admin);
    settings.write_whole(&format!(
        r#"node = {{ name = "edge", secret = "file:secret", workers = 2 }}
listen = [ {{ transport = "udp", address = "{sip}" }} ]
route = [ {{ to = "registrar" }} ]
registrar = {{ domains = ["example.com"], store = "memory" }}
abuse = {{ failed_logins = 3, ban = "5m" }}
admin = {{ address = "{admin}", socket = "admin.sock" }}
"#
    ));
    settings.start()
}

/// Somebody who guesses.
struct Guesser {
    socket: UdpSocket,
    edge: SocketAddr,
}

impl Guesser {
    fn of(edge: &Edge) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let edge = edge.sip();
        Self { socket, edge }
    }

    fn send(&self, user: &str, cseq: u32, more: &str) {
        let from = self.socket.local_addr().unwrap();
        let register = format!(
            "REGISTER sip:example.com SIP/2.0\r\n\
             Via: SIP/2.0/UDP {from};branch=z9hG4bK{user}{cseq}\r\n\
             Max-Forwards: 70\r\n\
             From: <sip:{user}@example.com>;tag=1\r\n\
             To: <sip:{user}@example.com>\r\n\
             Call-ID: {user}@guesser\r\n\
             CSeq: {cseq} REGISTER\r\n{more}\
             Contact: <sip:{user}@{from}>\r\n\
             Content-Length: 0\r\n\r\n"
        );
        self.socket.send_to(register.as_bytes(), self.edge).unwrap();
    }

    fn answer(&self) -> String {
        let mut buffer = [0; 2_048];
        let length = self.socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    /// Shows a wrong password.
    fn guess(&self, user: &str) {
        self.send(user, 1, "");
        let challenge = self.answer();
        let (_, rest) = challenge.split_once("nonce=\"").unwrap();
        let nonce = rest.split('"').next().unwrap();
        let response = "0".repeat(32);
        let shown = format!(
            "Authorization: Digest username=\"{user}\", realm=\"example.com\", nonce=\"{nonce}\", \
             uri=\"sip:example.com\", algorithm=MD5, qop=auth, nc=00000001, cnonce=\"c\", \
             response=\"{response}\"\r\n"
        );
        self.send(user, 2, &shown);
        assert!(self.answer().starts_with("SIP/2.0 401 "));
    }

    /// Whether the node does not answer, though it answers others.
    fn is_ignored(&self, edge: &Edge, cseq: u32) -> bool {
        let dropped = || {
            let status = edge.status();
            let workers = status["workers"].as_array().unwrap().iter();
            let dropped = workers.map(|worker| worker["dropped"]["banned"].as_u64().unwrap());
            dropped.sum::<u64>()
        };
        let before = dropped();
        self.send("alice", cseq, "");
        self.socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let mut is_ignored = false;
        eventually("an answer or a drop", || {
            is_ignored = dropped() > before;
            is_ignored || self.socket.recv(&mut [0; 2_048]).is_ok()
        });
        is_ignored
    }
}

#[test]
fn who_guesses_is_banned_and_may_be_forgiven() {
    let edge = registrar();
    let (_, out, err) = edge.ctl(&["bans"]);
    assert_eq!(out, "no source is banned\n", "{err}");
    let guesser = Guesser::of(&edge);
    for user in ["alice", "bob", "carol"] {
        guesser.guess(user);
    }
    edge.wait_for_log("INFO login failed from 127.0.0.1 user \"alice\" realm \"example.com\"");
    edge.wait_for_log(
        "WARN banned 127.0.0.1 for 5m: too many failed logins, the last as \"carol\"",
    );
    assert_eq!(edge.log().matches("login failed").count(), 3);
    assert!(guesser.is_ignored(&edge, 3));

    let (code, table, _) = edge.ctl(&["bans"]);
    assert_eq!(code, Some(0));
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("SOURCE     BANNED FOR  ENDS IN  WHY"));
    let row = lines.next().unwrap();
    assert!(row.starts_with("127.0.0.1  "), "{table}");
    let why = "  too many failed logins, the last as \"carol\"";
    assert!(row.ends_with(why), "{table}");
    let (_, metrics) = edge.ask("GET", "/metrics");
    assert!(
        metrics
            .lines()
            .any(|line| line.starts_with("sipyard_bans{} 1")),
        "{metrics}"
    );

    assert_eq!(
        edge.ctl(&["unban", "203.0.113.9"]),
        (
            Some(2),
            String::new(),
            "203.0.113.9 is not banned; `sipyard ctl bans` lists who is\n".to_owned()
        )
    );
    let (code, done, _) = edge.ctl(&["unban", "127.0.0.1"]);
    assert_eq!(
        (code, &*done),
        (Some(0), "the ban of 127.0.0.1 is lifted\n")
    );
    edge.wait_for_log("WARN the ban of 127.0.0.1 is lifted");
    assert!(!guesser.is_ignored(&edge, 4));
    let (code, done, _) = edge.ctl(&["unban", "all"]);
    assert_eq!((code, &*done), (Some(0), "0 bans are lifted\n"));
}
