//! A restart under a service manager: its notifications, and the sockets that it keeps between two processes.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{fs, net::SocketAddr, process::Stdio, thread, time::Duration};

use common::{Settings, load::Serving, manager::Manager, sipyard};
use serde_json::Value;

fn settings(servers: &[SocketAddr], workers: usize) -> Settings {
    let settings = Settings::new();
    let list: Vec<String> = servers
        .iter()
        .map(|it| format!("{{ address = \"{it}\" }}"))
        .collect();
    settings.write(&format!("servers = [{}]", list.join(", ")), "");
    let text = fs::read_to_string(settings.path()).unwrap();
    settings.write_whole(&text.replace("workers = 1", &format!("workers = {workers}")));
    settings
}

/// Callers never repeat a request, so each datagram that is lost is a call that fails.
#[test]
fn a_restart_under_load_drops_no_datagram() {
    for workers in [1, 2] {
        let servers = Serving::start(&["--servers", "2"]);
        let second = SocketAddr::new(servers.address.ip(), servers.address.port() + 1);
        let settings = settings(&[servers.address, second], workers);
        let mut manager = Manager::new(&settings);
        let mut node = manager.start(&settings, "");
        manager.wait_for("READY=1");
        while manager.kept.len() < workers {
            manager.hear();
        }
        let mut caller = sipyard();
        caller.args([
            "load", "call", "--json", "-", "--timers", "sipstone", "--to",
        ]);
        caller.arg(settings.sip.to_string());
        caller.args(["--rate", "300", "--duration", "4s", "--holding", "500ms"]);
        let caller = caller.stdout(Stdio::piped()).spawn().unwrap();
        for _ in 0..2 {
            #[expect(clippy::disallowed_methods, reason = "the load is to run for a while")]
            thread::sleep(Duration::from_secs(1));
            node.signal("USR2");
            assert!(node.wait().success());
            manager.heard.clear();
            node = manager.start(&settings, "");
            manager.wait_for("READY=1");
            while manager.kept.len() < workers {
                manager.hear();
            }
        }
        let output = caller.wait_with_output().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(output.status.success(), "{told:#}");
        assert_eq!(told["failed"], 0, "{told:#}");
        assert!(told["carried"].as_u64().unwrap() > 1_000, "{told:#}");
        drop(node);
    }
}

#[test]
fn the_manager_hears_of_starts_reloads_stops_and_a_fed_watchdog() {
    let settings = settings(&["127.0.0.1:9".parse().unwrap()], 1);
    let mut manager = Manager::new(&settings);
    let mut node = manager.start(&settings, "300000");
    for words in ["READY=1", "FDSTORE=1", "WATCHDOG=1"] {
        manager.wait_for(words);
    }
    manager.heard.clear();
    node.signal("HUP");
    manager.wait_for("RELOADING=1\nMONOTONIC_USEC=");
    manager.wait_for("READY=1\nSTATUS=reloaded");
    node.signal("TERM");
    manager.wait_for("STOPPING=1");
    assert!(node.wait().success());
}
