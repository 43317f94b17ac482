//! Another host takes over the address (paper 001 §3.4): keepalived, and a network of namespaces for hosts.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use tempfile::TempDir;

use super::{
    nodes::{Death, missing_of, output, until, until_log, written},
    run::{PER_S, Run, calls_through},
    traffic::Calls,
};
use crate::{
    process::Process,
    subject::{CORE, CORE_OF_LOAD, sipyard},
};

const IP: &str = "/usr/sbin/ip";
const KEEPALIVED: &str = "/usr/sbin/keepalived";

/// What both edges have, and the hosts' own.
const SHARED: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 10);
const EDGES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 66, 0, 1), Ipv4Addr::new(10, 66, 0, 2)];
const SERVERS: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 20);
const CALLERS: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 30);

const SIP_PORT: u16 = 5060;

pub(super) fn missing() -> Option<String> {
    let may = rustix::process::geteuid().is_root();
    let programs = missing_of(&["keepalived", "ip"]);
    programs.or_else(|| (!may).then(|| "network namespaces need root".to_owned()))
}

pub(super) fn cut_off(round: u64) -> io::Result<Run> {
    let farm = Farm::start()?;
    farm.calls(round, || farm.net.cut(0))
}

pub(super) fn killed(round: u64) -> io::Result<Run> {
    let farm = Farm::start()?;
    farm.calls(round, || {
        Death::Killed.strike(farm.hosts[0].edge.id());
        Ok(())
    })
}

/// Two edges with keepalived, servers, and room for callers.
struct Farm {
    hosts: [Host; 2],
    _servers: Process,
    net: Net,
}

/// An edge's host.
struct Host {
    edge: Process,
    _keepalived: Process,
    _files: TempDir,
}

impl Farm {
    fn start() -> io::Result<Self> {
        let net = Net::new(&[EDGES[0], EDGES[1], SERVERS, CALLERS])?;
        let address = format!("{SERVERS}:{SIP_PORT}");
        let serve = ["load", "serve", "--address", &address, "--servers", "2"];
        let mut servers = net.start(2, CORE_OF_LOAD, &sipyard(), &serve)?;
        until_log(&mut servers, "are ready")?;
        let hosts = [Host::start(&net, 0)?, Host::start(&net, 1)?];
        until("the first host has the shared address", || {
            Ok(net.addresses(0)?.contains(&SHARED.to_string()))
        })?;
        Ok(Self {
            hosts,
            _servers: servers,
            net,
        })
    }

    fn calls(&self, round: u64, fail: impl FnOnce() -> io::Result<()>) -> io::Result<Run> {
        let before = self.net.addresses(1)?.contains(&SHARED.to_string());
        let calls = Calls {
            from: SocketAddr::from((CALLERS, 0)),
            host: Some(self.net.name(3).to_owned()),
            ..Calls::through(SocketAddr::from((SHARED, SIP_PORT)), PER_S)
        };
        let mut run = calls_through(round, &calls, fail)?;
        let after = self.net.addresses(1)?.contains(&SHARED.to_string());
        run.note = format!("the second host had the address before: {before}, after: {after}");
        Ok(run)
    }
}

impl Host {
    fn start(net: &Net, place: usize) -> io::Result<Self> {
        let files = tempfile::tempdir()?;
        let own = format!("\"{SERVERS}:{SIP_PORT}\", \"{SERVERS}:{}\"", SIP_PORT + 1);
        let config = include_str!("../../../etc/takeover.toml")
            .replace(
                "file:/etc/sipyard/secret",
                "a secret for benchmarks, of no use elsewhere",
            )
            .replace("192.0.2.10", &SHARED.to_string())
            .replace("\"10.0.0.11:5060\", \"10.0.0.12:5060\"", &own);
        // The hosts have networks of their own, but one file system.
        let config = format!("{config}\n[admin]\nsocket = \"admin.sock\"\n");
        let config = written(files.path(), "sipyard.toml", &config)?;
        let mut edge = net.start(place, CORE, &sipyard(), &["serve", "--config", &config])?;
        until_log(&mut edge, "has started")?;
        // keepalived runs no scripts below /tmp as securely as it would elsewhere.
        let socket = files.path().join("admin.sock");
        let socket = socket.display();
        let text = include_str!("../../../etc/keepalived.conf")
            .replace("    enable_script_security\n", "")
            .replace(
                "/usr/local/bin/sipyard ctl",
                &format!("{} ctl --admin {socket}", sipyard().display()),
            )
            .replace("priority 100", &format!("priority {}", 100 - place))
            .replace("192.0.2.10", &SHARED.to_string());
        let file = written(files.path(), "keepalived.conf", &text)?;
        let at = |name: &str| files.path().join(name).display().to_string();
        let (pid, vrrp) = (at("pid"), at("vrrp"));
        let arguments = [
            "--dont-fork",
            "--log-console",
            "--vrrp",
            "--use-file",
            &file,
            "--pid",
            &pid,
            "--vrrp_pid",
            &vrrp,
        ];
        let keepalived = net.start(place, CORE, Path::new(KEEPALIVED), &arguments)?;
        Ok(Self {
            edge,
            _keepalived: keepalived,
            _files: files,
        })
    }
}

/// Hosts at one switch. They are gone when it is dropped.
struct Net {
    switch: String,
    hosts: Vec<String>,
}

impl Net {
    /// Hosts with these addresses.
    fn new(addresses: &[Ipv4Addr]) -> io::Result<Self> {
        let name = format!("sipyard-{}", std::process::id());
        let net = Self {
            hosts: (0..addresses.len())
                .map(|it| format!("{name}-{it}"))
                .collect(),
            switch: name,
        };
        let switch = &*net.switch;
        ip(&format!("netns add {switch}"))?;
        ip(&format!("-n {switch} link add switch type bridge"))?;
        ip(&format!("-n {switch} link set switch up"))?;
        for (place, (host, address)) in net.hosts.iter().zip(addresses).enumerate() {
            ip(&format!("netns add {host}"))?;
            ip(&format!(
                "-n {switch} link add port{place} type veth peer name eth0 netns {host}"
            ))?;
            ip(&format!(
                "-n {switch} link set port{place} master switch up"
            ))?;
            ip(&format!("-n {host} address add {address}/24 dev eth0"))?;
            ip(&format!("-n {host} link set eth0 up"))?;
            ip(&format!("-n {host} link set lo up"))?;
        }
        Ok(net)
    }

    fn name(&self, host: usize) -> &str {
        &self.hosts[host]
    }

    /// Starts a program on a host.
    fn start(
        &self,
        host: usize,
        core: usize,
        program: &Path,
        arguments: &[&str],
    ) -> io::Result<Process> {
        let program = program.display().to_string();
        let own = ["netns", "exec", self.name(host), &program];
        Process::start(core, Path::new(IP), &[&own, arguments].concat())
    }

    /// Cuts a host off.
    fn cut(&self, host: usize) -> io::Result<()> {
        ip(&format!("-n {} link set port{host} down", self.switch)).map(drop)
    }

    /// The addresses that a host has.
    fn addresses(&self, host: usize) -> io::Result<String> {
        ip(&format!("-n {} address show dev eth0", self.name(host)))
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in self.hosts.iter().chain([&self.switch]) {
            // Not all may have come to be.
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

fn ip(arguments: &str) -> io::Result<String> {
    let arguments: Vec<_> = arguments.split(' ').collect();
    output(Path::new(IP), &arguments)
}
