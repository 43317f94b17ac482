//! Phones in browsers: JsSIP in headless Chromium, over secure WebSockets.

use std::{
    collections::VecDeque,
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use serde_json::{Value, json};

use crate::{
    common::authority::Authority,
    common::{Edge, PATIENCE, Settings, free_address},
    edge::wait_until_idle,
    phones::Baresip,
    process::{command, whole_machine, within},
    registrar::{REGISTRAR, account, add_users},
    restart::crash_and_start,
    streams::{configure, plain, with_certificate},
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dashboard")
}

/// Says what is missing, if something is; `scripts/setup.sh test` installs it.
fn is_missing() -> bool {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let missing = if !has("node") {
        "node"
    } else if !has("chromium") {
        "chromium"
    } else if !folder().join("node_modules/jssip").exists() {
        "npm ci in crates/sipyard/tests/dashboard"
    } else {
        return false;
    };
    // Debian's packages are there where the gate runs; npm's registry need not be in reach.
    let may_skip = env::var_os("CI").is_none() || missing.starts_with("npm");
    assert!(may_skip, "CI calls browsers: install {missing}");
    eprintln!("SKIPPED: no browser calls: {missing} is missing");
    true
}

/// A browser with phones, which answer calls at once.
struct Browser {
    child: Child,
    /// None: it is to end.
    commands: Option<ChildStdin>,
    told: Arc<Mutex<VecDeque<String>>>,
}

impl Browser {
    fn start() -> Self {
        let mut child = Command::new("node")
            .arg(folder().join("phones.mjs"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let told = Arc::<Mutex<VecDeque<String>>>::default();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let heard = Arc::clone(&told);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut told = heard.lock().unwrap_or_else(PoisonError::into_inner);
                told.push_back(line);
            }
        });
        let commands = child.stdin.take();
        let mut browser = Self {
            child,
            commands,
            told,
        };
        browser.expect("ready");
        browser
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.commands.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits for a line, which may have come already; what came before it is forgotten.
    fn expect(&mut self, line: &str) {
        let mut passed = Vec::new();
        within(3 * PATIENCE, &format!("the browser's \"{line}\""), || {
            let mut told = self.told.lock().unwrap();
            while let Some(next) = told.pop_front() {
                if next == line {
                    return true;
                }
                eprintln!("browser: {next}");
                passed.push(next);
            }
            false
        });
    }

    /// Opens a phone of a user, and waits until it is registered.
    fn open(&mut self, user: &str, at: SocketAddr, instance: &str) {
        let phone = json!({
            "url": format!("wss://{at}"),
            "uri": format!("sip:{user}@example.com"),
            "password": "secret",
            "instance": instance,
        });
        self.tell(&format!("{user} open {phone}"));
        self.expect(&format!("{user} registered"));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Node closes the browser when it has no more to read.
        drop(self.commands.take());
        let _ = self.child.wait();
    }
}

/// A node for browsers and for phones on UDP.
fn settings(servers: &str, rest: &str) -> (Settings, SocketAddr) {
    let (settings, address) = (Settings::new(), free_address());
    let folder = settings.path().with_file_name("");
    Authority::new(&folder, "ca").issue("edge", &["localhost", "127.0.0.1"]);
    let listeners = [plain("udp", settings.sip), with_certificate("wss", address)];
    configure(&settings, &listeners, &[servers.to_owned()], rest);
    (settings, address)
}

/// How many bindings a user has.
fn bindings(edge: &Edge, user: &str) -> usize {
    let url = format!("http://node/api/v1/users/{user}@example.com");
    let output = command("curl", "curl")
        .args(["-sS", "--noproxy", "*", "--unix-socket", "admin.sock", &url])
        .current_dir(edge.folder())
        .output()
        .unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    told["bindings"].as_array().unwrap().len()
}

/// It registers with a password, calls a phone on UDP and is called. When its edge is killed it comes back as the
/// same, and is called once.
#[test]
fn a_browser_and_a_phone_call_each_other() {
    if is_missing() {
        return;
    }
    let _alone = whole_machine();
    let (settings, address) = settings("127.0.0.1:9", REGISTRAR);
    add_users(&settings, ["alice", "bob"].map(str::to_owned));
    let edge = settings.start();
    let mut browser = Browser::start();
    browser.open("alice", address, "8f1fa16a-1165-4a96-8341-785b1ef24f12");
    assert_eq!(bindings(&edge, "alice"), 1);
    let secure = account("bob", edge.sip(), 600) + ";mediaenc=dtls_srtp;medianat=ice";
    let bob = Baresip::with_account(|_| secure.clone());
    within(PATIENCE, "the phone's registration", || {
        bob.times("200 OK") > 0
    });

    let mut calls = 0;
    let mut talk = |browser: &mut Browser, edge: &Edge| {
        calls += 1;
        browser.tell("alice call sip:bob@example.com");
        browser.expect("alice confirmed");
        within(PATIENCE, "the call", || {
            bob.times("Call established") == 2 * calls - 1
        });
        let ended = bob.times("session closed");
        browser.tell("alice hangup");
        browser.expect("alice ended");
        within(PATIENCE, "its end", || {
            bob.times("session closed") == ended + 1
        });
        bob.press("dial", "sip:alice@example.com");
        browser.expect("alice confirmed");
        within(PATIENCE, "the call", || {
            bob.times("Call established") == 2 * calls
        });
        bob.press("hangup", "");
        browser.expect("alice ended");
        wait_until_idle(edge, PATIENCE);
    };
    talk(&mut browser, &edge);

    let edge = crash_and_start(edge);
    browser.expect("alice disconnected");
    browser.expect("alice registered");
    assert_eq!(bindings(&edge, "alice"), 1);
    talk(&mut browser, &edge);
}

/// Each is connected to an edge of its own; both are registered behind them.
#[test]
fn browsers_at_two_edges_call_each_other() {
    if is_missing() {
        return;
    }
    let _alone = whole_machine();
    let core = Settings::new();
    let registrar = format!("trust = {{ peers = [\"127.0.0.0/8\"] }}\n{REGISTRAR}");
    let listeners = [plain("udp", core.sip)];
    configure(&core, &listeners, &["127.0.0.1:9".to_owned()], &registrar);
    add_users(&core, ["alice", "bob"].map(str::to_owned));
    let core = core.start();
    let server = core.sip().to_string();
    let edges = [(); 2].map(|()| {
        let (settings, address) = settings(&server, "");
        fs::copy(
            core.folder().join("secret"),
            settings.path().with_file_name("secret"),
        )
        .unwrap();
        (settings.start(), address)
    });
    let mut browser = Browser::start();
    browser.open("alice", edges[0].1, "8f1fa16a-1165-4a96-8341-785b1ef24f12");
    browser.open("bob", edges[1].1, "d9b2c1f0-4e57-4c4b-9b1e-3f0a7a5f2b11");
    for (caller, called) in [("alice", "bob"), ("bob", "alice")] {
        browser.tell(&format!("{caller} call sip:{called}@example.com"));
        browser.expect(&format!("{called} incoming"));
        browser.expect(&format!("{caller} confirmed"));
        browser.tell(&format!("{called} hangup"));
        browser.expect(&format!("{caller} ended"));
        for (edge, _) in &edges {
            wait_until_idle(edge, PATIENCE);
        }
        wait_until_idle(&core, PATIENCE);
    }
}
