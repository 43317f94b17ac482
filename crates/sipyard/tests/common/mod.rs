//! A node under test: its own process, on free ports, with its own folder.

#![allow(
    clippy::disallowed_methods,
    reason = "tests of processes wait for them on the real clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test program uses its own part of this module"
)]

pub mod authority;
pub mod browser;
pub mod dns;
pub mod load;
pub mod manager;
pub mod phones;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

/// What a node must have done within, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A token with the role `operate`, and its hash by `sha256sum`.
pub const OPERATORS_TOKEN: &str = "the operator's token";
pub const OPERATORS_HASH: &str = "8499490b92f216c7cb912f217fea28a53d508ada2f9491d3e7680694d02ac8c4";

/// The binary under test.
pub fn sipyard() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sipyard"))
}

/// An address of this machine that nobody uses, by UDP or TCP.
pub fn free_address() -> SocketAddr {
    testbed::free_address().unwrap()
}

/// The next connection that somebody opens, with patience for what comes by it.
pub fn accepted(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let mut found = None;
    eventually("a connection", || {
        found = listener.accept().ok();
        found.is_some()
    });
    let (stream, _) = found.unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Waits until `holds`, and says `what` did not come if it never does.
#[track_caller]
pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    testbed::within(PATIENCE, what, holds);
}

/// A node's settings; [`Settings::start`] runs it.
pub struct Settings {
    pub folder: TempDir,
    /// Where it takes SIP.
    pub sip: SocketAddr,
    /// Where its admin API is.
    pub admin: SocketAddr,
}

impl Settings {
    /// Free ports and an empty folder with a secret.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let secret = "0123456789abcdef".repeat(4);
        testbed::write_private(&folder.path().join("secret"), &secret).unwrap();
        Self {
            folder,
            sip: free_address(),
            admin: free_address(),
        }
    }

    /// The configuration file's path.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("edge.toml")
    }

    /// Writes a file that sends everything to a pool `app`, whose keys are `pool`, with `more`
    /// sections after it.
    pub fn write(&self, pool: &str, more: &str) {
        let Self { sip, admin, .. } = self;
        self.write_whole(&format!(
            r#"node = {{ name = "edge", secret = "file:secret", workers = 1 }}
listen = [ {{ transport = "udp", address = "{sip}" }} ]
route = [ {{ to = "app" }} ]
admin = {{ address = "{admin}", socket = "admin.sock", tokens = ["operate:{OPERATORS_HASH}"] }}
{more}
[pool.app]
{pool}
"#
        ));
    }

    /// Writes the whole file.
    pub fn write_whole(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
    }

    /// Starts `sipyard serve` on the file and waits until it is ready.
    pub fn start(self) -> Edge {
        let edge = self.spawn();
        edge.wait_for_log("has started");
        edge
    }

    /// Starts `sipyard serve` on the file.
    pub fn spawn(self) -> Edge {
        let mut child = sipyard()
            .args(["serve", "--config"])
            .arg(self.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Log::of(child.stderr.take().unwrap());
        Edge {
            settings: self,
            child,
            log,
        }
    }
}

/// A running node; killed when it is dropped, and its log printed if the test fails.
pub struct Edge {
    pub settings: Settings,
    child: Child,
    log: Log,
}

impl Edge {
    /// A node with one pool of these servers.
    pub fn before(servers: &[SocketAddr]) -> Self {
        let settings = Settings::new();
        let servers: Vec<String> = servers
            .iter()
            .map(|server| format!("{{ address = \"{server}\" }}"))
            .collect();
        settings.write(&format!("servers = [{}]", servers.join(", ")), "");
        settings.start()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it takes SIP.
    pub fn sip(&self) -> SocketAddr {
        self.settings.sip
    }

    /// Its folder: the configuration file is `edge.toml`.
    pub fn folder(&self) -> &Path {
        self.settings.folder.path()
    }

    /// All that it logged so far.
    pub fn log(&self) -> String {
        self.log.text.0.lock().unwrap().clone()
    }

    /// Waits until the log holds `words`.
    pub fn wait_for_log(&self, words: &str) {
        let (text, grown) = &*self.log.text;
        let lacks = |text: &mut String| !text.contains(words);
        let text = text.lock().unwrap();
        let (text, timeout) = grown.wait_timeout_while(text, PATIENCE, lacks).unwrap();
        drop(text);
        assert!(!timeout.timed_out(), "the log never said: {words}");
    }

    /// The status and body of a request to the admin API on TCP.
    pub fn ask(&self, method: &str, path: &str) -> (u16, String) {
        self.ask_with(method, path, &[])
    }

    /// The same, with the operator's token.
    pub fn ask_as_operator(&self, method: &str, path: &str) -> (u16, String) {
        let token = format!("Bearer {OPERATORS_TOKEN}");
        self.ask_with(method, path, &[("Authorization", &token)])
    }

    /// The same, with headers.
    pub fn ask_with(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.settings.admin));
        let request = headers
            .iter()
            .fold(request, |request, (name, value)| {
                request.header(*name, *value)
            })
            .body(())
            .unwrap();
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(PATIENCE))
            .build()
            .into();
        let mut response = agent.run(request).unwrap();
        let body = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), body)
    }

    /// /api/v1/status.
    pub fn status(&self) -> Value {
        serde_json::from_str(&self.ask("GET", "/api/v1/status").1).unwrap()
    }

    /// Runs `sipyard ctl` against it: exit code, standard output, standard error.
    pub fn ctl(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = sipyard()
            .args(["ctl", "--admin"])
            .arg(self.folder().join("admin.sock"))
            .args(arguments)
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    /// Sends its process a signal, such as "TERM".
    pub fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// Waits for its process to end.
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the node's end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- the node's log ---\n{}---", self.log());
        }
    }
}

/// What a process writes, kept while it runs.
struct Log {
    text: Arc<(Mutex<String>, Condvar)>,
}

impl Log {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let text = Arc::new((Mutex::default(), Condvar::new()));
        let log = Self {
            text: Arc::clone(&text),
        };
        thread::spawn(move || {
            let (text, grown) = &*text;
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let mut text: std::sync::MutexGuard<'_, String> = text.lock().unwrap();
                text.push_str(&line);
                text.push('\n');
                grown.notify_all();
            }
        });
        log
    }
}
