//! A DNS server of a test: nsd, on a free port of the loopback address, with one zone, `test.`

use std::{
    fs,
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use super::{eventually, free_address, load::signal};

/// A process of nsd; killed when it is dropped.
pub struct Dns {
    pub address: SocketAddr,
    folder: TempDir,
    child: Child,
}

impl Dns {
    /// A server whose zone holds these records, each good for a second.
    pub fn start(records: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = free_address();
        let at = folder.path().display();
        let configuration = format!(
            r#"server:
  ip-address: 127.0.0.1@{port}
  port: {port}
  server-count: 1
  username: ""
  zonesdir: "{at}"
  pidfile: "{at}/pid"
  logfile: "{at}/log"
  database: ""
  xfrdfile: "{at}/xfrd"
  xfrdir: "{at}"
  zonelistfile: "{at}/zones"
remote-control:
  control-enable: no
zone:
  name: test.
  zonefile: zone
"#,
            port = address.port()
        );
        fs::write(folder.path().join("conf"), configuration).unwrap();
        fs::write(folder.path().join("zone"), zone(records)).unwrap();
        let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap());
        let child = Command::new("nsd")
            .env("PATH", path)
            .args(["-d", "-c"])
            .arg(folder.path().join("conf"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nsd can be run: apt-get install nsd");
        let port = format!(":{:04X} ", address.port());
        // Made before the wait, which may panic: it ends the server.
        let dns = Self {
            address,
            folder,
            child,
        };
        eventually("nsd's socket", || {
            fs::read_to_string("/proc/net/udp").unwrap().contains(&port)
        });
        dns
    }

    /// Lets the zone hold these records.
    pub fn set(&self, records: &str) {
        fs::write(self.folder.path().join("zone"), zone(records)).unwrap();
        signal(self.child.id(), "HUP");
    }

    /// Ends it.
    pub fn end(&mut self) {
        // It ends its own child processes, which hold the socket.
        signal(self.child.id(), "TERM");
        let _ = self.child.wait();
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

fn zone(records: &str) -> String {
    format!(
        "$ORIGIN test.\n$TTL 1\n@ SOA ns me 1 60 60 60 1\n@ NS ns\nns A 127.0.0.1\n\
         local A 127.0.0.1\n{records}\n"
    )
}
