//! A Redis server of Debian's package redis-server.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;

use crate::{comes_within, free_address, used_ports};

/// How long a server may take to answer, and a cluster to form.
const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster's servers take the port that is so much higher, too.
const CLUSTER_PORTS: u16 = 10_000;

/// A process of redis-server on a loopback port, in a folder of its own. It keeps nothing on disk unless it is
/// replaced. It is killed when it is dropped.
#[derive(Debug)]
pub struct Redis {
    /// Where it answers.
    pub address: SocketAddr,
    child: Child,
    folder: TempDir,
}

impl Redis {
    /// Starts a server on a free port with these options, and waits until it answers.
    ///
    /// # Errors
    /// It can't be started, or does not answer.
    pub fn start(options: &[&str]) -> io::Result<Self> {
        Self::start_at(free_pair()?, options)
    }

    /// Starts a server where another has ended, and waits until it answers.
    ///
    /// # Errors
    /// It can't be started, or does not answer.
    pub fn start_at(address: SocketAddr, options: &[&str]) -> io::Result<Self> {
        let options = [&["--save", ""], options].concat();
        Self::run(tempfile::tempdir()?, address, &options)
    }

    /// Starts a sentinel with this configuration, and waits until it answers.
    ///
    /// # Errors
    /// It can't be started, or does not answer.
    pub fn sentinel(configuration: &str) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("sentinel.conf");
        fs::write(&file, configuration)?;
        let file = file.display().to_string();
        Self::run(folder, free_pair()?, &[&file, "--sentinel"])
    }

    fn run(folder: TempDir, address: SocketAddr, options: &[&str]) -> io::Result<Self> {
        let child = spawn(folder.path(), address, options)?;
        let redis = Self {
            address,
            child,
            folder,
        };
        redis.await_answer()?;
        Ok(redis)
    }

    fn await_answer(&self) -> io::Result<()> {
        self.until("Redis answers", |redis| {
            let answer = redis.ask("PING");
            // It asks for a password where one is set.
            answer.starts_with("+PONG") || answer.starts_with("-NOAUTH")
        })
    }

    /// Ends it as an upgrade does, with all that it knows on disk, and starts another process that knows the same.
    ///
    /// # Errors
    /// It does not end, or the other one can't be started or does not answer.
    pub fn replace(&mut self) -> io::Result<()> {
        self.end()?;
        self.start_again()
    }

    /// Ends it as an upgrade does, with all that it knows on disk.
    ///
    /// # Errors
    /// It does not end.
    pub fn end(&mut self) -> io::Result<()> {
        self.ask("SHUTDOWN SAVE");
        self.child.wait()?;
        Ok(())
    }

    /// Starts another process that knows the same.
    ///
    /// # Errors
    /// It can't be started or does not answer.
    pub fn start_again(&mut self) -> io::Result<()> {
        self.child = spawn(self.folder.path(), self.address, &["--save", ""])?;
        self.await_answer()
    }

    /// It as a store: `redis://` and its address.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The beginning of its answer to an inline command; empty without one.
    pub fn ask(&self, command: &str) -> String {
        let ask = || -> io::Result<String> {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            write!(stream, "{command}\r\n")?;
            let mut answer = [0; 8192];
            let length = stream.read(&mut answer)?;
            Ok(String::from_utf8_lossy(&answer[..length])
                .trim_end()
                .to_owned())
        };
        ask().unwrap_or_default()
    }

    /// Waits until something is so.
    ///
    /// # Errors
    /// It is not so in time. The error says `what` did not come, and has the server's log.
    pub fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) -> io::Result<()> {
        if comes_within(PATIENCE, || is_so(self)) {
            return Ok(());
        }
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        Err(io::Error::other(format!(
            "not within {PATIENCE:?}: {what}\n{log}"
        )))
    }

    /// Sends its process a signal, such as "STOP".
    ///
    /// # Errors
    /// The signal can't be sent.
    pub fn signal(&self, name: &str) -> io::Result<()> {
        let id = self.id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status()?;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("kill -s {name} {id}: {status}")))
    }

    /// Ends it as a failing machine does.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(folder: &Path, address: SocketAddr, options: &[&str]) -> io::Result<Child> {
    Command::new("redis-server")
        .args(options)
        .args(["--bind", "127.0.0.1", "--port"])
        .arg(address.port().to_string())
        .args(["--logfile", "log", "--dir"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| {
            io::Error::other(format!(
                "redis-server: {error}: apt-get install redis-server"
            ))
        })
}

/// Also for a node of a cluster, which takes a second port.
fn free_pair() -> io::Result<SocketAddr> {
    loop {
        let address = free_address()?;
        if let Some(port) = address.port().checked_add(CLUSTER_PORTS)
            && !used_ports()?.contains(&port)
        {
            return Ok(address);
        }
    }
}
