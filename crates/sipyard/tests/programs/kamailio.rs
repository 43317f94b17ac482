//! A Kamailio as a server behind the edge, with a server of its own.

use std::{fs, net::SocketAddr, time::Duration};

use tempfile::tempdir;

use crate::{
    common::{PATIENCE, free_address},
    edge::{self, Counts, wait_until_idle, within_counts},
    process::{Process, command, whole_machine, within},
    sipp::{Caller, Server, scenario},
};

/// A running Kamailio.
pub(crate) struct Kamailio {
    process: Process,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl Kamailio {
    /// One that forwards calls.
    fn before(target: SocketAddr) -> Self {
        let config = include_str!("scenarios/kamailio.cfg");
        Self::start(&config.replace("TARGET", &target.to_string()))
    }

    /// One with a configuration that names LISTEN where its own address is to stand.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_at(free_address(), config)
    }

    /// The same at an address, once it has its socket.
    pub(crate) fn start_at(address: SocketAddr, config: &str) -> Self {
        let folder = tempdir().unwrap();
        let text = config.replace("LISTEN", &address.to_string());
        fs::write(folder.path().join("kamailio.cfg"), text).unwrap();
        let arguments = [
            "-DD",
            "-E",
            "-f",
            "kamailio.cfg",
            "-w",
            ".",
            "-Y",
            ".",
            "-m",
            "32",
            "-M",
            "8",
        ];
        let process = Process::start("kamailio", "kamailio", folder, &arguments);
        let port = format!(":{:04X} ", address.port());
        within(PATIENCE, "Kamailio's socket", || {
            let sockets = fs::read_to_string("/proc/thread-self/net/udp").unwrap();
            sockets.contains(&port)
        });
        Self { process, address }
    }

    /// What it wrote so far.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }
}

impl Drop for Kamailio {
    /// Killed, it would leave its children behind.
    fn drop(&mut self) {
        self.process.terminate();
    }
}

#[test]
fn calls_through_kamailio() {
    let _alone = whole_machine();
    let server = Server::start(&scenario("server"));
    let kamailio = Kamailio::before(server.address);
    let uri = format!("sip:{}", kamailio.address);
    within(PATIENCE, "Kamailio's answer", || {
        let mut ping = command("sipsak", "sipsak");
        ping.args(["-s", &uri]).output().unwrap().status.success()
    });
    let probe = "probe = { interval = \"500ms\", timeout = \"400ms\" }";
    let edge = edge::start(probe, &[kamailio.address]);
    let load = ["-r", "100", "-m", "500", "-d", "200"];
    let mut caller = Caller::start(edge.sip(), &scenario("caller"), &load);
    caller.outcome(Duration::from_secs(30)).expect_all(500);
    wait_until_idle(&edge, Duration::from_secs(5));
    within(PATIENCE, "all BYEs at the server", || server.byes() == 500);
    assert_eq!((server.invites(), server.foreign_byes()), (500, 0));
    let counts = Counts::of(&edge);
    assert_eq!(counts.of_server(kamailio.address, "placed"), 500);
    assert_eq!(counts.of_server(kamailio.address, "failed"), 0);

    let address = kamailio.address;
    drop(kamailio);
    within_counts(&edge, PATIENCE, "Kamailio is down", |counts| {
        counts.state(address) == "down"
    });
}
