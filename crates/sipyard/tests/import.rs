//! `sipyard import` and `sipyard init` by their programs: what they write passes `sipyard check`.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

const KAMAILIO: &str = r#"#!KAMAILIO
#!define PORT 5070
#!substdef "!OUTSIDE!198.51.100.7!g"
debug=2
listen=udp:10.1.0.5:PORT advertise OUTSIDE:5060
listen=tls:10.1.0.5:5061
loadmodule "dispatcher.so"
modparam("dispatcher", "list_file", "/etc/kamailio/dispatcher.list")
modparam("dispatcher", "ds_ping_interval", 4)
modparam("dispatcher", "ds_probing_threshold", 3)
modparam("tm", "fr_timer", 1500)
modparam("rtpengine", "rtpengine_sock", "udp:127.0.0.1:2223")
modparam("registrar", "max_expires", 1800)
alias="voice.example.net"
request_route {
    if (is_method("REGISTER")) {
        if (!www_authorize("voice.example.net", "subscriber")) { www_challenge("voice.example.net", "0"); exit; }
        save("location");
        exit;
    }
    ds_select_dst("2", "9"); # by weight
    ds_select_dst("3", "8");
    t_relay();
}
"#;

const LIST: &str = "# the servers
2 sip:10.1.0.21:5060 0 0 weight=60
2 sip:10.1.0.22:5060 0 0 weight=40;maxload=9
2 sip:10.1.0.23 4
3 sip:gw1.example.net:5080 0 5
3 sip:10.1.0.32;transport=udp 0 9
3 sip:10.1.0.33;transport=tls 0 9
";

const OPENSIPS: &str = r#"
log_level=3
socket=udp:10.1.0.5:5060
loadmodule "load_balancer.so"
modparam("load_balancer", "db_url", "mysql://localhost/opensips")
modparam("load_balancer", "probing_interval", 20)
modparam("tm", "fr_timeout", 3)
route {
    if (!lb_start(1, "calls")) { send_reply(503, "Full"); exit; }
    t_relay();
}
"#;

const BALANCER: &str = "CREATE TABLE `load_balancer` (`id` int, `group_id` int, `dst_uri` char(128), `resources` text);
INSERT INTO `load_balancer` VALUES (1,1,'sip:10.1.0.21:5060','calls=30'),
(2,1,'sip:10.1.0.22:5060','calls=60;transcoding=2');
";

const RULES: &str = "gwid\taddress\tstrip\ngw1\t10.1.0.41:5060\t0\ngw2\t10.1.0.42:5060\t2\n";
const PREFIXES: &str = "ruleid\tprefix\tgwlist\n1\t49\tgw1,gw2\n2\t\tgw2\n";

fn sipyard(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sipyard"));
    command.current_dir(folder).args(args).output().unwrap()
}

/// Imports files; returns the configuration, which is good, and the notes.
fn imported(from: &str, files: &[(&str, &str)]) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let mut args = vec!["import", from, "--out", "new.toml"];
    args.extend(files.iter().map(|(name, _)| name));
    let import = sipyard(folder.path(), &args);
    let notes = String::from_utf8(import.stderr).unwrap();
    assert!(import.status.success(), "{notes}");
    let check = sipyard(folder.path(), &["check", "new.toml"]);
    let text = fs::read_to_string(folder.path().join("new.toml")).unwrap();
    let problems = String::from_utf8_lossy(&check.stderr).into_owned();
    assert!(check.status.success(), "{problems}\n{text}");
    (text, notes)
}

fn assert_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn a_kamailio_becomes_a_configuration_and_notes_with_their_lines() {
    let (text, notes) = imported(
        "kamailio",
        &[("kamailio.cfg", KAMAILIO), ("dispatcher.list", LIST)],
    );
    let parts = [
        "address = \"10.1.0.5:5070\"\nadvertise = \"198.51.100.7:5060\"",
        "domains = [\"voice.example.net\"]",
        "expires = { max = \"1800s\" }",
        "[pool.set-2]\npolicy = \"round-robin\"",
        "{ address = \"10.1.0.21:5060\", capacity = 60.0 },  # dispatcher.list:2",
        "# { address = \"10.1.0.23:5060\" },  # dispatcher.list:4, which has it off",
        "[pool.set-3]\npolicy = \"tlwl\"",
        "{ address = \"gw1.example.net:5080\", priority = 1 },",
        "{ address = \"10.1.0.32:5060\" },",
        "answer_timeout = \"1500ms\"",
        "interval = \"4s\"\nfall = 3",
        "hosts = [\"voice.example.net\"]\nto = \"registrar\"",
        "to = \"set-2\"\nstate = \"stateful\"",
    ];
    assert_all(&text, &parts);
    assert!(!text.contains("10.1.0.33"), "{text}");
    let notes_wanted = [
        "kamailio.cfg:6: to do: tls:10.1.0.5:5061",
        "kamailio.cfg:12: missing: module rtpengine",
        "dispatcher.list:3: missing: maxload",
        "dispatcher.list:7: missing: sip:10.1.0.33;transport=tls",
    ];
    assert_all(&notes, &notes_wanted);
}

#[test]
fn opensips_groups_and_gateways_become_pools_and_routes() {
    let files = [
        ("opensips.cfg", OPENSIPS),
        ("lb.sql", BALANCER),
        ("gw.tsv", RULES),
        ("rules.tsv", PREFIXES),
    ];
    let (text, notes) = imported("opensips", &files);
    let parts = [
        "[pool.group-1]\npolicy = \"cjsq\"",
        "{ address = \"10.1.0.22:5060\", capacity = 60.0 },  # lb.sql:3",
        "interval = \"20s\"",
        "answer_timeout = \"3000ms\"",
        "users = [\"49\"]\nto = \"gateways-gw1-gw2\"",
        "{ address = \"10.1.0.42:5060\", priority = 1 },",
        "\n[[route]]\nto = \"gateways-gw2\"",
    ];
    assert_all(&text, &parts);
    assert_all(&notes, &["gw.tsv:3: missing: strip"]);
}

#[test]
fn registered_phones_become_records() {
    let folder = tempfile::tempdir().unwrap();
    let table = "username\tdomain\tcontact\treceived\texpires\tq\tcallid\tcseq\n\
                 alice\tNULL\tsip:alice@10.9.0.7:5062\tsip:203.0.113.9:1024\t2040-01-02 03:04:05\t-1.00\tabc\t7\n";
    fs::write(folder.path().join("location.tsv"), table).unwrap();
    let args = [
        "import",
        "kamailio",
        "location.tsv",
        "--domain",
        "example.net",
        "--bindings",
        "phones.jsonl",
    ];
    let import = sipyard(folder.path(), &args);
    assert!(
        import.status.success(),
        "{}",
        String::from_utf8_lossy(&import.stderr)
    );
    let stored = sipyard(
        folder.path(),
        &[
            "store",
            "import",
            "--store",
            "file:location.db",
            "phones.jsonl",
        ],
    );
    assert!(
        stored.status.success(),
        "{}",
        String::from_utf8_lossy(&stored.stderr)
    );
    let export = sipyard(
        folder.path(),
        &["store", "export", "--store", "file:location.db"],
    );
    let lines = String::from_utf8(export.stdout).unwrap();
    let parts = [
        "alice@example.net",
        "\"received\":\"203.0.113.9:1024\"",
        "\"expires_ms\":2209086245000",
    ];
    assert_all(&lines, &parts);
}

#[test]
fn files_that_are_nothing_known_are_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "hello\n").unwrap();
    let import = sipyard(folder.path(), &["import", "kamailio", "a.txt"]);
    assert_eq!(import.status.code(), Some(2));
    assert_all(
        &String::from_utf8_lossy(&import.stderr),
        &["a.txt: neither"],
    );
}

#[test]
fn init_writes_what_check_likes_and_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let edge = [
        "init",
        "--role",
        "edge",
        "--listen",
        "0.0.0.0:5060",
        "--servers",
        "10.0.0.1:5060,gw.example.com:5060",
    ];
    let edge = [&edge[..], &["--probe", "no"]].concat();
    let registrar = [
        "init",
        "--role",
        "registrar",
        "--listen",
        "127.0.0.1:5060",
        "--domains",
        "example.com",
    ];
    let registrar = [
        &registrar[..],
        &["--store", "memory", "--out", "registrar.toml"],
    ]
    .concat();
    for args in [edge.clone(), registrar] {
        let init = sipyard(folder.path(), &args);
        assert!(
            init.status.success(),
            "{}",
            String::from_utf8_lossy(&init.stderr)
        );
    }
    let check = sipyard(folder.path(), &["check", "sipyard.toml", "registrar.toml"]);
    assert!(
        check.status.success(),
        "{}",
        String::from_utf8_lossy(&check.stderr)
    );
    let again = sipyard(folder.path(), &edge);
    assert_all(
        &String::from_utf8_lossy(&again.stderr),
        &["the file is there"],
    );
    let lacks = sipyard(
        folder.path(),
        &["init", "--role", "edge", "--out", "x.toml"],
    );
    assert_eq!(lacks.status.code(), Some(2));
    assert_all(&String::from_utf8_lossy(&lacks.stderr), &["--listen"]);
}

/// A wrong answer was told with a line of a file that was gone, and left a secret behind.
#[test]
fn init_leaves_nothing_of_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let listen = ["--listen", "127.0.0.1:5060"];
    let wrong = ["--servers", "no server", "--probe", "no"];
    let args = [&["init", "--role", "edge"][..], &listen, &wrong].concat();
    let init = sipyard(folder.path(), &args);
    assert_eq!(init.status.code(), Some(2));
    let told = String::from_utf8_lossy(&init.stderr);
    assert!(
        told.starts_with("sipyard.toml: pool.") && told.contains("no server"),
        "{told}"
    );
    assert!(!told.contains("sipyard.toml:1"), "{told}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    fs::write(folder.path().join("secret"), "mine").unwrap();
    assert_eq!(sipyard(folder.path(), &args).status.code(), Some(2));
    assert_eq!(
        fs::read_to_string(folder.path().join("secret")).unwrap(),
        "mine"
    );
}

/// Options of the other of two outputs did nothing, and nobody said so.
#[test]
fn options_that_would_do_nothing_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("location.tsv"),
        "username\tdomain\tcontact\n",
    )
    .unwrap();
    for more in [
        &["--bindings", "phones.jsonl", "--out", "x.toml"][..],
        &["--bindings", "phones.jsonl", "--brief"],
        &["--domain", "example.net"],
    ] {
        let args = [&["import", "kamailio", "location.tsv"], more].concat();
        let import = sipyard(folder.path(), &args);
        assert_eq!(import.status.code(), Some(2), "{more:?}");
        let told = String::from_utf8_lossy(&import.stderr);
        assert!(told.contains("--bindings"), "{told}");
    }
}
