//! Whoever sends the calls knows two proxies (paper 001 §3.1).

use std::{io, path::Path};

use super::{
    nodes::{Death, Node, missing_of, servers, until, written},
    run::{PER_S, Run, calls_through},
    traffic::Calls,
};
use crate::{
    load_program::Callees,
    process::Process,
    subject::{self, CORE, KAMAILIO},
};

pub(super) fn missing() -> Option<String> {
    missing_of(&["kamailio"])
}

/// Two nodes before the same servers.
pub(super) fn proxies(callees: &Callees) -> io::Result<[Node; 2]> {
    let sections = format!(
        "[pool.app]\n{}\n[[route]]\nto = \"app\"\n",
        servers(&callees.addresses)
    );
    Ok([Node::start(&sections)?, Node::start(&sections)?])
}

pub(super) fn kamailio(round: u64) -> io::Result<Run> {
    let callees = Callees::start(2, &[])?;
    let proxies = proxies(&callees)?;
    let files = tempfile::tempdir()?;
    let listen = subject::free_addresses(1)?;
    let config = include_str!("../../peers/kamailio-two-proxies.cfg")
        .replace("@LISTEN@", &listen.to_string())
        .replace("@SECOND@", &proxies[1].sip.to_string())
        .replace(
            "@LIST@",
            &written(files.path(), "dispatcher.list", &{
                let [first, second] = proxies.each_ref().map(|proxy| proxy.sip);
                format!("1 sip:{first} 0 2\n1 sip:{second} 0 1\n")
            })?,
        );
    let config = written(files.path(), "kamailio.cfg", &config)?;
    let pid = files.path().join("pid").display().to_string();
    let arguments = [
        "-f", &config, "-m", "256", "-M", "16", "-DD", "-E", "-P", &pid,
    ];
    let _kamailio = Process::start(CORE, Path::new(KAMAILIO), &arguments)?;
    subject::wait_for_sockets(&[listen])?;
    calls_through(round, &Calls::through(listen, PER_S), || {
        Death::Killed.strike(proxies[0].process.id());
        Ok(())
    })
}

pub(super) fn edge_before_killed(round: u64) -> io::Result<Run> {
    edge(round, Death::Killed)
}

pub(super) fn edge_before_silent(round: u64) -> io::Result<Run> {
    edge(round, Death::Silent)
}

fn edge(round: u64, death: Death) -> io::Result<Run> {
    let callees = Callees::start(2, &[])?;
    let proxies = proxies(&callees)?;
    let both = proxies.each_ref().map(|proxy| proxy.sip);
    let edge = Node::start(&format!(
        "[pool.proxies]\n{}\n[[route]]\nto = \"proxies\"\n",
        servers(&both)
    ))?;
    until("both proxies are known", || {
        let status = edge.status()?;
        Ok(both.iter().all(|it| status.contains(&it.to_string())))
    })?;
    calls_through(round, &Calls::through(edge.sip, PER_S), || {
        death.strike(proxies[0].process.id());
        Ok(())
    })
}
