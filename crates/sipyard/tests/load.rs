//! `sipyard load` by itself: callers, phones and emulated servers on loopback.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests of processes wait for them on the real clock"
)]

mod common;

use std::{
    fs,
    net::{SocketAddr, UdpSocket},
    process::Output,
    thread,
    time::{Duration, Instant},
};

use common::{
    Edge, Settings, eventually,
    load::{Limited, Serving, call, load, users},
    sipyard,
};
use serde_json::Value;
use testbed::Running;

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn calls_of_every_kind_are_carried() {
    let servers = Serving::start(&["--servers", "2", "--ring", "20ms", "--trying"]);
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let output = call(
        servers.address,
        &[
            "--rate",
            "300",
            "--calls",
            "600",
            "--holding",
            "exponential:100ms",
            "--reinvite",
            "20%",
            "--cancel",
            "10%",
            "--abandon",
            "10%",
            "--ports",
            "3",
            "--html",
            page.to_str().unwrap(),
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let calls = json(&output);
    let number = |name: &str| calls[name].as_u64().unwrap();
    assert_eq!(number("offered"), 600);
    assert_eq!(
        number("carried") + number("cancelled") + number("abandoned"),
        600
    );
    assert!(number("cancelled") > 30 && number("abandoned") > 30);
    assert!(calls["latencies_ms"]["reinvite"]["count"].as_u64().unwrap() > 60);
    assert!(calls["latencies_ms"]["answer"]["p50"].as_f64().unwrap() >= 20.0);
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains("<svg") && html.contains("re-INVITE to answer"));
    let reports = servers.end();
    assert_eq!(reports[0]["calls"], 600);
    assert_eq!(reports[0]["ended"], calls["carried"]);
    assert_eq!(reports[0]["open"], calls["abandoned"]);
    assert_eq!(reports[1]["calls"], 0);
}

#[test]
fn tables_are_for_people() {
    let servers = Serving::start(&[]);
    let to = servers.address.to_string();
    let output = load(&["call", "--to", &to, "--window", "10", "--calls", "100"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for line in ["offered", "carried", "INVITE to answer", "BYE to answer"] {
        assert!(text.contains(line), "{text}");
    }
    // Progress is for terminals.
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn phones_register_and_leave() {
    let servers = Serving::start(&[]);
    let to = servers.address.to_string();
    let arguments = [
        "register", "--to", &to, "--users", "200", "--rate", "1000", "--json", "-",
    ];
    let output = load(&arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let registrations = json(&output);
    assert_eq!(registrations["offered"], 400);
    assert_eq!(registrations["carried"], 400);
    let output = load(&[&arguments[..], &["--stay"]].concat());
    assert_eq!(json(&output)["carried"], 200);
    assert_eq!(servers.end()[0]["others"], 600);
}

/// A registrar for example.com.
fn registrar(keys: &str) -> Settings {
    let settings = Settings::new();
    let Settings { sip, admin, .. } = &settings;
    settings.write_whole(&format!(
        r#"node = {{ name = "registrar", secret = "file:secret", workers = 1 }}
listen = [ {{ transport = "udp", address = "{sip}" }} ]
admin = {{ address = "{admin}", socket = "admin.sock" }}
registrar = {{ domains = ["example.com"], {keys} }}
abuse = {{ failed_logins = 1000 }}
route = [ {{ hosts = ["example.com"], to = "registrar" }} ]
"#
    ));
    settings
}

/// Runs `sipyard load register` at a registrar to its end.
fn register(registrar: &Edge, arguments: &[&str]) -> Output {
    let to = registrar.sip().to_string();
    load(
        &[
            &["register", "--to", &to, "--rate", "200", "--json", "-"],
            arguments,
        ]
        .concat(),
    )
}

#[test]
fn phones_prove_their_passwords() {
    let settings = registrar(r#"store = "file:location.db""#);
    let table = users(&settings, 50);
    let registrar = settings.start();
    let by_pattern = ["--users", "50", "--password", "secret-{user}"];
    let by_table = ["--credentials", table.to_str().unwrap()];
    for who in [&by_pattern[..], &by_table] {
        // In 2.5 s each phone registers three times at least, and then leaves.
        let times = [
            "--expires",
            "60s",
            "--refresh",
            "1%",
            "--duration",
            "2500ms",
        ];
        let output = register(&registrar, &[who, &times].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let registrations = json(&output);
        assert_eq!(registrations["challenges"], 50);
        assert!(
            registrations["carried"].as_u64() > Some(150),
            "{registrations}"
        );
    }
    let wrong = ["--users", "50", "--password", "guess-{user}"];
    let output = register(&registrar, &wrong);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(
        json(&output)["failed_by_reason"]["REGISTER answered 401"],
        50
    );
}

#[test]
fn registered_users_are_called() {
    let phones = Serving::start(&[]);
    let registrar = registrar(r#"store = "memory", auth = false"#).start();
    let contact = phones.address.to_string();
    let output = register(
        &registrar,
        &["--users", "20", "--contact", &contact, "--stay"],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = call(
        registrar.sip(),
        &["--users", "20", "--rate", "100", "--calls", "100"],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = call(
        registrar.sip(),
        &["--users", "200", "--rate", "100", "--calls", "100"],
    );
    let calls = json(&output);
    let failed = &calls["failed_by_reason"];
    let nobodys = failed["INVITE answered 480"].as_u64();
    assert!(nobodys > Some(70), "{failed}");
    assert_eq!(
        calls["carried"].as_u64().zip(nobodys).map(|(a, b)| a + b),
        Some(100)
    );
    assert_eq!(
        phones.end()[0]["calls"],
        calls["carried"].as_u64().unwrap() + 100
    );
}

#[test]
fn sipstone_finds_what_a_registrar_carries() {
    let registrar = Limited::start(200);
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let to = registrar.address.to_string();
    let output = load(&[
        "sipstone",
        "registration",
        "--to",
        &to,
        "--users",
        "20",
        "--step",
        "100%",
        "--duration",
        "400ms",
        "--json",
        "-",
        "--html",
        page.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found = json(&output);
    let number = |value: &Value| value.as_f64().unwrap();
    let peak = number(&found["peak_per_s"]);
    // With those at once it grants 250/s in 400 ms, which chance brings at lower and higher rates.
    assert!((150.0..400.0).contains(&peak), "{found}");
    let probes = found["probes"].as_array().unwrap();
    let half = |probe: &Value| number(&probe["success"]) <= 0.5;
    assert_eq!(
        probes.iter().filter(|probe| half(probe)).count(),
        1,
        "{found}"
    );
    assert_eq!(found["units"], "registrations");
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains("Throughput") && html.contains("<svg"));
}

/// Callers and callees are in the one process, and both know no more than the proxy tells them.
#[test]
fn sipstone_calls_users_through_a_proxy() {
    let settings = registrar(r#"store = "file:location.db""#);
    users(&settings, 10);
    let registrar = settings.start();
    let tests: Running = sipyard()
        .args(["load", "sipstone", "proxy-200", "--users", "10"])
        .args(["--to", &registrar.sip().to_string()])
        .args(["--password", "secret-{user}", "--json", "-"])
        .args(["--rate", "100", "--duration", "500ms"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap()
        .into();
    // All users register before each rate.
    eventually("the third rate", || bound(&registrar) >= 30);
    common::load::signal(tests.id(), "INT");
    let output = tests.output().unwrap();
    let found = json(&output);
    let probes = found["probes"].as_array().unwrap();
    assert!(probes.len() >= 2, "{found}");
    assert_eq!(probes[0]["is_carried"], true, "{found}");
    assert_eq!(probes[0]["success"], 1.0, "{found}");
    assert!(output.status.success(), "{output:?}");
}

/// Registrations that a registrar has granted.
fn bound(registrar: &Edge) -> u64 {
    let status = registrar.status();
    let workers = status["workers"].as_array().unwrap().iter();
    workers
        .map(|worker| worker["bound"].as_u64().unwrap())
        .sum()
}

#[test]
fn users_whose_password_is_wrong_end_the_test() {
    let registrar = registrar(r#"store = "memory""#).start();
    let to = registrar.sip().to_string();
    let output = load(&[
        "sipstone",
        "proxy-200",
        "--to",
        &to,
        "--users",
        "5",
        "--password",
        "x",
    ]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("REGISTER answered 401"), "{text}");
}

/// A signal that came before the sockets were all bound ended the servers, now and then on a busy machine.
#[test]
fn a_stall_comes_on_command() {
    let servers = Serving::start(&["--pause", "300ms"]);
    let began = Instant::now();
    servers.signal("USR1");
    // The signal is looked for between two sleeps, and nothing tells that it was found.
    thread::sleep(Duration::from_millis(100));
    let output = call(servers.address, &["--window", "1", "--calls", "1"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!(servers.end()[0]["stalls"], 1);
}

#[test]
fn idle_servers_sleep() {
    let servers = Serving::start(&["--servers", "8", "--service", "INVITE=50ms"]);
    let before = servers.cpu_ticks();
    // What an idle second costs.
    thread::sleep(Duration::from_secs(1));
    // A tick is 10 ms of CPU time.
    let ticks = servers.cpu_ticks() - before;
    assert!(ticks <= 3, "{ticks} ticks");
    let output = call(servers.address, &["--window", "1", "--calls", "10"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let ticks = servers.cpu_ticks() - before;
    assert!(ticks <= 8, "{ticks} ticks");
}

#[test]
fn the_configuration_to_try_things_out_with_is_right() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../etc/local.toml");
    let output = sipyard().args(["check", file]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// A server that is busy answers every INVITE with 486.
fn busy() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut bytes = [0; 2048];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let message = sip::Message::parse(&bytes[..length], 64).unwrap();
            if message.method() == Some(sip::Method::Invite) {
                let mut out = Vec::new();
                sip::write_reply(&message, 486, "Busy Here", Some("b"), from, &[], &mut out);
                socket.send_to(&out, from).unwrap();
            }
        }
    });
    address
}

#[test]
fn failed_calls_show_in_the_exit_code() {
    let arguments = ["--window", "5", "--calls", "50"];
    let output = call(busy(), &arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let calls = json(&output);
    assert_eq!(calls["failed_by_reason"]["INVITE answered 486"], 50);
    let output = call(busy(), &[&arguments[..], &["--success", "0"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn no_rate_is_carried_where_every_call_fails() {
    let output = call(
        busy(),
        &["--find-peak", "--rate", "50", "--duration", "200ms"],
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let found = json(&output);
    assert_eq!(found["peak_per_s"], Value::Null);
    let rates = found["probes"].as_array().unwrap().iter();
    let rates: Vec<_> = rates.map(|probe| probe["rate"].as_f64().unwrap()).collect();
    assert_eq!(&rates[..3], [50.0, 25.0, 12.5]);
}

#[test]
fn wrong_arguments_are_told() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (arguments, told) in [
        (&["call", "--rate", "5"][..], "--to"),
        (&["call", "--to", "127.0.0.1"], "--rate"),
        (&["call", "--to", "127.0.0.1", "--rate", "0"], "1000"),
        (
            &["call", "--to", "127.0.0.1", "--rate", "5", "--window", "5"],
            "--window",
        ),
        (
            &["call", "--to", "127.0.0.1", "--ramp", "1..2"],
            "100..2000:100/10s",
        ),
        (
            &[
                "call",
                "--to",
                "127.0.0.1",
                "--rate",
                "5",
                "--cancel",
                "60%",
                "--abandon",
                "60%",
            ],
            "100 %",
        ),
        (&["serve", "--address", &taken], &taken),
        (
            &["serve", "--address", "127.0.0.1:65535", "--servers", "2"],
            "65535",
        ),
        (&["register", "--to", "127.0.0.1", "--rate", "5"], "--users"),
        (
            &[
                "register",
                "--to",
                "127.0.0.1",
                "--rate",
                "5",
                "--credentials",
                "/none",
            ],
            "/none",
        ),
        (
            &[
                "sipstone",
                "registration",
                "--to",
                "127.0.0.1",
                "--users",
                "1",
                "--step",
                "0",
            ],
            "25%",
        ),
    ] {
        let output = load(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(told), "{arguments:?}: {text}");
    }
}

#[test]
fn the_first_signal_lets_calls_end() {
    let servers = Serving::start(&[]);
    let edge = Edge::before(&[servers.address]);
    let mut caller: Running = sipyard()
        .args(["load", "call", "--to", &edge.sip().to_string()])
        .args(["--rate", "200", "--holding", "200ms", "--json", "-"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap()
        .into();
    eventually("calls in progress", || {
        let status = edge.status();
        status["pools"][0]["servers"][0]["calls"].as_u64() > Some(10)
    });
    common::load::signal(caller.id(), "INT");
    eventually("the caller's end", || caller.has_ended());
    let calls = json(&caller.output().unwrap());
    assert_eq!(calls["cut_off"], 0);
    assert_eq!(calls["offered"], calls["carried"]);
}
