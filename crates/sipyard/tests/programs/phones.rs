//! What people have on their desks: sipsak and baresip.

use std::{
    fs,
    io::{Read as _, Write as _},
    iter,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use tempfile::tempdir;

use crate::{
    common::{PATIENCE, Settings, free_address},
    edge::{self, Counts, wait_until_idle, within_counts},
    process::{Process, command, within},
    registrar::{REGISTRAR, account, add_users},
    sipp::{Server, scenario},
    streams::{configure, plain, secure},
};

/// sipsak 0.9.8 cuts the last of five digits off a port.
pub(crate) fn free_udp_of_four_digits() -> SocketAddr {
    let used = testbed::used_ports().unwrap();
    let port = (5_100..10_000).find(|port| !used.contains(port));
    (Ipv4Addr::LOCALHOST, port.unwrap()).into()
}

fn sipsak(uri: &str) {
    let output = command("sipsak", "sipsak")
        .args(["-v", "-s", uri])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {said}", output.status);
}

#[test]
fn sipsak_asks_a_server_and_the_edge() {
    let server = Server::start(&scenario("server"));
    let mut settings = Settings::new();
    settings.sip = free_udp_of_four_digits();
    edge::configure(&settings, "probe = false", &[server.address]);
    let edge = settings.start();

    sipsak(&format!("sip:bob@{}", edge.sip()));
    within(PATIENCE, "OPTIONS at the server", || server.options() == 1);
    let counts = Counts::of(&edge);
    assert_eq!(counts.of_server(server.address, "placed"), 1);
    assert_eq!(counts.replies("200"), 0);

    sipsak(&format!("sip:{}", edge.sip()));
    let counts = Counts::of(&edge);
    assert_eq!(counts.of_server(server.address, "placed"), 1);
    assert_eq!(counts.replies("200"), 1);
    wait_until_idle(&edge, PATIENCE);
}

/// A running baresip without sound.
pub(crate) struct Baresip {
    process: Process,
    address: SocketAddr,
    control: SocketAddr,
}

impl Baresip {
    /// One that registers nowhere.
    fn start(user: &str, account: &str) -> Self {
        Self::with_account(|address| format!("<sip:{user}@{address}>;regint=0;{account}"))
    }

    /// One with an account that may name its address.
    pub(crate) fn with_account(account: impl Fn(SocketAddr) -> String) -> Self {
        let address = free_pair();
        Self::start_at(address, &account(address))
    }

    /// One at an address, with an account.
    pub(crate) fn start_at(address: SocketAddr, account: &str) -> Self {
        let (folder, control) = (tempdir().unwrap(), free_address());
        // A phone with several flows has to name itself.
        let uuid = if account.contains("sipnat") {
            "module uuid.so\n"
        } else {
            ""
        };
        // What browsers want.
        let secure = if account.contains("dtls_srtp") {
            "rtcp_mux yes\nmodule dtls_srtp.so\nmodule ice.so\n"
        } else {
            ""
        };
        let config = format!(
            "sip_listen {address}\nsip_verify_server no\nctrl_tcp_listen {control}\nmodule_path {}\n{uuid}\
             module g711.so\n{secure}module_app account.so\nmodule_app menu.so\nmodule_app ctrl_tcp.so\n",
            module_folder()
        );
        for (file, text) in [
            ("config", config),
            ("accounts", format!("{account}\n")),
            ("contacts", String::new()),
        ] {
            fs::write(folder.path().join(file), text).unwrap();
        }
        let process = Process::start("baresip", "baresip-core", folder, &["-f", "."]);
        let baresip = Self {
            process,
            address,
            control,
        };
        within(PATIENCE, "baresip", || {
            baresip.process.log().contains("is ready")
        });
        baresip
    }

    /// Does what a user would type. Its control port reads netstrings of JSON.
    pub(crate) fn press(&self, key: &str, parameter: &str) {
        let command = serde_json::json!({ "command": key, "params": parameter }).to_string();
        let mut stream = TcpStream::connect(self.control).unwrap();
        write!(stream, "{}:{command},", command.len()).unwrap();
        // It tells what happens meanwhile, too. Closed with that unread, it would lose the command.
        let mut said = Vec::new();
        while !String::from_utf8_lossy(&said).contains("\"response\":true") {
            let mut more = [0; 1024];
            match stream.read(&mut more).unwrap() {
                0 => panic!(
                    "baresip's answer to {command}: {}",
                    String::from_utf8_lossy(&said)
                ),
                length => said.extend_from_slice(&more[..length]),
            }
        }
    }

    /// How often it said so in its log.
    pub(crate) fn times(&self, words: &str) -> usize {
        self.process.log().matches(words).count()
    }
}

/// A free address whose successor is free too: baresip takes that for TLS.
fn free_pair() -> SocketAddr {
    let used = testbed::used_ports().unwrap();
    let is_pair = |address: &SocketAddr| !used.contains(&(address.port() + 1));
    iter::repeat_with(free_address).find(is_pair).unwrap()
}

fn module_folder() -> &'static str {
    let folders = ["/usr/lib/baresip/modules", "/usr/local/lib/baresip/modules"];
    let found = folders
        .into_iter()
        .find(|folder| fs::exists(folder).unwrap());
    found.expect("install baresip's modules: `apt-get install baresip-core`")
}

#[test]
fn baresip_calls_baresip() {
    let bob = Baresip::start("bob", "answermode=auto");
    let edge = edge::start("", &[bob.address]);
    let outbound = format!("outbound=\"sip:{};lr\"", edge.sip());
    let alice = Baresip::start("alice", &outbound);

    // The first time the caller hangs up, the second time the server does.
    for (time, hanging_up, other) in [(1, &alice, &bob), (2, &bob, &alice)] {
        alice.press("dial", &format!("sip:bob@{}", edge.sip()));
        within(PATIENCE, "the call", || {
            [&alice, &bob]
                .iter()
                .all(|phone| phone.times("Call established") == time)
        });
        within_counts(&edge, PATIENCE, "one open call", |counts| {
            counts.of_server(bob.address, "calls") == 1 && counts.transactions() == 0
        });
        hanging_up.press("hangup", "");
        within(PATIENCE, "the end of the call", || {
            other.times("session closed") == 1
        });
        wait_until_idle(&edge, Duration::from_secs(5));
    }
    let counts = Counts::of(&edge);
    assert_eq!(counts.of_server(bob.address, "placed"), 2);
    assert_eq!(counts.of_server(bob.address, "failed"), 0);
}

/// One on TCP, the other on TLS, both with a password.
#[test]
fn phones_on_tcp_and_tls_call_each_other() {
    let (mut settings, address) = (Settings::new(), free_address());
    settings.sip = free_address();
    let listeners = [
        plain("tcp", settings.sip),
        secure(&settings, "tls", address),
    ];
    configure(
        &settings,
        &listeners,
        &["tcp:127.0.0.1:9".to_owned()],
        REGISTRAR,
    );
    add_users(&settings, ["alice", "bob"].map(str::to_owned));
    let edge = settings.start();
    let phone = |user: &str, at: SocketAddr, transport: &str| {
        let account = account(user, at, 600).replace(";lr", &format!(";transport={transport};lr"));
        Baresip::with_account(|_| account.clone())
    };
    let (alice, bob) = (
        phone("alice", edge.sip(), "tcp"),
        phone("bob", address, "tls"),
    );
    within_counts(&edge, PATIENCE, "two bindings", |counts| {
        counts.event("bound") == 2
    });
    for (time, caller, called, name) in [(1, &alice, &bob, "bob"), (2, &bob, &alice, "alice")] {
        caller.press("dial", &format!("sip:{name}@example.com"));
        within(PATIENCE, "the call", || {
            [&alice, &bob]
                .iter()
                .all(|phone| phone.times("Call established") == time)
        });
        caller.press("hangup", "");
        within(PATIENCE, "its end", || called.times("session closed") > 0);
        wait_until_idle(&edge, PATIENCE);
    }
    let counts = Counts::of(&edge);
    assert_eq!(counts.event("calls_answered"), 2);
}
