//! The sample file documents the defaults.

use std::fs;

use super::load;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../etc/sipyard.toml");
const REGISTRAR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../etc/registrar.toml");

/// What the sample must say because it has no default.
const REQUIRED: &str = r#"
[node]
secret = "file:secret"

[[listen]]
transport = "udp"
address = "0.0.0.0:5060"
advertise = "203.0.113.10:5060"

[pool.app]
servers = [ { address = "10.0.0.11:5060" }, { address = "10.0.0.12:5060", capacity = 2.0 } ]

[[route]]
to = "app"
"#;

fn loaded(text: &str) -> super::Configuration {
    let folder = tempfile::tempdir().unwrap();
    let secret = "0123456789abcdef".repeat(4);
    testbed::write_private(&folder.path().join("secret"), &secret).unwrap();
    let path = folder.path().join("sipyard.toml");
    fs::write(&path, text).unwrap();
    load(&path).unwrap()
}

#[test]
fn the_sample_shows_every_default() {
    let sample = fs::read_to_string(SAMPLE).unwrap();
    let shown = loaded(&sample);
    let default = loaded(REQUIRED);
    assert_eq!(format!("{:#?}", shown.node), format!("{:#?}", default.node));
    assert_eq!(shown.workers, default.workers);
    let of_admin = |it: &super::Configuration| (it.admin.address, it.admin.socket.clone());
    assert_eq!(of_admin(&shown), of_admin(&default));
    assert_eq!(shown.dns, default.dns);
}

#[test]
fn the_sample_shows_every_default_of_the_registrar() {
    let sample = fs::read_to_string(SAMPLE).unwrap();
    let (start, end) = (sample.find("# [registrar]"), sample.find("# [cluster]"));
    let shown = sample[start.unwrap()..end.unwrap()].replace("\n# ", "\n");
    let shown = loaded(&format!("{REQUIRED}{}", &shown[2..]));
    let required = "[registrar]\ndomains = [\"example.com\"]\n\
                    store = \"file:/var/lib/sipyard/location.db\"\n";
    let default = loaded(&format!("{REQUIRED}{required}"));
    assert_eq!(
        format!("{:#?}", shown.registrar.unwrap()),
        format!("{:#?}", default.registrar.unwrap())
    );
}

#[test]
fn the_registrar_of_the_read_me_is_good() {
    let text = fs::read_to_string(REGISTRAR).unwrap();
    let here = loaded(&text.replace("file:/etc/sipyard/secret", "file:secret"));
    assert_eq!(here.registrar.unwrap().rules.domains, ["example.com"]);
}

#[test]
fn every_line_of_the_sample_can_go_but_what_is_required() {
    let sample = fs::read_to_string(SAMPLE).unwrap();
    let default = format!("{:?}", loaded(REQUIRED).node);
    let is_required = |key: &str| REQUIRED.lines().any(|line| line.starts_with(key));
    for line in sample.lines() {
        let key = line.split('=').next().unwrap();
        if !key.starts_with(|c: char| c.is_ascii_lowercase()) || is_required(key) {
            continue;
        }
        let without = sample.replacen(line, "", 1);
        assert_eq!(
            format!("{:?}", loaded(&without).node),
            default,
            "without {line}"
        );
    }
}
