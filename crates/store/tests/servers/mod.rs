//! Redis servers for a test: on free ports, in a folder of their own, gone with the test.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

/// A process of redis-server.
pub(crate) struct Server {
    pub(crate) port: u16,
    child: Child,
    folder: TempDir,
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_at(free_port(), &[&["--save", ""], arguments].concat())
    }

    pub(crate) fn start_at(port: u16, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new("redis-server")
            .args(arguments)
            .args(["--bind", "127.0.0.1"])
            .args(["--port", &port.to_string(), "--logfile", "log", "--dir"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server can be run: apt-get install redis-server");
        let server = Self {
            port,
            child,
            folder,
        };
        server.until("it answers", || {
            // It asks for a password where one is set.
            ["+PONG", "-NOAUTH Authentication required."].contains(&&*server.ask("PING"))
        });
        server
    }

    /// The first line of the answer to an inline command; empty without one.
    pub(crate) fn ask(&self, command: &str) -> String {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            write!(stream, "{command}\r\n")?;
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line)?;
            Ok(line.trim_end().to_owned())
        };
        ask().unwrap_or_default()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(status.unwrap().success());
    }

    pub(crate) fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so() {
            if Instant::now() > end {
                let log = fs::read_to_string(self.folder.path().join("log"));
                panic!(
                    "not within {PATIENCE:?}: {what}\n{}",
                    log.unwrap_or_default()
                );
            }
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // A cluster's servers take the port 10,000 higher too.
        if port < 55_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
}

/// Three servers that are one cluster.
pub(crate) fn cluster() -> Vec<Server> {
    let start = |_| Server::start(&["--cluster-enabled", "yes"]);
    let servers: Vec<Server> = (0..3).map(start).collect();
    let hosts = servers.iter().map(|it| format!("127.0.0.1:{}", it.port));
    let output = Command::new("redis-cli")
        .args(["--cluster", "create", "--cluster-yes"])
        .args(hosts)
        .output()
        .expect("redis-cli came with redis-server");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    for server in &servers {
        let is_ok = || {
            let info = Command::new("redis-cli")
                .args(["-p", &server.port.to_string(), "cluster", "info"])
                .output();
            String::from_utf8_lossy(&info.unwrap().stdout).contains("cluster_state:ok")
        };
        server.until("the cluster stands", is_ok);
    }
    servers
}

/// A master, its replica, and a sentinel that promotes the one for the other.
pub(crate) fn sentinel() -> (Vec<Server>, Server) {
    let master = Server::start(&[]);
    let port = master.port.to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sentinel.conf");
    let text = format!(
        "sentinel monitor m 127.0.0.1 {port} 1\nsentinel down-after-milliseconds m 500\n\
         sentinel failover-timeout m 2000\n"
    );
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let mut sentinel = Server::start_at(free_port(), &[file, "--sentinel"]);
    sentinel.folder = folder;
    let knows_replica = || {
        let info = Command::new("redis-cli")
            .args(["-p", &sentinel.port.to_string(), "info", "sentinel"])
            .output();
        String::from_utf8_lossy(&info.unwrap().stdout).contains("slaves=1")
    };
    sentinel.until("the sentinel knows the replica", knows_replica);
    (vec![master, replica], sentinel)
}
