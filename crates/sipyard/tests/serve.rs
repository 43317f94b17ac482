//! The node as a process: how it starts, is asked and changed, and ends.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    fs,
    net::{SocketAddr, TcpListener, UdpSocket},
};

use common::{Edge, OPERATORS_TOKEN, Settings, eventually, free_address, load};

/// A pool of one server that nobody probes.
const POOL: &str = r#"servers = [ { address = "127.0.0.1:9" } ]
probe = false"#;

fn edge() -> Edge {
    let settings = Settings::new();
    settings.write(POOL, "");
    settings.start()
}

#[test]
fn a_node_answers_from_its_start_to_its_end() {
    let mut edge = edge();
    assert_eq!(edge.ask("GET", "/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(edge.ask("GET", "/readyz"), (200, "ready\n".to_owned()));
    assert_eq!(edge.ask("GET", "/nowhere").0, 404);
    let log = edge.log();
    let sip = edge.sip().to_string();
    let told = [&*sip, "app (1 x tlwl)", &*edge.settings.admin.to_string()].map(str::to_owned);
    for words in told {
        assert!(log.contains(&words), "{words} is not in {log}");
    }
    edge.signal("TERM");
    assert_eq!(edge.wait().code(), Some(0));
}

/// Linux enlarged the table of descriptors while thousands of phones connected, and calls waited for 10 to 24 ms each time.
#[test]
fn the_table_of_descriptors_has_its_size_from_the_start() {
    let mut settings = Settings::new();
    settings.sip = free_address();
    settings.write(POOL, "connections = { total = 3_000 }");
    let text = fs::read_to_string(settings.path()).unwrap();
    let sip = settings.sip;
    let streams = format!("listen = [ {{ transport = \"tcp\", address = \"{sip}\" }}, ");
    settings.write_whole(&text.replace("listen = [ ", &streams));
    let edge = settings.start();
    let status = fs::read_to_string(format!("/proc/{}/status", edge.pid())).unwrap();
    let mut lines = status.lines();
    let size = lines.find_map(|line| line.strip_prefix("FDSize:")).unwrap();
    assert!(size.trim().parse::<u64>().unwrap() >= 4_024, "{size}");
}

#[test]
fn pages_of_other_sites_are_refused() {
    let edge = edge();
    let drain = "/api/v1/servers/127.0.0.1:9/drain";
    for (name, value) in [
        ("Origin", "http://evil.example"),
        ("Host", "rebound.example"),
    ] {
        let (status, body) = edge.ask_with("POST", drain, &[(name, value)]);
        assert_eq!(status, 403, "{body}");
        assert!(body.contains(value), "{body}");
    }
    assert_eq!(edge.status()["pools"][0]["servers"][0]["state"], "up");
    let own = format!("http://{}", edge.settings.admin);
    let token = format!("Bearer {OPERATORS_TOKEN}");
    let headers = [("Origin", &*own), ("Authorization", &token)];
    assert_eq!(edge.ask_with("POST", drain, &headers).0, 200);
}

#[test]
fn bad_configuration_starts_nothing() {
    let settings = Settings::new();
    settings.write("servers = []\npolicy = 1", "[limits]\nsessions = 0\n");
    let mut edge = settings.spawn();
    assert_eq!(edge.wait().code(), Some(2));
    for words in [
        "edge.toml:6:12: limits.sessions: 0 is out of range",
        "edge.toml:8:7: pool.app: no servers",
        "edge.toml:10:10: pool.app.policy: expected a policy in quotes",
    ] {
        edge.wait_for_log(words);
    }
}

#[test]
fn all_ports_in_use_are_told_with_their_places() {
    let settings = Settings::new();
    let _sip = UdpSocket::bind(settings.sip).unwrap();
    let _admin = TcpListener::bind(settings.admin).unwrap();
    settings.write(POOL, "");
    let (sip, admin) = (settings.sip, settings.admin);
    let mut edge = settings.spawn();
    assert_eq!(edge.wait().code(), Some(2));
    for words in [
        format!("edge.toml:2:43: cannot bind UDP {sip}: Address already in use (os error 98)"),
        format!("edge.toml:4:21: cannot bind TCP {admin}: Address already in use (os error 98)"),
    ] {
        edge.wait_for_log(&words);
    }
}

/// The check before a start bound UDP for every listener: a node on TCP did not start beside a program on UDP, and a
/// TCP port in use was found only after the admin API was up.
#[test]
fn a_port_in_use_counts_for_its_own_transport() {
    let settings = Settings::new();
    settings.write(POOL, "");
    let text = fs::read_to_string(settings.path()).unwrap();
    let sip = settings.sip;
    let udp = format!("{{ transport = \"udp\", address = \"{sip}\" }}");
    let tcp = udp.replace("udp", "tcp");
    let _other = UdpSocket::bind(sip).unwrap();
    let text = text.replace(&udp, &tcp);
    settings
        .write_whole(&text.replace("address = \"127.0.0.1:9\"", "address = \"tcp:127.0.0.1:9\""));
    drop(settings.start());

    let settings = Settings::new();
    let sip = settings.sip;
    let _other = TcpListener::bind(sip).unwrap();
    let _admin = TcpListener::bind(settings.admin).unwrap();
    settings.write(POOL, "");
    let text = fs::read_to_string(settings.path()).unwrap();
    let udp = format!("{{ transport = \"udp\", address = \"{sip}\" }}");
    let both = format!("{udp},\n {}", udp.replace("udp", "tcp"));
    settings.write_whole(&text.replace(&udp, &both));
    let mut edge = settings.spawn();
    assert_eq!(edge.wait().code(), Some(2));
    edge.wait_for_log(&format!(
        "edge.toml:3:33: cannot bind TCP {sip}: Address already in use"
    ));
    assert!(!edge.log().contains("cannot bind UDP"), "{}", edge.log());
}

#[test]
fn a_second_node_does_not_share_the_first_ones_ports() {
    let first = edge();
    let settings = Settings::new();
    let text = fs::read_to_string(first.settings.path()).unwrap();
    let [old, new] = [&first.settings, &settings].map(|settings| settings.admin.to_string());
    settings.write_whole(
        &text
            .replace(&old, &new)
            .replace("workers = 1", "workers = 2"),
    );
    let mut second = settings.spawn();
    assert_eq!(second.wait().code(), Some(2));
    second.wait_for_log("Address already in use");
}

#[test]
fn a_reload_is_whole_or_refused_whole() {
    let edge = edge();
    let policy = |edge: &Edge| edge.status()["pools"][0]["policy"].clone();

    edge.settings
        .write(&format!("{POOL}\npolicy = \"rr\""), "[timers]\nt1 = 5\n");
    edge.signal("HUP");
    edge.wait_for_log("reload refused");
    let (status, body) = edge.ask_as_operator("POST", "/api/v1/reload");
    assert_eq!(status, 422);
    assert!(body.contains("edge.toml:6:6: timers.t1"), "{body}");
    assert!(body.contains("edge.toml:11:10: pool.app.policy"), "{body}");
    assert_eq!(policy(&edge), "tlwl");

    edge.settings
        .write(&format!("{POOL}\npolicy = \"cjsq\""), "");
    edge.signal("HUP");
    edge.wait_for_log("reloaded");
    assert_eq!(policy(&edge), "cjsq");
}

#[test]
fn what_is_fixed_at_start_needs_a_restart() {
    let edge = edge();
    let text = fs::read_to_string(edge.settings.path()).unwrap();
    let text = text
        .replace("workers = 1", "workers = 2")
        .replace(&edge.sip().to_string(), &free_address().to_string());
    edge.settings
        .write_whole(&(text + "[limits]\nsessions = 10\n"));
    let (status, body) = edge.ask_as_operator("POST", "/api/v1/reload");
    assert_eq!(status, 409, "{body}");
    for key in ["node.workers", "listen", "limits"] {
        let words = format!("{key} has changed; restart the node to apply it");
        assert!(body.contains(&words), "{words} is not in {body}");
    }
    let (code, _, problems) = edge.ctl(&["reload"]);
    assert_eq!(code, Some(2));
    assert_eq!(problems.lines().count(), 3, "{problems}");
}

#[test]
fn servers_come_and_go_by_reload() {
    let edge = edge();
    let servers = |edge: &Edge| {
        edge.status()["pools"][0]["servers"]
            .as_array()
            .unwrap()
            .len()
    };
    edge.settings.write(
        r#"servers = [ { address = "127.0.0.1:9" }, { address = "127.0.0.1:10", capacity = 2 } ]
probe = false"#,
        "",
    );
    assert_eq!(edge.ctl(&["reload"]).0, Some(0));
    assert_eq!(servers(&edge), 2);
    assert_eq!(
        edge.status()["pools"][0]["servers"][1]["state"],
        "slow_start"
    );
    edge.settings.write(POOL, "");
    assert_eq!(edge.ctl(&["reload"]).0, Some(0));
    assert_eq!(servers(&edge), 1);
}

/// The first change of a server's health was not logged, and `undrain` said that a server takes calls that
/// was down. With `probe = false` and a reload such a server stayed down for ever.
#[test]
fn what_is_said_of_a_server_that_is_down_is_true() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let settings = Settings::new();
    let servers = format!("servers = [ {{ address = \"{address}\" }} ]\n");
    settings.write(&servers, "");
    drop(server);
    let edge = settings.start();
    edge.wait_for_log("of pool app is down: nobody listens there (ICMP)");
    let state = |edge: &Edge| edge.status()["pools"][0]["servers"][0]["state"].clone();
    assert_eq!(state(&edge), "down");
    let (_, said, _) = edge.ctl(&["undrain", &address.to_string()]);
    assert!(
        said.ends_with("(app) drains no more, but gets no new calls yet: down\n"),
        "{said}"
    );
    edge.settings.write(&(servers + "probe = false"), "");
    assert_eq!(edge.ctl(&["reload"]).0, Some(0));
    let server = load::Serving::start_at(address, &[]);
    let output = load::call(edge.sip(), &["--rate", "10", "--calls", "1"]);
    assert!(output.status.success(), "{}", edge.log());
    edge.wait_for_log("of pool app is up: it answers requests");
    assert_eq!(server.end()[0]["calls"], 1);
}

#[test]
fn an_operator_drains_and_weighs_servers() {
    let edge = edge();
    let server = |edge: &Edge, key: &str| edge.status()["pools"][0]["servers"][0][key].clone();
    let address = "127.0.0.1:9";
    let done = |arguments: &[&str], says: &str| {
        let (code, out, problems) = edge.ctl(arguments);
        assert_eq!((code, out.as_str(), problems.as_str()), (Some(0), says, ""));
    };
    done(&["drain", address], "127.0.0.1:9 (app) drains\n");
    assert_eq!(server(&edge, "state"), "draining");
    done(&["undrain", address], "127.0.0.1:9 (app) takes calls\n");
    assert_eq!(server(&edge, "state"), "slow_start");
    done(
        &["weight", address, "0.5"],
        "127.0.0.1:9 (app) has capacity 0.5 until the next reload\n",
    );
    assert_eq!(server(&edge, "capacity"), 0.5);

    let refused = |arguments: &[&str], says: &str| {
        let (code, out, problems) = edge.ctl(arguments);
        assert_eq!((code, out.as_str(), problems.as_str()), (Some(2), "", says));
    };
    refused(
        &["drain", "[::1]:9"],
        "no pool has a server [::1]:9; `sipyard ctl status` lists the servers\n",
    );
    refused(
        &["weight", "127.0.0.1", "2"],
        "no pool has a server 127.0.0.1; `sipyard ctl status` lists the servers\n",
    );
    refused(
        &["weight", address, "0"],
        "0 is out of range: give a number from 0.001 to 1000000\n",
    );
}

#[test]
fn status_and_metrics_name_every_server() {
    let edge = edge();
    let (code, table, _) = edge.ctl(&["status"]);
    assert_eq!(code, Some(0));
    let row = table.lines().find(|line| line.starts_with("app")).unwrap();
    assert!(row.starts_with("app   tlwl    127.0.0.1:9  up"), "{table}");
    let (_, json, _) = edge.ctl(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(status["name"], "edge");
    let (_, metrics) = edge.ask("GET", "/metrics");
    for line in [
        "sipyard_server_up{pool=\"app\",server=\"127.0.0.1:9\"} 1",
        "sipyard_server_calls{pool=\"app\",server=\"127.0.0.1:9\"} 0",
        "sipyard_server_placed_total{pool=\"app\",server=\"127.0.0.1:9\"} 0",
        "sipyard_response_seconds_bucket{le=\"+Inf\",pool=\"app\",server=\"127.0.0.1:9\",method=\"INVITE\"} 0",
        "sipyard_messages_received_total{worker=\"0\"} 0",
        "sipyard_dropped_total{worker=\"0\",reason=\"malformed\"} 0",
        "sipyard_sessions_active{worker=\"0\"} 0",
        "# EOF",
    ] {
        assert!(
            metrics.lines().any(|found| found.starts_with(line)),
            "{line}\n{metrics}"
        );
    }
}

#[test]
fn nobody_at_home_is_told() {
    let mut edge = edge();
    edge.signal("INT");
    assert_eq!(edge.wait().code(), Some(0));
    let (code, _, problems) = edge.ctl(&["status"]);
    assert_eq!(code, Some(1));
    assert!(problems.contains("check that the node runs"), "{problems}");
}

/// An INVITE of this Call-ID.
fn invite(call_id: &str, from: SocketAddr) -> String {
    format!(
        "INVITE sip:bob@example.com SIP/2.0\r\n\
         Via: SIP/2.0/UDP {from};branch=z9hG4bK{call_id}\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:alice@example.com>;tag=1\r\n\
         To: <sip:bob@example.com>\r\n\
         Call-ID: {call_id}@example.com\r\n\
         CSeq: 1 INVITE\r\n\
         Contact: <sip:{from}>\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

/// A node whose only server takes an INVITE and never answers.
fn edge_with_open_call(call_id: &str) -> (Edge, [UdpSocket; 2]) {
    let [server, caller] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let settings = Settings::new();
    let address = server.local_addr().unwrap();
    let pool = format!("servers = [ {{ address = \"{address}\" }} ]\nprobe = false");
    settings.write(&pool, "[timers]\ndrain = \"30s\"\n");
    let edge = settings.start();
    let message = invite(call_id, caller.local_addr().unwrap());
    caller.send_to(message.as_bytes(), edge.sip()).unwrap();
    eventually("the open transaction", || {
        edge.status()["workers"][0]["transactions"] == 1
    });
    (edge, [server, caller])
}

#[test]
fn calls_and_messages_are_explained() {
    let (edge, [server, caller]) = edge_with_open_call("one");
    let address = server.local_addr().unwrap();
    let (code, told, _) = edge.ctl(&["explain", "one@example.com"]);
    assert_eq!(code, Some(0));
    let words = format!("on {address} of pool app: the pool's policy chose its server\n");
    assert!(told.starts_with(&words), "{told}");

    let (code, _, problems) = edge.ctl(&["explain", "two@example.com"]);
    assert_eq!(code, Some(2));
    assert!(problems.contains("no worker has a call"), "{problems}");

    let explain = |pasted: &str| {
        let path = edge.folder().join("message");
        fs::write(&path, pasted).unwrap();
        edge.ctl(&["explain", "--message", path.to_str().unwrap()])
    };
    let from = caller.local_addr().unwrap();
    let (_, told, _) = explain(&invite("one", from));
    assert!(told.starts_with(&words), "{told}");
    // As it looks when pasted: bare line feeds, no empty line at the end.
    let (code, told, _) = explain(invite("two", from).replace('\r', "").trim_end());
    assert_eq!(code, Some(0));
    assert_eq!(
        told,
        format!(
            "would be placed in pool app by tlwl; the lowest score wins:\n  {address}  1.750\n"
        )
    );
    let (code, _, told) = explain("hello");
    assert_eq!(code, Some(2), "a script must notice");
    assert!(told.contains("is not a request that can be read"), "{told}");
}

/// The sender is the one in the Via, and the listener the first, unless they are given.
#[test]
fn a_message_is_explained_as_it_would_come() {
    let settings = Settings::new();
    let (other, Settings { sip, admin, .. }) = (free_address(), &settings);
    settings.write_whole(&format!(
        r#"node = {{ secret = "file:secret", workers = 1 }}
listen = [ {{ transport = "udp", address = "{sip}" }}, {{ transport = "udp", address = "{other}" }} ]
admin = {{ address = "{admin}", socket = "admin.sock" }}
pool.one.servers = [ {{ address = "192.0.2.1:5060" }} ]
pool.two.servers = [ {{ address = "192.0.2.2:5060" }} ]
registrar = {{ domains = ["example.com"], store = "memory" }}
trust.peers = ["198.51.100.0/24"]
[[route]]
from = ["peers"]
to = "one"
[[route]]
listeners = ["{other}"]
to = "two"
[[route]]
to = "registrar"
auth = true
"#
    ));
    let edge = settings.start();
    let path = edge.folder().join("message");
    let explain = |via: &str, way: &[&str]| {
        fs::write(&path, invite("one", via.parse().unwrap())).unwrap();
        let message = ["explain", "--message", path.to_str().unwrap()];
        edge.ctl(&[&message, way].concat())
    };
    let (peer, other) = ("198.51.100.7:5060", other.to_string());
    let stranger = "203.0.113.7:5060";
    for (via, way, expected) in [
        (peer, &[][..], "would be placed in pool one"),
        (stranger, &["--from", peer], "would be placed in pool one"),
        (
            stranger,
            &["--listener", &other],
            "would be placed in pool two",
        ),
        (
            stranger,
            &[],
            "would be answered 407 Proxy Authentication Required",
        ),
    ] {
        let (code, told, problems) = explain(via, way);
        assert!(told.starts_with(expected), "{told}{problems}");
        assert_eq!(code, Some(0));
    }
    let (code, _, problems) = explain(stranger, &["--listener", "127.0.0.1:1"]);
    assert!(
        problems.starts_with("no listener has that address"),
        "{problems}"
    );
    assert_eq!(code, Some(2));
}

#[test]
fn a_draining_node_waits_for_its_transactions() {
    let (mut edge, _sockets) = edge_with_open_call("drain");
    edge.signal("TERM");
    edge.wait_for_log("draining: 1 open transactions, 30s");
    eventually("not ready", || edge.ask("GET", "/readyz").0 == 503);
    assert_eq!(edge.ask("GET", "/healthz").0, 200);
    edge.signal("TERM");
    assert_eq!(edge.wait().code(), Some(0));
}
