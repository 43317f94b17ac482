//! The DNS names two proxies (paper 001 §3.2): NSD has the zone, an edge follows RFC 3263.

use std::{fs, io, net::SocketAddr, path::Path};

use tempfile::TempDir;

use super::{
    client::proxies,
    nodes::{Death, Node, missing_of, until},
    run::{PER_S, Run, calls_through},
    traffic::Calls,
};
use crate::{
    load_program::Callees,
    process::Process,
    subject::{self, CORE},
};

/// What edges ask for.
pub(super) const SERVICE: &str = "srv:_sip._udp.core.test";

pub(super) fn missing() -> Option<String> {
    missing_of(&["nsd"])
}

pub(super) fn killed(round: u64) -> io::Result<Run> {
    run(round, Death::Killed)
}

pub(super) fn silent(round: u64) -> io::Result<Run> {
    run(round, Death::Silent)
}

fn run(round: u64, death: Death) -> io::Result<Run> {
    let callees = Callees::start(2, &[])?;
    let proxies = proxies(&callees)?;
    let dns = Dns::start(&proxies.each_ref().map(|proxy| proxy.sip))?;
    let edge = Node::start(&format!(
        "[dns]\nservers = [\"{}\"]\n[pool.proxies]\nservers = \"{SERVICE}\"\n[[route]]\nto = \"proxies\"\n",
        dns.address
    ))?;
    until("the edge has asked the DNS", || {
        Ok(edge.status()?.contains("1 in reserve"))
    })?;
    calls_through(round, &Calls::through(edge.sip, PER_S), || {
        death.strike(proxies[0].process.id());
        Ok(())
    })
}

/// A process of NSD with one zone.
pub(super) struct Dns {
    pub(super) address: SocketAddr,
    _process: Process,
    _folder: TempDir,
}

impl Dns {
    /// A server that names these for [`SERVICE`], one after the other.
    pub(super) fn start(named: &[SocketAddr]) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let address = subject::free_addresses(1)?;
        let record = |(priority, it): (u32, &SocketAddr)| {
            format!("_sip._udp.core SRV {priority} 0 {} local\n", it.port())
        };
        let records: String = (1..).zip(named).map(record).collect();
        let zone = format!(
            "$ORIGIN test.\n$TTL 30\n@ SOA ns me 1 60 60 60 1\n@ NS ns\nns A 127.0.0.1\n\
             local A 127.0.0.1\n{records}"
        );
        fs::write(folder.path().join("zone"), zone)?;
        let at = folder.path().display();
        let config = format!(
            "server:\n  ip-address: 127.0.0.1@{port}\n  port: {port}\n  server-count: 1\n  username: \"\"\n  \
             zonesdir: \"{at}\"\n  pidfile: \"{at}/pid\"\n  logfile: \"{at}/log\"\n  database: \"\"\n  \
             xfrdfile: \"{at}/xfrd\"\n  xfrdir: \"{at}\"\n  zonelistfile: \"{at}/zones\"\n\
             remote-control:\n  control-enable: no\nzone:\n  name: test.\n  zonefile: zone\n",
            port = address.port()
        );
        let path = folder.path().join("conf");
        fs::write(&path, config)?;
        let path = path.display().to_string();
        let process = Process::start(CORE, Path::new("/usr/sbin/nsd"), &["-d", "-c", &path])?;
        subject::wait_for_sockets(&[address])?;
        Ok(Self {
            address,
            _process: process,
            _folder: folder,
        })
    }
}
