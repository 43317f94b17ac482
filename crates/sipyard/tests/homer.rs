//! Messages that go to a collector: sngrep and Kamailio's sipcapture read what a node sends.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
};

use common::{Edge, Settings, eventually, free_address, phones::Phone};
use rustix::process::{Pid, Signal, kill_process};
use testbed::Running;

/// sngrep, which writes what it is told into a capture when it ends.
fn collector(at: SocketAddr, capture: &Path) -> Running {
    let child = Command::new("sngrep")
        .args(["-N", "-L", &format!("udp:{at}"), "-O"])
        .arg(capture)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    child.unwrap().into()
}

/// Waits until a collector hears. To bind its address for a look took it from sngrep now and then, just as it started.
fn hears(at: SocketAddr) {
    eventually("the collector hears", || {
        testbed::used_ports().unwrap().contains(&at.port())
    });
}

/// Asks a program to end, and waits until it has.
fn end(program: &mut Running) {
    let id = Pid::from_raw(i32::try_from(program.id()).unwrap()).unwrap();
    kill_process(id, Signal::TERM).unwrap();
    eventually("the program has ended", || program.has_ended());
}

/// The packets of a capture, each with its addresses and its first line of SIP.
fn packets(capture: &Path) -> String {
    let read = Command::new("tcpdump")
        .args(["-nn", "-A", "-r"])
        .arg(capture)
        .output();
    String::from_utf8_lossy(&read.unwrap().stdout).into_owned()
}

fn sent(from: SocketAddr, to: SocketAddr) -> String {
    let dotted = |at: SocketAddr| format!("{}.{}", at.ip(), at.port());
    format!("IP {} > {}", dotted(from), dotted(to))
}

/// An edge before `server` that sends all to the collector.
fn edge(server: &Phone, collector: SocketAddr) -> Edge {
    let settings = Settings::new();
    let pool = format!(
        "servers = [ {{ address = \"{}\" }} ]\nprobe = false",
        server.address()
    );
    let homer = format!("calls = {{ homer = {{ address = \"{collector}\", id = 7 }} }}");
    settings.write(&pool, &homer);
    settings.start()
}

#[test]
fn a_collector_sees_each_message_with_its_addresses() {
    let (caller, server) = (Phone::new(), Phone::new());
    let folder = tempfile::tempdir().unwrap();
    let (at, capture) = (free_address(), folder.path().join("homer.pcap"));
    let mut sngrep = collector(at, &capture);
    hears(at);
    let edge = edge(&server, at);
    caller.call(edge.sip(), &server, "a-call", "alice");
    let metric = |name: &str, value: u64| {
        let line = format!("sipyard_{name}_total {value}\n");
        edge.ask("GET", "/metrics").1.contains(&line)
    };
    // INVITE, 180, 200, ACK, BYE, 200: each comes and goes.
    eventually("all is sent", || metric("collector_sent", 12));
    assert!(metric("collector_lost", 0));
    eventually("sngrep has written all", || {
        packets(&capture).matches("IP 127.0.0.1.").count() == 12
    });
    end(&mut sngrep);
    let packets = packets(&capture);
    let (caller, edge, server) = (caller.address(), edge.sip(), server.address());
    for (from, to) in [
        (caller, edge),
        (edge, server),
        (server, edge),
        (edge, caller),
    ] {
        let way = sent(from, to);
        assert_eq!(packets.matches(&way).count(), 3, "{way} in\n{packets}");
    }
    for line in ["INVITE sip:service", "SIP/2.0 180", "ACK sip:", "BYE sip:"] {
        assert_eq!(packets.matches(line).count(), 2, "{line} in\n{packets}");
    }
}

/// A Kamailio that says of each message who sent it. Its sipcapture wants a database, but nothing is written there.
const SIPCAPTURE: &str = r#"
log_stderror=yes
children=1
disable_tcp=yes
listen=udp:LISTEN
loadmodule "pv.so"
loadmodule "xlog.so"
loadmodule "db_text.so"
loadmodule "sipcapture.so"
modparam("sipcapture", "db_url", "text://FOLDER")
modparam("sipcapture", "capture_on", 1)
modparam("sipcapture", "hep_capture_on", 1)
request_route { xlog("L_WARN", "heard $si:$sp $rm $ci\n"); drop; }
onreply_route { xlog("L_WARN", "heard $si:$sp $rs $ci\n"); drop; }
"#;

/// Ends it by asking: its children outlive it if it is killed.
struct Kamailio(Running);

impl Drop for Kamailio {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

fn sipcapture(at: SocketAddr, folder: &Path) -> Kamailio {
    let text = SIPCAPTURE.replace("LISTEN", &at.to_string());
    let text = text.replace("FOLDER", &folder.display().to_string());
    let columns = "table_name(string) table_version(int)\nsip_capture:4\n";
    fs::write(folder.join("kamailio.cfg"), text).unwrap();
    fs::write(folder.join("version"), columns).unwrap();
    fs::write(folder.join("sip_capture"), "id(int,auto)\n").unwrap();
    let log = fs::File::create(folder.join("log")).unwrap();
    let child = Command::new("kamailio")
        .args(["-DD", "-E", "-f", "kamailio.cfg", "-w", ".", "-Y", "."])
        .args(["-m", "32", "-M", "8"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    Kamailio(child.unwrap().into())
}

#[test]
fn kamailios_sipcapture_reads_each_message_with_its_sender() {
    let (caller, server) = (Phone::new(), Phone::new());
    let folder = tempfile::tempdir().unwrap();
    let at = free_address();
    let _kamailio = sipcapture(at, folder.path());
    hears(at);
    let edge = edge(&server, at);
    caller.call(edge.sip(), &server, "a-call", "alice");
    let heard = |from: SocketAddr, what: &str| {
        let log = fs::read_to_string(folder.path().join("log")).unwrap();
        let line = format!("heard {from} {what} a-call");
        log.matches(&line).count()
    };
    let (caller, edge, server) = (caller.address(), edge.sip(), server.address());
    for (from, requests, responses) in [(caller, 1, 0), (edge, 1, 1), (server, 0, 1)] {
        for method in ["INVITE", "ACK", "BYE"] {
            eventually("Kamailio has heard each request", || {
                heard(from, method) == requests
            });
        }
        eventually("and each response", || {
            (heard(from, "180"), heard(from, "200")) == (responses, 2 * responses)
        });
    }
}
