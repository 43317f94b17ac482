//! Who may ask and change a node: its user through the Unix socket, and clients with tokens on TCP.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::{fs::PermissionsExt, net::UnixListener},
    process::Stdio,
};

use common::{Edge, Settings, eventually, sipyard};
use serde_json::Value;

const POOL: &str = r#"servers = [ { address = "127.0.0.1:9" } ]
probe = false"#;

/// What the secret of the nodes' SIP messages once opened the users with: its SHA-256, with a prefix.
const OF_THE_SECRET: &str = "7a9e2d245a31cc097fc141958071bd7e12cba82476d40a8eef93e102f3dd7542";

const DRAIN: &str = "/api/v1/servers/127.0.0.1:9/drain";

/// `sipyard token`: the token, and the line of the configuration.
fn token(role: &str) -> (String, String) {
    let output = sipyard().args(["token", role]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let behind = |words: &str| {
        let line = text.lines().find(|line| line.contains(words)).unwrap();
        line.split_once(": ").unwrap().1.to_owned()
    };
    (behind("the token"), behind("in [admin]"))
}

/// A node whose admin API listens at this address, on its own port, with these keys.
fn edge(ip: &str, keys: &str) -> Edge {
    let settings = Settings::new();
    let (sip, port) = (settings.sip, settings.admin.port());
    settings.write_whole(&format!(
        r#"node = {{ name = "edge", secret = "file:secret", workers = 1 }}
listen = [ {{ transport = "udp", address = "{sip}" }} ]
route = [ {{ to = "app" }} ]
[pool.app]
{POOL}
[admin]
address = "{ip}:{port}"
socket = "admin.sock"
{keys}
"#
    ));
    settings.start()
}

fn with(edge: &Edge, token: &str, method: &str, path: &str) -> u16 {
    let token = format!("Bearer {token}");
    edge.ask_with(method, path, &[("Authorization", &token)]).0
}

/// Whoever knew the secret of the cluster's SIP messages could read all users over HTTP, and whoever
/// reached the port could change the node.
#[test]
fn on_loopback_readers_need_no_token_and_operators_do() {
    let (reader, _) = token("read");
    let (operator, line) = token("operate");
    let edge = edge("127.0.0.1", &line);
    for path in ["/healthz", "/readyz", "/metrics", "/api/v1/status"] {
        assert_eq!(edge.ask("GET", path).0, 200, "{path}");
    }
    for path in [DRAIN, "/api/v1/reload", "/api/v1/records"] {
        let (status, body) = edge.ask("POST", path);
        assert_eq!(status, 401, "{path}");
        let socket = edge.folder().join("admin.sock");
        let told = "a token with the role operate, which `sipyard token` makes";
        assert!(body.contains(told), "{body}");
        assert!(body.contains(socket.to_str().unwrap()), "{body}");
    }
    assert_eq!(
        with(&edge, &reader, "GET", "/metrics"),
        401,
        "not of this node"
    );
    assert_eq!(with(&edge, OF_THE_SECRET, "POST", "/api/v1/records"), 401);
    assert_eq!(with(&edge, &operator, "GET", "/metrics"), 200);
    assert_eq!(with(&edge, &operator, "POST", DRAIN), 200);
}

#[test]
fn elsewhere_all_but_health_needs_a_token() {
    let (reader, reads) = token("read");
    let edge = edge("0.0.0.0", &reads);
    for (path, without) in [("/healthz", 200), ("/readyz", 200), ("/metrics", 401)] {
        assert_eq!(edge.ask("GET", path).0, without, "{path}");
        assert_eq!(with(&edge, &reader, "GET", path), 200, "{path}");
    }
    assert_eq!(with(&edge, &reader, "POST", DRAIN), 403);
    let url = format!("http://127.0.0.1:{}", edge.settings.admin.port());
    let ctl = |token: &str, what: &[&str]| {
        let mut ctl = sipyard();
        ctl.env("SIPYARD_TOKEN", token)
            .args(["ctl", "--admin", &url]);
        ctl.args(what).output().unwrap().status.code()
    };
    assert_eq!(ctl(&reader, &["status"]), Some(0));
    assert_eq!(ctl("other", &["status"]), Some(2));
    assert_eq!(ctl(&reader, &["drain", "127.0.0.1:9"]), Some(2));
}

/// A token that leaked goes with a reload, without a restart.
#[test]
fn tokens_come_and_go_by_reload() {
    let (first, line) = token("operate");
    let (second, other_line) = token("operate");
    let edge = edge("127.0.0.1", &line);
    let text = fs::read_to_string(edge.settings.path()).unwrap();
    edge.settings.write_whole(&text.replace(&line, &other_line));
    assert_eq!(edge.ctl(&["reload"]).0, Some(0));
    assert_eq!(with(&edge, &first, "POST", DRAIN), 401);
    assert_eq!(with(&edge, &second, "POST", DRAIN), 200);
}

#[test]
fn the_socket_is_of_the_nodes_user_and_goes_with_the_node() {
    let mut edge = edge("127.0.0.1", "");
    let socket = edge.folder().join("admin.sock");
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(edge.ctl(&["drain", "127.0.0.1:9"]).0, Some(0));
    edge.signal("TERM");
    assert_eq!(edge.wait().code(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn a_stale_socket_is_replaced_and_one_in_use_is_not() {
    let settings = Settings::new();
    let socket = settings.path().with_file_name("admin.sock");
    drop(UnixListener::bind(&socket).unwrap());
    settings.write(POOL, "");
    let first = settings.start();
    assert_eq!(first.ctl(&["status"]).0, Some(0));

    let second = Settings::new();
    second.write(POOL, "");
    let text = fs::read_to_string(second.path()).unwrap();
    let shared = format!("socket = \"{}\"", socket.display());
    second.write_whole(&text.replace("socket = \"admin.sock\"", &shared));
    let mut second = second.spawn();
    assert_eq!(second.wait().code(), Some(2));
    second.wait_for_log(&format!(
        "cannot bind the Unix socket {}: another node uses it: stop that node, or choose another \
         path",
        socket.display()
    ));
    assert_eq!(
        first.ctl(&["status"]).0,
        Some(0),
        "it is still the first one's"
    );
}

#[test]
fn a_file_of_another_kind_is_left_alone() {
    let settings = Settings::new();
    let path = settings.path().with_file_name("admin.sock");
    fs::write(&path, "somebody's").unwrap();
    settings.write(POOL, "");
    let mut edge = settings.spawn();
    assert_eq!(edge.wait().code(), Some(2));
    edge.wait_for_log("there is a file that is not a socket: choose another path");
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's");
}

/// Each call of the API is described, and each that is described is there, for those who may make it.
#[test]
fn the_api_describes_itself() {
    let (reader, read) = token("read");
    let (operator, operate) = token("operate");
    let hash = |line: &str| line.split('"').nth(1).unwrap().to_owned();
    let tokens = [hash(&read), hash(&operate)];
    let edge = edge("127.0.0.1", &format!("tokens = {tokens:?}"));
    let (status, text) = edge.ask("GET", "/api/v1/openapi.json");
    assert_eq!(status, 200, "{text}");
    let api: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(api["openapi"], "3.1.0");
    let paths = api["paths"].as_object().unwrap();
    assert!(paths.contains_key("/api/v1/status") && paths.contains_key("/api/v1/reload"));
    let asked = paths.iter().flat_map(|(path, methods)| {
        methods
            .as_object()
            .unwrap()
            .iter()
            .map(move |it| (path, it))
    });
    for (path, (method, described)) in asked {
        let is_endless = path.ends_with("/live");
        let changes_the_node = ["/drain", "/reload"].iter().any(|end| path.ends_with(end));
        if is_endless || changes_the_node {
            continue;
        }
        let may = described["description"].as_str().unwrap();
        let (method, place) = (method.to_uppercase(), path.replace(['{', '}'], ""));
        let as_reader = with(&edge, &reader, &method, &place);
        assert_eq!(
            as_reader == 403,
            may.contains("operates"),
            "{method} {path}: {as_reader}"
        );
        let as_operator = with(&edge, &operator, &method, &place);
        assert!(
            ![401, 403, 405].contains(&as_operator),
            "{method} {path}: {as_operator}"
        );
    }
}

/// A body that is too long and a query that can't be read were refused in plain text, which `ctl` took for an answer of
/// another version of the node.
#[test]
fn what_can_not_be_read_is_refused_in_json() {
    let edge = edge("127.0.0.1", "");
    for path in ["/api/v1/history?span=x", "/api/v1/history?server=a"] {
        let (status, text) = edge.ask("GET", path);
        assert_eq!(status, 400, "{path}: {text}");
        let refused: Value = serde_json::from_str(&text).expect(&text);
        assert!(refused["problems"][0].is_string(), "{text}");
    }
    let message = edge.folder().join("message");
    fs::write(&message, vec![b'x'; 100_000]).unwrap();
    let (code, _, error) = edge.ctl(&["explain", "--message", message.to_str().unwrap()]);
    assert_ne!(code, Some(0));
    assert!(
        error.contains("length limit") && !error.contains("version"),
        "{error}"
    );
}

/// The figures, if the node answers on TCP.
fn figures(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    (!text.is_empty()).then_some(text)
}

/// Whoever reached the port could open connections until the node had no descriptors left for calls.
#[test]
fn a_source_has_so_many_connections() {
    let edge = edge("127.0.0.1", "");
    let address = edge.settings.admin;
    let mut open: Vec<_> = (0..128)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    eventually("the last one has its place", || figures(address).is_none());
    let socket = edge.folder().join("admin.sock");
    let by_socket = sipyard()
        .args(["ctl", "--admin", socket.to_str().unwrap(), "status"])
        .status();
    assert!(by_socket.unwrap().success());
    open.clear();
    eventually("they gave their places back", || {
        figures(address).is_some_and(|text| text.contains("\nsipyard_admin_connections 1.0\n"))
    });
    let text = figures(address).unwrap();
    let refused = text
        .lines()
        .find_map(|line| line.strip_prefix("sipyard_admin_connections_refused_total "));
    assert!(refused.unwrap().parse::<u64>().unwrap() > 0, "{text}");
}

/// The audit log left out whatever changed users and bindings, as they are read at the same path.
#[test]
fn changes_of_users_are_logged_without_their_passwords() {
    let edge = edge(
        "127.0.0.1",
        "[registrar]\ndomains = [\"example.com\"]\nstore = \"memory\"",
    );
    let path = edge.settings.path();
    let run = |words: &str| {
        let mut command = sipyard();
        let command = command.args(words.split(' ')).arg("--config").arg(&path);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that asks for nothing reads nothing.
        let _ = child.stdin.take().unwrap().write_all(b"verysecret\n");
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{words}");
    };
    run("user list");
    run("user add carol@example.com");
    edge.wait_for_log("audit: the Unix socket: 1 records changed");
    run("user list");
    run("user remove carol@example.com");
    eventually("both changes are logged", || {
        edge.log().matches("1 records changed").count() == 2
    });
    let log = edge.log();
    assert_eq!(log.matches("audit:").count(), 2, "{log}");
    assert!(
        !log.contains("verysecret") && !log.contains("carol"),
        "{log}"
    );
}

/// A user whose name has an at sign can be added, but the API did not know it.
#[test]
fn the_domain_of_a_user_is_behind_the_last_at_sign() {
    let settings = Settings::new();
    let registrar = "[registrar]\ndomains = [\"example.com\"]\nstore = \"memory\"";
    settings.write(POOL, registrar);
    let edge = settings.start();
    let (status, text) = edge.ask_as_operator("GET", "/api/v1/users/alice@home@example.com");
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("alice@home@example.com"), "{text}");
}
