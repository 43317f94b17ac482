//! Bad configuration files: all of their problems at once, each with its place, and exit code 2.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod calls;
mod registrar;
mod routes;
mod strangers;
mod warnings;

use std::process::Command;

/// Runs `sipyard check` on a file that holds `text`, beside a good secret and a short one.
fn run(text: &str) -> (Option<i32>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let secret = "0123456789abcdef".repeat(4) + "\n";
    for (name, text) in [("secret", &*secret), ("short", "secret\n"), ("f", text)] {
        testbed::write_private(&folder.path().join(name), text).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_sipyard"))
        .args(["check", "f"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8(printed).unwrap();
    let lines = printed.lines().filter(|line| !line.contains(": warning: "));
    let lines = lines.map(str::to_owned).collect();
    (output.status.code(), lines)
}

/// A file that holds a good node, listener, pool and route, with `more` after them.
pub(crate) fn good(more: &str) -> String {
    format!(
        r#"node = {{ secret = "file:secret" }}
listen = [ {{ transport = "udp", address = "127.0.0.1:5060" }} ]
pool.app.servers = [ {{ address = "10.0.0.1:5060" }} ]
route = [ {{ to = "app" }} ]
{more}"#
    )
}

pub(crate) fn check(text: &str, problems: &[&str]) {
    let (code, lines) = run(text);
    assert_eq!(lines, problems, "of\n{text}");
    assert_eq!(code, Some(2), "of\n{text}");
}

pub(crate) fn check_good(text: &str, summary: &str) {
    assert_eq!(run(text), (Some(0), vec![summary.to_owned()]), "of\n{text}");
}

#[test]
fn good_files_are_summed_up() {
    check_good(
        &good(""),
        "f: ok (listens on udp 127.0.0.1:5060; pools: app (1 x tlwl); \
         admin on http://127.0.0.1:8060)",
    );
    check_good(
        r#"
        [node]
        secret = "an operator's own text of more than 32 bytes"
        [[listen]]
        transport = "udp"
        address = "[::]:5060"
        advertise = "[2001:db8::1]"
        [pool.b]
        policy = "user-hash"
        costs = { REGISTER = 2 }
        servers = [ { address = "[2001:db8::2]:5060", capacity = 2 } ]
        probe = false
        [pool.a]
        servers = [ { address = "[2001:db8::2]:5060" } ]
        [[route]]
        methods = ["REGISTER"]
        hosts = ["example.com", "192.0.2.1", "[2001:db8::1]"]
        to = "b"
        [[route]]
        to = "a"
        [admin]
        address = "127.0.0.1:9000"
        socket = "admin.sock"
        tokens = ["read:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"]
        "#,
        "f: ok (listens on udp [::]:5060; pools: b (1 x user-hash), a (1 x tlwl); \
         admin on http://127.0.0.1:9000)",
    );
}

#[test]
fn the_file_must_be_readable_toml() {
    let output = Command::new(env!("CARGO_BIN_EXE_sipyard"))
        .args(["check", "/nonexistent/f"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "/nonexistent/f: can't read the file: No such file or directory (os error 2)\n"
    );
    check(
        "a = \n[node]\nname = \"x\n",
        &[
            "f:1:5: not TOML: string values must be quoted, expected literal string",
            "f:3:10: not TOML: invalid basic string, expected `\"`",
        ],
    );
    check(
        "[node]\nname = \"a\"\nname = \"b\"\n",
        &["f:3:1: not TOML: duplicate key"],
    );
}

#[test]
fn an_empty_file_lacks_what_is_required() {
    check(
        "",
        &[
            "f:1:1: there is no listener: add [[listen]] with transport, address and advertise",
            "f:1:1: node: `secret` is missing: write secret = \"file:PATH\"; `(umask 077; \
             openssl rand -hex 32 > PATH)` writes one",
            "f:1:1: there is no pool: add [pool.NAME] with the servers that take the calls",
            "f:1:1: there is no route: add [[route]] with to = \"NAME\", the pool that takes the \
             calls",
        ],
    );
}

#[test]
fn unknown_keys_are_refused_everywhere() {
    check(
        &good("[limit]\n[timers]\ntimer_d = \"1s\"\nzeal = 1\n"),
        &[
            "f:5:2: unknown key `limit`; did you mean `limits`?",
            "f:7:1: unknown key `timers.timer_d`; did you mean `timer_c`?",
            "f:8:1: unknown key `timers.zeal`; choose one of t1, timer_c, call_max, drain",
        ],
    );
}

#[test]
fn secrets_are_readable_and_long() {
    let node = |secret: &str| good("").replace("file:secret", secret);
    check(
        &node("file:nowhere"),
        &[
            "f:1:19: node.secret: cannot read nowhere: No such file or directory (os error 2); the \
             user who runs sipyard must be able to read this file",
        ],
    );
    let short =
        "the secret has 6 bytes, but needs at least 32; `openssl rand -hex 32` prints a good one";
    for secret in ["file:short", "SECRET"] {
        check(&node(secret), &[&format!("f:1:19: node.secret: {short}")]);
    }
    let number = good("").replace("\"file:secret\"", "5");
    check(
        &number,
        &["f:1:19: node.secret: expected a string, found an integer"],
    );
}

#[test]
fn peers_are_others_and_can_be_reached() {
    let node = |more: &str| good("").replace("secret = ", &format!("{more}, secret = "));
    check_good(
        &node(r#"peers = ["127.0.0.1:5062"], peer_interval = "50ms""#),
        "f: ok (listens on udp 127.0.0.1:5060; pools: app (1 x tlwl); \
         admin on http://127.0.0.1:8060)",
    );
    check(
        &node(r#"peers = ["127.0.0.1:5060"], peer_interval = "1s""#),
        &[
            "f:1:18: node.peers: 127.0.0.1:5060 is this node's own listener: list only the other \
             edges",
            "f:1:54: node.peer_interval: 1s is out of range: write a value from 20ms to 200ms",
        ],
    );
    check(
        &node(r#"peers = ["[::1]:5060"]"#),
        &[
            "f:1:18: node.peers: no listener can send to [::1]:5060: add one of the same kind, \
             IPv4 or IPv6",
        ],
    );
}

#[test]
fn listeners_are_distinct_and_reachable() {
    check(
        r#"
[node]
secret = "file:secret"
[[listen]]
transport = "udp"
address = "127.0.0.1:5060"
[[listen]]
transport = "udp"
address = "127.0.0.1:5060"
[[listen]]
address = "0.0.0.0:5062"
[[listen]]
transport = "udp"
address = "0.0.0.0:5063"
advertise = "0.0.0.0:5063"
[[listen]]
transport = "upd"
address = "127.0.0.1"
[[listen]]
transport = "udp"
address = "localhost:5060"
[pool.app]
servers = [
  { address = "127.0.0.1:5060" },
  { address = "[::1]:5060" },
  { address = "0.0.0.0:5070" },
]
[[route]]
to = "app"
"#,
        &[
            "f:9:11: listen.address: the listener at f:6:11 already has 127.0.0.1:5060: choose \
             another address or port",
            "f:10:1: listen: `transport` is missing: write transport = \"udp\", \"tcp\", \"tls\", \"ws\" \
             or \"wss\"",
            "f:11:11: listen.address: 0.0.0.0:5062 stands for every address of this machine: add \
             advertise = \"HOST:PORT\", at which others reach this listener",
            "f:15:13: listen.advertise: \"0.0.0.0:5063\" is not a host or host:port that others \
             can reach, such as \"203.0.113.10:5060\", \"sip.example.com\" or \"[2001:db8::1]:5060\"",
            "f:17:13: listen.transport: unknown transport \"upd\"; did you mean `udp`?",
            "f:18:11: listen.address: \"127.0.0.1\" has no port: write \"127.0.0.1:5060\" for \
             SIP's default port",
            "f:21:11: listen.address: \"localhost:5060\" is not IP:PORT, such as \
             \"10.0.0.11:5060\" or \"[2001:db8::1]:5060\"; write an IP address, because names are \
             not looked up",
            "f:24:15: pool.app.servers.address: 127.0.0.1:5060 is this node's own listener: it \
             would send calls to itself; write the address of another server",
            "f:25:15: pool.app.servers.address: no listener can send to [::1]:5060: \
             add one with an IPv6 address",
            "f:26:15: pool.app.servers.address: 0.0.0.0:5070 is not the address of one server: \
             write the server's address",
        ],
    );
}

#[test]
fn pools_hold_distinct_servers_and_known_settings() {
    let units = "a duration in quotes, such as \"250ms\", \"2s\", \"5m\" or \"12h\"";
    let server = "a server in quotes, such as \"10.0.0.11:5060\", \"tcp:10.0.0.11:5060\", \
                  \"sip1.example.com:5060\", \
                  \"srv:_sip._udp.example.com\" or \"pool:core\"";
    check(
        &good(
            r#"[pool.web]
policy = "tlw"
costs = { INVTE = 1.0, ACK = 2, BYE = "x", INFO = -1 }
servers = [
  { address = "10.0.0.2:5060", capacity = 0 },
  { adress = "10.0.0.3:5060" },
  { address = "10.0.0.2:5060" },
  5,
]
probe = { method = "INFO", interval = "2 s", timeout = "5s", fall = 0, riise = 3 }
slow_start = 10
answer_timeout = "100ms"
[pool.empty]
costs = "guess"
policy = "oracle"
probe = 1
"#,
        ),
        &[
            "f:6:10: pool.web.policy: unknown policy \"tlw\"; did you mean `tlwl`?",
            "f:7:11: pool.web.costs.INVTE: unknown method \"INVTE\"; did you mean `INVITE`?",
            "f:7:24: pool.web.costs.ACK: belongs to its INVITE and costs nothing: remove it",
            "f:7:39: pool.web.costs.BYE: expected a number, found a string",
            "f:7:51: pool.web.costs.INFO: -1 is out of range: write a value from 0 to 1000",
            "f:9:43: pool.web.servers.capacity: 0 is out of range: write a value from 0.001 to \
             1000000",
            "f:10:3: pool.web.servers: `address` is missing: write address = \"IP:PORT\"",
            "f:10:5: unknown key `pool.web.servers.adress`; did you mean `address`?",
            "f:11:15: pool.web.servers.address: 10.0.0.2:5060 is already in this pool, at f:9:15",
            &format!("f:12:3: pool.web.servers: expected {server}, found an integer"),
            "f:14:20: pool.web.probe.method: \"INFO\" is not supported: write \"OPTIONS\"",
            &format!("f:14:39: pool.web.probe.interval: expected {units}, found \"2 s\""),
            "f:14:56: pool.web.probe.timeout: 5s is out of range: write a value from 10ms to 2s",
            "f:14:69: pool.web.probe.fall: 0 is out of range: write a value from 1 to 100",
            "f:14:72: unknown key `pool.web.probe.riise`; did you mean `rise`?",
            &format!("f:15:14: pool.web.slow_start: expected {units}, found an integer"),
            "f:16:18: pool.web.answer_timeout: 100ms is out of range: write a value from 500ms to \
             32s (T1 to 64*T1; timers.t1 is 500ms)",
            "f:17:7: pool.empty: no servers: write servers = [ { address = \"IP:PORT\" }, ... ], \
             or servers = \"srv:NAME\"",
            "f:18:9: pool.empty.costs: expected a table, found a string",
            "f:19:10: pool.empty.policy: \"oracle\" compares the work that servers have left, \
             which only simulated servers report: choose another policy, such as \"tlwl\"",
            "f:20:9: pool.empty.probe: expected a table, found an integer",
        ],
    );
}

#[test]
fn servers_have_addresses_or_names() {
    let servers = |servers: &str| {
        let fixed = r#"[ { address = "10.0.0.1:5060" } ]"#;
        good("[dns]\nservers = [\"10.0.0.53:53\"]\ntimeout = \"1s\"").replace(fixed, servers)
    };
    let all = r#"[ "srv:_sip._udp.Example.com", "10.0.0.1:5060", "SIP1.example.com:5070",
        { address = "srv:_sip._udp.example.org.", capacity = 0.5 }, "10.0.0.2:5060" ]"#;
    for (written, summed_up) in [
        (
            r#""srv:_sip._udp.example.com""#,
            "srv:_sip._udp.example.com",
        ),
        (r#""10.0.0.1:5060""#, "1"),
        (
            all,
            "2 + srv:_sip._udp.example.com + sip1.example.com:5070 + srv:_sip._udp.example.org.",
        ),
    ] {
        check_good(
            &servers(written),
            &format!(
                "f: ok (listens on udp 127.0.0.1:5060; pools: app ({summed_up} x tlwl); \
                 admin on http://127.0.0.1:8060)"
            ),
        );
    }
    let expected = "expected a server in quotes, such as \"10.0.0.11:5060\", \"tcp:10.0.0.11:5060\", \
                    \"sip1.example.com:5060\", \"srv:_sip._udp.example.com\" or \
                    \"pool:core\", found";
    check(
        &servers(
            r#"[ "srv:_sip._sctp.example.com", "srv:example.com", "example.com",
  "10.0.0.1", { address = "srv:_sip._udp.a" }, "srv:_sip._udp.A", "-.a:1", "10.0.0.300:1",
]"#,
        ),
        &[
            "f:3:22: pool.app.servers: \"srv:_sip._sctp.example.com\": only \"_sip._udp\", \"_sip._tcp\" and \"_sips._tcp\" are supported",
            "f:3:52: pool.app.servers: \"srv:example.com\" names no SRV records, as \
             \"srv:_sip._udp.example.com\" does",
            &format!("f:3:71: pool.app.servers: {expected} \"example.com\""),
            "f:4:3: pool.app.servers: \"10.0.0.1\" has no port: write \"10.0.0.1:5060\" for SIP's \
             default port",
            "f:4:48: pool.app.servers: srv:_sip._udp.a is already in this pool, at f:4:27",
            &format!("f:4:67: pool.app.servers: {expected} \"-.a:1\""),
            &format!("f:4:76: pool.app.servers: {expected} \"10.0.0.300:1\""),
        ],
    );
}

#[test]
fn clusters_are_for_policies_that_hash_users() {
    let clusters = |policy: &str, name: &str| {
        let fixed = r#"[ { address = "10.0.0.1:5060" } ]"#;
        let servers = format!(
            r#"[ {{ address = "10.0.0.1:5060", cluster = "{name}" }}, {{ address = "srv:_sip._udp.b", cluster = "b" }} ]
pool.app.policy = "{policy}""#
        );
        good("").replace(fixed, &servers)
    };
    check_good(
        &clusters("user-hash", "a"),
        "f: ok (listens on udp 127.0.0.1:5060; pools: app (1 + srv:_sip._udp.b x user-hash); \
         admin on http://127.0.0.1:8060)",
    );
    check(
        &clusters("tlwl", "a"),
        &["f:3:6: pool.app: pools with clusters need policy = \"user-hash\" or \"bounded-hash\""],
    );
    check(
        &clusters("user-hash", ""),
        &["f:3:61: pool.app.servers.cluster: the cluster has an empty name: choose one"],
    );
}

#[test]
fn nodes_find_each_other_in_a_store_that_all_share() {
    let found = |more: &str| {
        good(more).replace(
            "[ { address = \"10.0.0.1:5060\" } ]",
            "[ \"pool:core\", { address = \"pool:spare\", capacity = 0.5 } ]",
        )
    };
    check_good(
        &found(
            "[cluster]\nstore = \"redis://10.0.0.20\"\nannounce = \"edges\"\n\
             address = \"10.0.0.2:5060\"\ncapacity = 2\nlease = \"5s\"\n",
        ),
        "f: ok (listens on udp 127.0.0.1:5060; pools: app (pool:core + pool:spare x tlwl); \
         admin on http://127.0.0.1:8060)",
    );
    let missing = "there is no [cluster]: add it with the store in which nodes announce themselves";
    check(
        &found(""),
        &[
            &format!("f:3:22: pool.app.servers: {missing}"),
            &format!("f:3:47: pool.app.servers.address: {missing}"),
        ],
    );
    check(
        &found("cluster = { announce = \"core\", lease = \"1h\", ttl = 1 }"),
        &[
            "f:5:11: cluster: `store` is missing: write store = \"redis://HOST:PORT\", which all nodes share",
            "f:5:40: cluster.lease: 1h is out of range: write a value from 1s to 1m",
            "f:5:46: unknown key `cluster.ttl`; choose one of store, lease, announce, address, \
             capacity",
        ],
    );
    check(
        &found("cluster = { store = \"file:a\", announce = \"core\", capacity = 0 }")
            .replace("127.0.0.1:5060\"", "0.0.0.0:5060\", advertise = \"a.test\""),
        &[
            "f:5:21: cluster.store: no other node can use file:a: write \"redis://HOST:PORT\", \
             which all nodes share",
            "f:5:42: cluster.announce: 0.0.0.0:5060 stands for every address of this machine: add \
             address = \"IP:PORT\", at which other nodes reach this node",
            "f:5:61: cluster.capacity: 0 is out of range: write a value from 0.001 to 1000000",
        ],
    );
}

#[test]
fn routes_lead_to_pools_and_can_be_reached() {
    check(
        &good("").replace(
            r#"route = [ { to = "app" } ]"#,
            r#"[[route]]
methods = ["REGISTER", "invite"]
to = "registrar"
[[route]]
methods = []
hosts = ["example.com:5060", "10.0.0.300"]
to = "ap"
[[route]]
methods = "INVITE"
[[route]]
to = "app"
state = "statefull"
[[route]]
to = "elsewhere"
"#,
        ),
        &[
            "f:5:11: route.methods: unknown method \"invite\"; did you mean `INVITE`?",
            "f:6:6: route.to: there is no registrar: add [registrar] with domains and store",
            "f:8:11: route.methods: the list is empty, so the route matches nothing: remove the \
             key to match everything",
            "f:9:9: route.hosts: \"example.com:5060\" is not a host, such as \"example.com\" or \
             \"203.0.113.10\"; write it without a port",
            "f:10:6: route.to: there is no pool \"ap\"; did you mean `app`?",
            "f:11:1: route: `to` is missing: write to = \"NAME\", the pool's name",
            "f:12:11: route.methods: expected a list such as [\"A\", \"B\"], found a string",
            "f:15:9: route.state: unknown state \"statefull\"; did you mean `stateful`?",
            "f:16:1: route: no request reaches this route, because the route at f:13:1 takes every \
             request: swap or remove one",
            "f:17:6: route.to: there is no pool \"elsewhere\"; choose one of app",
        ],
    );
}

#[test]
fn bounds_and_timers_are_within_range() {
    check(
        &good(
            r#"[limits]
sessions = 0
headers = 3.5
message_bytes = 0x1_0000
[timers]
t1 = "0ms"
timer_c = "3m"
drain = "1d"
[admin]
address = "8060"
"#,
        ),
        &[
            "f:6:12: limits.sessions: 0 is out of range: write a value from 1 to 100000000",
            "f:7:11: limits.headers: expected an integer, found a number with a fraction",
            "f:8:17: limits.message_bytes: 0x10000 is out of range: write a value from 1500 to \
             65535",
            "f:10:6: timers.t1: 0ms is out of range: write a value from 10ms to 5s",
            "f:11:11: timers.timer_c: 3m is out of range: write a value from 181s to 1h",
            "f:12:9: timers.drain: expected a duration in quotes, such as \"250ms\", \"2s\", \
             \"5m\" or \"12h\", found \"1d\"",
            "f:14:11: admin.address: \"8060\" is not IP:PORT, such as \"10.0.0.11:5060\" or \
             \"[2001:db8::1]:5060\"; write an IP address, because names are not looked up",
        ],
    );
}

#[test]
fn tokens_are_roles_and_hashes() {
    let expected = "expected ROLE:HASH, as `sipyard token ROLE` prints it beside the token";
    let hash = "0".repeat(64);
    check(
        &good(&format!(
            "[admin]\nsocket = \"\"\ntokens = [\"read:{hash}\", \"{hash}\"]\n"
        )),
        &[
            "f:6:10: admin.socket: the text is empty: write at least one character",
            &format!("f:7:10: admin.tokens: {expected}"),
        ],
    );
    check(
        &good(&format!("admin.tokens = [\"reads:{hash}\"]")),
        &["f:5:16: admin.tokens: unknown role \"reads\"; did you mean `read`?"],
    );
}
