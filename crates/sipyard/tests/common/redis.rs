//! A Redis server (Debian's redis-server) on a free port, which forgets all when it ends.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use super::{PATIENCE, eventually, free_tcp};

/// A process of redis-server; killed when it is dropped.
pub struct Redis {
    pub address: SocketAddr,
    child: Child,
    _folder: TempDir,
}

impl Redis {
    pub fn start() -> Self {
        Self::start_at(free_tcp())
    }

    /// At an address where one ended, say.
    pub fn start_at(address: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new("redis-server")
            .args(["--save", "", "--bind", "127.0.0.1", "--port"])
            .arg(address.port().to_string())
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server can be run: apt-get install redis-server");
        eventually("Redis answers", || {
            ask(address, "PING").is_ok_and(|answer| answer.starts_with("+PONG"))
        });
        Self {
            address,
            child,
            _folder: folder,
        }
    }

    /// What it has under a key.
    pub fn get(&self, key: &str) -> String {
        ask(self.address, &format!("GET {key}")).unwrap()
    }

    /// Ends it as a failing machine does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The answer to an inline command, which is short.
fn ask(address: SocketAddr, command: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "{command}\r\n")?;
    let mut answer = [0; 4096];
    let length = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}
