//! Programs of a fail-over: nodes of ours, and how they fail.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::{
    process::{Process, signal},
    subject::{self, CORE},
};

const PATIENCE: Duration = Duration::from_secs(20);

/// `sipyard serve` on an address of its own.
pub(super) struct Node {
    pub(super) process: Process,
    pub(super) sip: SocketAddr,
    admin: SocketAddr,
    _files: TempDir,
}

/// How a program fails.
#[derive(Clone, Copy, Debug)]
pub(super) enum Death {
    /// It is killed; its machine refuses what is sent to it.
    Killed,
    /// It hangs: what is sent to it is taken and never answered.
    Silent,
}

impl Death {
    pub(super) fn strike(self, process: u32) {
        let name = match self {
            Self::Killed => Signal::KILL,
            Self::Silent => Signal::STOP,
        };
        signal(process, name);
    }
}

impl Node {
    /// A node with these sections beside its own.
    pub(super) fn start(sections: &str) -> io::Result<Self> {
        let files = tempfile::tempdir()?;
        let (sip, admin) = (subject::free_addresses(1)?, free_address()?);
        let config = format!(
            "[node]\nname = \"{sip}\"\nsecret = \"a secret for benchmarks, of no use elsewhere\"\nworkers = 1\n\
             [[listen]]\ntransport = \"udp\"\naddress = \"{sip}\"\n[admin]\naddress = \"{admin}\"\n{sections}"
        );
        let path = written(files.path(), "sipyard.toml", &config)?;
        let mut process = Process::start(CORE, &subject::sipyard(), &["serve", "--config", &path])?;
        until_log(&mut process, "has started")?;
        Ok(Self {
            process,
            sip,
            admin,
            _files: files,
        })
    }

    /// What `sipyard ctl status` says.
    pub(super) fn status(&self) -> io::Result<String> {
        status(self.admin)
    }

    pub(super) fn admin(&self) -> SocketAddr {
        self.admin
    }
}

/// A TCP address that no connection takes meanwhile: below the ports that the system gives out.
fn free_address() -> io::Result<SocketAddr> {
    let mut ports = (20_000..30_000).map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let free = ports.find(|&address| TcpListener::bind(address).is_ok());
    free.ok_or_else(|| io::Error::other("no ports are free"))
}

/// What `sipyard ctl status` says of the node with this admin API.
pub(super) fn status(admin: SocketAddr) -> io::Result<String> {
    sipyard(&["ctl", "--admin", &format!("http://{admin}"), "status"])
}

/// What a command of ours says.
pub(super) fn sipyard(arguments: &[&str]) -> io::Result<String> {
    output(&subject::sipyard(), arguments)
}

/// What a program says that must succeed.
pub(super) fn output(program: &Path, arguments: &[&str]) -> io::Result<String> {
    let output = std::process::Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| io::Error::other(format!("{}: {error}", program.display())))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let program = program.display();
    Err(io::Error::other(format!(
        "{program} {}: {said}",
        arguments.join(" ")
    )))
}

/// Servers of a pool as a configuration lists them.
pub(super) fn servers(addresses: &[SocketAddr]) -> String {
    let quoted: Vec<_> = addresses.iter().map(|it| format!("\"{it}\"")).collect();
    format!("servers = [{}]", quoted.join(", "))
}

/// Waits until a program has written this.
pub(super) fn until_log(process: &mut Process, words: &str) -> io::Result<()> {
    let held = until(words, || Ok(process.log().contains(words)));
    held.map_err(|error| io::Error::other(format!("{error}:\n{}", process.log())))
}

pub(super) fn until(what: &str, mut is_so: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    let began = Instant::now();
    while !is_so()? {
        if began.elapsed() > PATIENCE {
            return Err(io::Error::other(format!("waited in vain for: {what}")));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Writes a file of a program; its path.
pub(super) fn written(folder: &Path, name: &str, text: &str) -> io::Result<String> {
    let path = folder.join(name);
    testbed::write_private(&path, text)?;
    Ok(path.display().to_string())
}

/// Why ways that need these programs are left out.
pub(super) fn missing_of(programs: &[&str]) -> Option<String> {
    let folders = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/sbin", "/bin"];
    let is_there = |name: &str| folders.iter().any(|it| Path::new(it).join(name).exists());
    let missing: Vec<_> = programs.iter().filter(|name| !is_there(name)).collect();
    let first = missing.first()?;
    Some(format!("{first} is not there: run scripts/setup.sh test"))
}
