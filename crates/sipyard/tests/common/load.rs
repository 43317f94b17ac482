//! `sipyard load` in tests.

use std::{
    fs,
    net::SocketAddr,
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;

use super::{eventually, free_udp, sipyard};

/// Runs `sipyard load` to its end.
pub fn load(arguments: &[&str]) -> Output {
    sipyard().arg("load").args(arguments).output().unwrap()
}

/// Runs `sipyard load call` to its end, with JSON on its standard output.
pub fn call(to: SocketAddr, arguments: &[&str]) -> Output {
    let to = to.to_string();
    load(&[&["call", "--to", &to, "--json", "-"], arguments].concat())
}

/// Sends a signal to a process of the test's own.
pub fn signal(process: u32, name: &str) {
    let process = process.to_string();
    let status = Command::new("kill").args(["-s", name, &process]).status();
    assert!(status.unwrap().success());
}

/// A `sipyard load serve`; killed when it is dropped.
pub struct Serving {
    child: Option<Child>,
    /// The first server's address.
    pub address: SocketAddr,
}

impl Serving {
    /// Servers on free ports.
    pub fn start(arguments: &[&str]) -> Self {
        let address = free_udp();
        let child = sipyard()
            .args(["load", "serve", "--address", &address.to_string()])
            .args(["--json", "-"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let serving = Self {
            child: Some(child),
            address,
        };
        let port = format!(":{:04X} ", address.port());
        eventually("the emulated servers' sockets", || {
            fs::read_to_string("/proc/net/udp").unwrap().contains(&port)
        });
        serving
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// CPU time that it has used, in ticks of 10 ms.
    pub fn cpu_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split(' ').collect();
        [fields[12], fields[13]]
            .iter()
            .map(|ticks| ticks.parse::<u64>().unwrap())
            .sum()
    }

    /// Ends it; what it reports of each server.
    pub fn end(mut self) -> Vec<Value> {
        self.signal("INT");
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
