//! Long lives of connections: other proxies over TLS, crashes, reloads, and a machine without descriptors.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Ipv6Addr, SocketAddr, TcpStream},
    path::Path,
    process::Command,
    time::Duration,
};

use tempfile::tempdir;
use testbed::comes_within;

use crate::{
    common::authority::Authority,
    common::{
        Edge, PATIENCE, Settings, free_address,
        load::{Serving, call, load},
    },
    edge::{Counts, wait_until_idle, within_counts},
    kamailio::Kamailio,
    process::{Process, whole_machine, within},
    restart::crash_and_start,
    sipp::{Caller, Server, scenario},
    streams::{configure, plain, secure, with_certificate},
};

const SHOWN: &str = "certificates = [ { chain = \"edge.pem\", key = \"edge.key\" } ]";

/// A node's settings with a UDP and a TLS listener, whose certificate is of the authority `ca.pem` in its folder.
fn secured(servers: &[String], rest: &str) -> (Settings, SocketAddr) {
    let (settings, address) = (Settings::new(), free_address());
    let folder = settings.path().with_file_name("");
    Authority::new(&folder, "ca").issue("edge", &["localhost", "127.0.0.1"]);
    let listener = format!("{{ transport = \"tls\", address = \"{address}\", {SHOWN} }}");
    let rest = format!("tls = {{ ca = \"ca.pem\" }}\n{rest}");
    let listeners = [plain("udp", settings.sip), listener];
    configure(&settings, &listeners, servers, &rest);
    (settings, address)
}

fn kamailio(folder: &Path, secure: SocketAddr, target: &str) -> Kamailio {
    let config = include_str!("scenarios/kamailio_tls.cfg");
    let config = config.replace("FOLDER", &folder.display().to_string());
    let config = config.replace("SECURE", &secure.to_string());
    Kamailio::start(&config.replace("TARGET", target))
}

/// SIPp, the edge, Kamailio over TLS, SIPp; then SIPp, Kamailio, the edge over TLS, SIPp.
#[test]
fn kamailio_speaks_tls_behind_the_edge_and_before_it() {
    if !Path::new("/usr/lib/x86_64-linux-gnu/kamailio/modules/tls.so").exists() {
        assert!(
            std::env::var_os("CI").is_none(),
            "install kamailio-tls-modules"
        );
        eprintln!("SKIPPED: kamailio-tls-modules is missing");
        return;
    }
    let _alone = whole_machine();
    let server = Server::start(&scenario("server"));
    let secure = free_address();
    let (settings, _) = secured(&[format!("tls:localhost:{}", secure.port())], "");
    let folder = settings.path().with_file_name("");
    let behind = kamailio(&folder, secure, &server.address.to_string());
    let edge = settings.start();
    let load = ["-r", "50", "-m", "300", "-d", "200"];
    let mut caller = Caller::start(edge.sip(), &scenario("caller"), &load);
    caller.outcome(3 * PATIENCE).expect_all(300);
    wait_until_idle(&edge, PATIENCE);
    assert_eq!(Counts::of(&edge).of_server(secure, "placed"), 300);
    within(PATIENCE, "all BYEs", || server.byes() == 300);
    assert!(!behind.log().contains("ERROR"), "{}", behind.log());
    drop(behind);

    let (settings, address) = secured(&[server.address.to_string()], "");
    let folder = settings.path().with_file_name("");
    let edge = settings.start();
    let before = kamailio(&folder, free_address(), &format!("{address};transport=tls"));
    let mut caller = Caller::start(before.address, &scenario("caller"), &load);
    caller.outcome(3 * PATIENCE).expect_all(300);
    wait_until_idle(&edge, PATIENCE);
    within(PATIENCE, "all BYEs", || server.byes() == 600);
    assert_eq!(server.foreign_byes(), 0);
}

/// SIPp has no TLS in Debian.
#[test]
fn sipp_calls_through_stunnel() {
    if Command::new("stunnel").arg("-version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "install stunnel4");
        eprintln!("SKIPPED: stunnel is missing");
        return;
    }
    let server = Server::start(&scenario("server"));
    let (settings, address) = secured(&[server.address.to_string()], "");
    let (folder, clear) = (tempdir().unwrap(), free_address());
    let authority = settings.path().with_file_name("ca.pem");
    let config = format!(
        "foreground = yes\npid =\n[sip]\nclient = yes\naccept = {clear}\nconnect = {address}\nCAfile = {}\n\
         verifyChain = yes\ncheckHost = localhost\n",
        authority.display()
    );
    fs::write(folder.path().join("stunnel.conf"), config).unwrap();
    let edge = settings.start();
    let tunnel = Process::start("stunnel", "stunnel4", folder, &["stunnel.conf"]);
    within(PATIENCE, "stunnel", || {
        tunnel.log().contains("Configuration successful")
    });
    for mode in ["t1", "tn"] {
        let load = ["-m", "200", "-r", "100", "-t", mode, "-max_socket", "300"];
        let mut caller = Caller::start(clear, &scenario("caller"), &load);
        caller.outcome(3 * PATIENCE).expect_all(200);
    }
    wait_until_idle(&edge, PATIENCE);
    within(PATIENCE, "all BYEs", || server.byes() == 400);
}

/// Callers and servers of our own, on connections of each kind, without a node between them.
#[test]
fn load_is_made_over_every_kind_of_connection() {
    for transport in ["tcp", "tls", "ws", "wss"] {
        let folder = tempdir().unwrap();
        Authority::new(folder.path(), "ca").issue("edge", &["localhost", "127.0.0.1"]);
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (chain, key, authority) = (path("edge.pem"), path("edge.key"), path("ca.pem"));
        let mut at = vec!["--transport", transport];
        let mut to = vec!["--transport", transport, "--connections", "20"];
        if transport.ends_with('s') && transport != "ws" {
            at.extend(["--chain", &chain, "--key", &key]);
            to.extend(["--authorities", &authority]);
        }
        let serving = Serving::start_at(free_address(), &at);
        let address = serving.address.to_string();
        let mut call = vec!["call", "--to", &address, "--rate", "100", "--calls", "200"];
        call.extend(["--success", "100%"]);
        call.extend(to);
        let output = load(&call);
        assert!(output.status.success(), "{transport}: {output:?}");
        let report = serving.end();
        assert_eq!(report[0]["ended"], 200, "{transport}: {report:?}");
    }
}

/// TLS before the node and TCP behind it.
#[test]
fn calls_cross_over_streams_on_ipv6() {
    let on_ipv6 = || SocketAddr::new(Ipv6Addr::LOCALHOST.into(), free_address().port());
    let (settings, address) = (Settings::new(), on_ipv6());
    let folder = settings.path().with_file_name("");
    Authority::new(&folder, "ca").issue("edge", &["::1"]);
    let serving = Serving::start_at(on_ipv6(), &["--transport", "tcp"]);
    let servers = [format!("tcp:{}", serving.address)];
    let listeners = [plain("tcp", on_ipv6()), with_certificate("tls", address)];
    configure(&settings, &listeners, &servers, "");
    let edge = settings.start();
    let authority = folder.join("ca.pem").display().to_string();
    let to = [
        "--transport",
        "tls",
        "--authorities",
        &authority,
        "--connections",
        "5",
    ];
    let calls = ["--rate", "100", "--calls", "100", "--success", "100%"];
    let output = call(address, &[&to[..], &calls].concat());
    assert!(output.status.success(), "{output:?}");
    wait_until_idle(&edge, PATIENCE);
    assert_eq!(serving.end()[0]["ended"], 100);
}

/// Two servers that speak WebSocket themselves, and a core that does so for another.
#[test]
fn calls_go_on_to_servers_by_websocket() {
    const CALLS: u64 = 100;
    let last = Server::start(&scenario("server"));
    let (core, by_ws, by_wss) = (Settings::new(), free_address(), free_address());
    let folder = core.path().with_file_name("");
    Authority::new(&folder, "ca").issue("edge", &["127.0.0.1"]);
    let listeners = [
        plain("udp", core.sip),
        plain("ws", by_ws),
        with_certificate("wss", by_wss),
    ];
    configure(&core, &listeners, &[last.address.to_string()], "");
    let path = |name: &str| folder.join(name).display().to_string();
    let (chain, key, authority) = (path("edge.pem"), path("edge.key"), path("ca.pem"));
    let core = core.start();
    let secure_at = ["--transport", "wss", "--chain", &chain, "--key", &key];
    let serving = [
        Serving::start_at(free_address(), &["--transport", "ws"]),
        Serving::start_at(free_address(), &secure_at),
    ];

    let settings = Settings::new();
    let listeners = [
        plain("udp", settings.sip),
        plain("ws", free_address()),
        secure(&settings, "wss", free_address()),
    ];
    let [of_ws, of_wss] = serving.each_ref().map(|it| it.address);
    let servers = [
        ("ws", of_ws),
        ("wss", of_wss),
        ("ws", by_ws),
        ("wss", by_wss),
    ];
    let named = servers.map(|(transport, address)| format!("{transport}:{address}"));
    let trust = format!("tls = {{ ca = \"{authority}\" }}");
    configure(&settings, &listeners, &named, &trust);
    let edge = settings.start();
    let load = ["-r", "100", "-m", "400"];
    let mut caller = Caller::start(edge.sip(), &scenario("caller"), &load);
    caller.outcome(3 * PATIENCE).expect_all(4 * CALLS);
    wait_until_idle(&edge, PATIENCE);
    wait_until_idle(&core, PATIENCE);
    for (transport, address) in servers {
        let placed = Counts::of(&edge).of_server(address, "placed");
        assert_eq!(placed, CALLS, "{transport}:{address}");
    }
    within(PATIENCE, "all BYEs", || last.byes() == 2 * CALLS);
    for serving in serving {
        assert_eq!(serving.end()[0]["ended"], CALLS);
    }
}

/// Starts calls of a process of its own on as many TLS connections. Each lasts this long.
fn open_calls(address: SocketAddr, calls: u64, authority: &Path, holding: &str) -> Process {
    let (to, calls) = (address.to_string(), calls.to_string());
    let authority = authority.display().to_string();
    let program = env!("CARGO_BIN_EXE_sipyard");
    let mut arguments = vec!["load", "call", "--to", &to, "--transport", "tls"];
    arguments.extend(["--authorities", &authority, "--connections", &calls]);
    arguments.extend(["--rate", "100", "--calls", &calls, "--holding", holding]);
    arguments.extend(["--success", "100%"]);
    Process::start(program, "sipyard", tempdir().unwrap(), &arguments)
}

/// All end as planned.
fn expect_success(mut calls: Process) {
    let mut status = None;
    within(6 * PATIENCE, "the end of the calls", || {
        status = calls.ended();
        status.is_some()
    });
    assert!(status.unwrap().success(), "{}", calls.log());
}

/// Each call ends over a new connection at the server that has it. A reload meanwhile closes no connection.
#[test]
fn calls_outlive_a_crash_and_a_reload() {
    const CALLS: u64 = 200;
    let _alone = whole_machine();
    let servers = Server::start_many(3, &scenario("server"));
    let addresses: Vec<_> = servers.iter().map(|it| it.address.to_string()).collect();
    let (settings, address) = secured(&addresses, "");
    let authority = settings.path().with_file_name("ca.pem");
    let edge = settings.start();
    let calls = open_calls(address, CALLS, &authority, "12s");
    within_counts(&edge, 2 * PATIENCE, "all calls open", |counts| {
        counts.calls() == CALLS && counts.transactions() == 0
    });
    let connections = |edge: &Edge, name: &str| -> u64 {
        let status = edge.status();
        let workers = status["workers"].as_array().unwrap().iter();
        workers
            .map(|worker| worker["connections"][name].as_u64().unwrap())
            .sum()
    };
    // Each call takes a connection at random.
    let open = connections(&edge, "total");
    assert!(open > CALLS / 3, "{open}");
    edge.signal("HUP");
    edge.wait_for_log("reloaded");
    assert_eq!(connections(&edge, "total"), open);
    assert_eq!(connections(&edge, "accepted"), open);

    let edge = crash_and_start(edge);
    within(2 * PATIENCE, "the first new connection", || {
        connections(&edge, "accepted") > 0
    });
    expect_success(calls);
    within(PATIENCE, "all BYEs", || {
        servers.iter().map(Server::byes).sum::<u64>() == CALLS
    });
    assert!(servers.iter().all(|server| server.foreign_byes() == 0));
    wait_until_idle(&edge, PATIENCE);
}

/// A node that stops waits for its calls, and then says farewell on each connection.
#[test]
fn a_drain_ends_connections_in_peace() {
    let server = Server::start(&scenario("server"));
    let (settings, address) = secured(&[server.address.to_string()], "");
    let text = fs::read_to_string(settings.path()).unwrap();
    let patient = text.replace("workers = 2", "workers = 2, drain_calls = \"20s\"");
    settings.write_whole(&patient);
    let folder = settings.path().with_file_name("");
    let mut edge = settings.start();
    let arguments = [
        "s_client",
        "-connect",
        &address.to_string(),
        "-msg",
        "-quiet",
    ]
    .map(str::to_owned);
    let mut client = Command::new("openssl")
        .args(arguments)
        .current_dir(&folder)
        .stdin(std::process::Stdio::piped())
        .stdout(fs::File::create(folder.join("client")).unwrap())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let said = || fs::read_to_string(folder.join("client")).unwrap();
    let calls = open_calls(address, 20, &folder.join("ca.pem"), "3s");
    within_counts(&edge, PATIENCE, "all calls open", |counts| {
        counts.calls() == 20
    });
    edge.signal("TERM");
    expect_success(calls);
    assert!(edge.wait().success());
    within(PATIENCE, "the farewell", || said().contains("close_notify"));
    assert!(client.wait().is_ok());
}

/// The listener stayed ready, and the worker that found no descriptor for the peer turned in circles.
#[test]
fn without_descriptors_a_node_waits() {
    let server = Server::start(&scenario("server"));
    let mut settings = Settings::new();
    settings.sip = free_address();
    let listeners = [plain("udp", settings.sip), plain("tcp", settings.sip)];
    configure(&settings, &listeners, &[server.address.to_string()], "");
    let edge = settings.start();
    let limit = |number: &str| {
        let (pid, number) = (edge.pid().to_string(), format!("--nofile={number}:"));
        let status = Command::new("prlimit")
            .args(["--pid", &pid, &number])
            .status();
        assert!(status.unwrap().success());
    };
    limit("8");
    let mut waiting: Vec<_> = (0..20)
        .map(|_| TcpStream::connect(edge.sip()).unwrap())
        .collect();
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", edge.pid())).unwrap();
        let fields: Vec<u64> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split(' ')
            .map(|it| it.parse().unwrap_or(0))
            .collect();
        fields[12] + fields[13]
    };
    let before = ticks();
    assert!(
        !comes_within(Duration::from_secs(2), || ticks() > before + 60),
        "a third of a core"
    );
    // Calls over UDP go on.
    let load = ["-m", "50", "-r", "100"];
    Caller::start(edge.sip(), &scenario("caller"), &load)
        .outcome(PATIENCE)
        .expect_all(50);
    limit("1024");
    for stream in &mut waiting {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"\r\n\r\n").unwrap();
        let mut pong = [0; 2];
        stream.read_exact(&mut pong).unwrap();
    }
}
