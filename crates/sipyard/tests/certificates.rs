//! What a node tells of its certificates, and how its admin API uses one.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
    time::Duration,
};

use common::{Edge, Settings, authority::Authority, eventually, free_address, sipyard};

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
    let (settings, secured) = (Settings::new(), free_address());
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
    let metric =
        format!("sipyard_listener_connections{{listener=\"{secured}\",transport=\"tls\"}} 1");
    let (_, metrics) = edge.ask("GET", "/metrics");
    assert!(metrics.contains(&metric), "{metrics}");
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

/// A node whose admin API has a certificate of these names.
fn secured(names: &[&str]) -> (Edge, Authority) {
    let settings = Settings::new();
    let authority = authority(&settings);
    authority.issue_for("admin", names, 5 * DAY + DAY / 2);
    settings.write(POOL, "");
    let file = fs::read_to_string(settings.path()).unwrap();
    let tls = r#"admin = { tls = { chain = "admin.pem", key = "admin.key" }, "#;
    settings.write_whole(&file.replace("admin = {", tls));
    (settings.start(), authority)
}

/// `sipyard ctl status` by a URL: exit code, output, what it says of problems.
fn status(url: &str, authority: &str) -> (Option<i32>, String, String) {
    let mut ctl = sipyard();
    ctl.args(["ctl", "--admin", url, "--ca", authority, "status"]);
    let output = ctl.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Tokens went over the network in the clear.
#[test]
fn the_admin_api_speaks_https_alone() {
    let (edge, authority) = secured(&["127.0.0.1", "localhost"]);
    let address = edge.settings.admin;
    let path = |name: &str| edge.folder().join(name).display().to_string();
    let url = format!("https://{address}");
    let (code, told, problem) = status(&url, &path("ca.pem"));
    assert_eq!(code, Some(0), "{problem}");
    assert!(
        told.contains(&format!("admin {address}: a certificate expires in 5 days")),
        "{told}"
    );
    assert!(edge.log().contains(&format!("admin on {url}")));

    let (code, _, problem) = status(&format!("http://{address}"), &path("ca.pem"));
    assert_eq!(code, Some(2));
    assert!(
        problem.contains(&format!("HTTPS alone: write {url}")),
        "{problem}"
    );
    let (status_code, body) = edge.ask("GET", "/metrics");
    assert_eq!(status_code, 400, "{body}");

    for name in ["ca", "other"] {
        let other = tempfile::tempdir().unwrap();
        Authority::new(other.path(), name);
        let other = other.path().join(format!("{name}.pem"));
        let (code, _, problem) = status(&url, &other.display().to_string());
        assert_eq!(code, Some(1));
        assert!(
            problem.contains("name the file of the authority"),
            "{problem}"
        );
    }
    let (code, _, problem) = status(&url, &path("admin.key"));
    assert_eq!(code, Some(1));
    assert!(
        problem.contains("admin.key: has no certificate"),
        "{problem}"
    );

    // Somebody who only connects stops nobody else.
    let _silent = TcpStream::connect(address).unwrap();
    assert_eq!(status(&url, &path("ca.pem")).0, Some(0));

    // Renewed, with another name.
    let renewed = format!("https://localhost:{}", address.port());
    authority.issue("admin", &["localhost"]);
    assert_eq!(status(&renewed, &path("ca.pem")).0, Some(0));
    assert_eq!(edge.ctl(&["reload"]).0, Some(0));
    assert_eq!(status(&renewed, &path("ca.pem")).0, Some(0));
    let (code, _, problem) = status(&url, &path("ca.pem"));
    assert_eq!(code, Some(1));
    assert!(
        problem.contains("a name or an address that its certificate has"),
        "{problem}"
    );
}

/// A restart would be felt by calls.
#[test]
fn a_reload_turns_tls_off_and_on() {
    let (edge, _) = secured(&["127.0.0.1"]);
    let address = edge.settings.admin;
    let ca = edge.folder().join("ca.pem").display().to_string();
    let with = fs::read_to_string(edge.settings.path()).unwrap();
    let tls = "tls = { chain = \"admin.pem\", key = \"admin.key\" }, ";
    edge.settings.write_whole(&with.replace(tls, ""));
    assert_eq!(edge.ctl(&["reload"]).0, Some(0));
    assert_eq!(edge.ask("GET", "/readyz").0, 200);
    let (code, _, problem) = status(&format!("https://{address}"), &ca);
    assert_eq!(code, Some(1));
    assert!(problem.contains("nobody speaks TLS there"), "{problem}");
    edge.settings.write_whole(&with);
    assert_eq!(edge.ctl(&["reload"]).0, Some(0));
    assert_eq!(status(&format!("https://{address}"), &ca).0, Some(0));
}

/// As a browser and Prometheus ask.
#[test]
fn curl_believes_the_admin_api() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("SKIPPED: curl is missing");
        return;
    }
    let (edge, _) = secured(&["edge.example.com"]);
    let port = edge.settings.admin.port();
    let ask = |url: &str, more: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--noproxy", "*", "-w", "%{http_code}", "--cacert"]);
        curl.arg(edge.folder().join("ca.pem"));
        let name = format!("edge.example.com:{port}:127.0.0.1");
        let output = curl
            .args(["--resolve", &name, url])
            .args(more)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let url = format!("https://edge.example.com:{port}/metrics");
    let told = ask(&url, &[]);
    assert!(
        told.contains("sipyard_certificate_end_seconds{listener=\"127.0.0.1"),
        "{told}"
    );
    assert!(told.ends_with("200"), "{told}");
    let own = format!("Origin: https://edge.example.com:{port}");
    assert!(ask(&url, &["-H", &own]).ends_with("200"));
    assert!(ask(&url, &["-H", "Origin: https://evil.example"]).ends_with("403"));
    let plain = ask(&url.replace("https", "http"), &[]);
    assert!(
        plain.contains("HTTPS alone") && plain.ends_with("400"),
        "{plain}"
    );
}

#[test]
fn a_bad_certificate_of_the_admin_api_is_told_with_its_place() {
    let settings = Settings::new();
    let authority = authority(&settings);
    authority.issue("one", &["localhost"]);
    authority.issue("other", &["localhost"]);
    settings.write(POOL, "");
    let file = fs::read_to_string(settings.path()).unwrap();
    for (tls, wanted) in [
        (
            r#"{ chain = "one.pem", key = "other.key" }"#,
            "edge.toml:4:44: admin.tls.key: ",
        ),
        (
            r#"{ chain = "none.pem", key = "one.key" }"#,
            "edge.toml:4:27: admin.tls.chain: ",
        ),
        (r#"{ chain = "one.pem" }"#, "write key = \"FILE\""),
    ] {
        settings.write_whole(&file.replace("admin = {", &format!("admin = {{ tls = {tls},")));
        let output = sipyard()
            .arg("check")
            .arg(settings.path())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(wanted), "{told}");
    }
}

/// An edge with a listener by UDP, and one by TLS that shows this certificate.
fn secured_edge(settings: &Settings, secured: SocketAddr, certificate: &str) -> String {
    let Settings { sip, admin, .. } = settings;
    format!(
        r#"node = {{ name = "edge", secret = "file:secret", workers = 1 }}
route = [ {{ to = "app" }} ]
admin = {{ address = "{admin}", socket = "admin.sock" }}
[[listen]]
transport = "udp"
address = "{sip}"
[[listen]]
transport = "tls"
address = "{secured}"
certificates = [ {{ chain = "{certificate}.pem", key = "{certificate}.key" }} ]
[pool.app]
{POOL}
"#
    )
}

/// Problems of the second listener's certificates pointed at the first listener or at the beginning of the file.
#[test]
fn problems_of_certificates_have_their_place() {
    let (settings, secured) = (Settings::new(), free_address());
    authority(&settings).issue_for("soon", &["edge.example.com"], 5 * DAY + DAY / 2);
    let text = secured_edge(&settings, secured, "soon");
    let checked = |text: &str| {
        settings.write_whole(text);
        fs::write(folder(&settings).join("none.pem"), "").unwrap();
        let mut command = sipyard();
        command
            .args(["check", "edge.toml"])
            .current_dir(folder(&settings));
        command
            .env("SSL_CERT_FILE", "none.pem")
            .env_remove("SSL_CERT_DIR");
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    let told = checked(&text);
    assert!(told.starts_with("edge.toml:9:11: tls: "), "{told}");
    let told = checked(&format!("{text}[tls]\nnames = \"web\"\n"));
    assert!(told.starts_with("edge.toml:14:1: tls: "), "{told}");
    let told = checked(&format!("{text}[tls]\nca = \"ca.pem\"\n"));
    assert!(
        told.contains("edge.toml:9:11: warning: listen[1]: "),
        "{told}"
    );
}

/// `[tls]` of a node without a secure listener was read, and nobody was told that it does nothing.
#[test]
fn what_servers_are_asked_for_in_vain_is_warned_of() {
    let settings = Settings::new();
    settings.write(POOL, "");
    let file = fs::read_to_string(settings.path()).unwrap();
    let checked = |text: &str| {
        settings.write_whole(text);
        let mut check = sipyard();
        check.arg("check").arg(settings.path());
        String::from_utf8(check.output().unwrap().stderr).unwrap()
    };
    assert!(!checked(&file).contains("tls"));
    let told = checked(&format!("{file}\n[tls]\nnames = \"web\"\n"));
    let warned = "warning: tls: nothing of it is used, as no listener is tls or wss";
    assert!(told.contains(warned), "{told}");
}

/// What the node shows to servers ended without a warning and without a figure: only listeners and the admin API had them.
#[test]
fn the_end_of_what_is_shown_to_servers_is_told_before() {
    let (settings, secured) = (Settings::new(), free_address());
    let authority = authority(&settings);
    authority.issue_for("own", &["edge.example.com"], 5 * DAY + DAY / 2);
    authority.issue("late", &["late.example.com"]);
    let own = "[tls]\nca = \"ca.pem\"\nchain = \"own.pem\"\nkey = \"own.key\"\n";
    settings.write_whole(&format!(
        "{}{own}",
        secured_edge(&settings, secured, "late")
    ));
    let mut check = sipyard();
    check.arg("check").arg(settings.path());
    let told = String::from_utf8(check.output().unwrap().stderr).unwrap();
    let warned = "edge.toml:16:1: warning: tls.chain: a certificate expires in 5 days";
    assert!(told.contains(warned), "{told}");
    assert!(!told.contains("listen[1]"), "{told}");

    let edge = settings.start();
    let (_, metrics) = edge.ask("GET", "/metrics");
    let end = |shown: &str| -> f64 {
        let name = format!("sipyard_certificate_end_seconds{{listener=\"{shown}\"}} ");
        let mut lines = metrics.lines();
        let value = lines.find_map(|line| line.strip_prefix(&*name));
        value.expect(&name).parse().unwrap()
    };
    let file = |name: &str| edge.folder().join(name);
    let own = tls::Identity::load(&file("own.pem"), &file("own.key")).unwrap();
    assert_eq!(end("to servers"), own.not_after().as_secs_f64());
    assert!(end(&secured.to_string()) > end("to servers"));
}
