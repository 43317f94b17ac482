//! Messages that go to a collector: Kamailio's sipcapture reads what a node sends.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    fs::{self, File},
    net::{SocketAddr, UdpSocket},
    path::Path,
    process::{Command, Stdio},
};

use common::{Settings, eventually, free_udp, phones::Phone};
use testbed::Running;

/// Kamailio, which writes a line about each message that it is told of.
fn collector(at: SocketAddr, folder: &Path) -> Running {
    fs::create_dir(folder.join("db")).unwrap();
    let file = folder.join("kamailio.cfg");
    let text = format!(
        r#"fork=no
children=1
log_stderror=yes
listen=udp:{at}
loadmodule "xlog.so"
loadmodule "pv.so"
loadmodule "db_text.so"
loadmodule "sipcapture.so"
modparam("sipcapture", "db_url", "text://{}")
modparam("sipcapture", "hep_capture_on", 1)
modparam("sipcapture", "capture_on", 1)
request_route {{ xlog("L_ERR", "passed $rm $ci from $si:$sp to $Ri:$Rp\n"); drop; }}
onreply_route {{ xlog("L_ERR", "passed $rs $ci from $si:$sp to $Ri:$Rp\n"); drop; }}
"#,
        folder.join("db").display()
    );
    fs::write(&file, text).unwrap();
    let child = Command::new("/usr/sbin/kamailio")
        .args(["-DD", "-E", "-m", "32", "-M", "4", "-f"])
        .arg(file)
        .stdout(Stdio::null())
        .stderr(File::create(folder.join("log")).unwrap())
        .spawn();
    child.unwrap().into()
}

#[test]
fn a_collector_sees_each_message_with_its_addresses() {
    let (caller, server) = (Phone::new(), Phone::new());
    let folder = tempfile::tempdir().unwrap();
    let at = free_udp();
    let _kamailio = collector(at, folder.path());
    let lines = || fs::read_to_string(folder.path().join("log")).unwrap();
    eventually("the collector hears", || UdpSocket::bind(at).is_err());
    let settings = Settings::new();
    let pool = format!(
        "servers = [ {{ address = \"{}\" }} ]\nprobe = false",
        server.address()
    );
    let homer = format!("calls = {{ homer = {{ address = \"{at}\", id = 7 }} }}");
    settings.write(&pool, &homer);
    let edge = settings.start();
    caller.call(edge.sip(), &server, "a-call", "alice");
    let (caller, edge_at, server) = (caller.address(), edge.sip(), server.address());
    for line in [
        format!("passed INVITE a-call from {caller} to {edge_at}"),
        format!("passed INVITE a-call from {edge_at} to {server}"),
        format!("passed 200 a-call from {server} to {edge_at}"),
        format!("passed 200 a-call from {edge_at} to {caller}"),
    ] {
        eventually(&line, || lines().contains(&line));
    }
    let metrics = edge.ask("GET", "/metrics").1;
    assert!(
        metrics.contains("sipyard_collector_lost_total{} 0"),
        "{metrics}"
    );
}
