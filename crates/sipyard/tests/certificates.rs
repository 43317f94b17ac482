//! What a node tells of its certificates, and how its admin API uses one.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{net::TcpStream, path::Path, time::Duration};

use common::{Settings, authority::Authority, eventually, free_tcp};

const DAY: Duration = Duration::from_secs(86_400);
const POOL: &str = r#"servers = [ { address = "127.0.0.1:9" } ]
probe = false"#;

fn authority(settings: &Settings) -> Authority {
    Authority::new(folder(settings), "ca")
}

fn folder(settings: &Settings) -> &Path {
    settings.folder.path()
}

/// Nobody saw which certificates a node has and when they end, but for one figure of /metrics.
#[test]
fn certificates_and_connections_of_listeners_are_shown() {
    let (settings, secured) = (Settings::new(), free_tcp());
    let authority = authority(&settings);
    authority.issue_for(
        "soon",
        &["edge.example.com", "192.0.2.1"],
        5 * DAY + DAY / 2,
    );
    authority.issue("late", &["late.example.com"]);
    let Settings { sip, admin, .. } = &settings;
    settings.write_whole(&format!(
        r#"node = {{ name = "edge", secret = "file:secret", workers = 1 }}
route = [ {{ to = "app" }} ]
admin = {{ address = "{admin}", socket = "admin.sock" }}
tls = {{ ca = "ca.pem", chain = "late.pem", key = "late.key" }}
[[listen]]
transport = "udp"
address = "{sip}"
[[listen]]
transport = "tls"
address = "{secured}"
certificates = [ {{ chain = "soon.pem", key = "soon.key" }}, {{ chain = "late.pem", key = "late.key" }} ]
[pool.app]
{POOL}
"#
    ));
    let edge = settings.start();
    let _connection = TcpStream::connect(secured).unwrap();
    eventually("the connection is counted", || {
        edge.status()["listeners"][1]["connections"] == 1
    });
    let status = edge.status();
    assert!(status["listeners"][0]["connections"].is_null(), "{status}");
    let certificates = status["certificates"].as_array().unwrap();
    let shown = |place: usize| certificates[place]["shown"].as_str().unwrap();
    assert_eq!(
        (shown(0), shown(2)),
        (&*format!("tls {secured}"), "to servers")
    );
    let soon = &certificates[0];
    assert_eq!(soon["names"][0], "edge.example.com");
    assert_eq!(soon["names"][1], "192.0.2.1");
    assert_eq!(soon["days_left"], 5);
    assert!(soon["issuer"].as_str().unwrap().contains("CN=ca"), "{soon}");
    let file = edge.folder().join("soon.pem").display().to_string();
    assert_eq!(soon["file"], file);
    assert!(certificates[1]["warning"].is_null());

    let (_, told, _) = edge.ctl(&["status"]);
    let heading = told
        .lines()
        .position(|line| line.starts_with("CERTIFICATE OF"));
    let row = told.lines().nth(heading.unwrap() + 1).unwrap();
    assert!(
        row.contains("edge.example.com, 192.0.2.1") && row.ends_with(" 5"),
        "{told}"
    );
    assert!(
        told.contains(": a certificate expires in 5 days: renew it"),
        "{told}"
    );
    assert!(told.contains(", 1 connection\n"), "{told}");
}
