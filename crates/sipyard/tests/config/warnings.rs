//! What is legal in a configuration, and seldom wise.

use std::{fs, process::Command};

#[test]
fn what_is_legal_and_unwise_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    testbed::write_private(&folder.path().join("secret"), &"0123456789abcdef".repeat(4)).unwrap();
    let text = r#"
node = { secret = "file:secret" }
listen = [
  { transport = "udp", address = "192.0.2.1:5060" },
  { transport = "tcp", address = "192.0.2.1:5060" },
]

[pool.app]
policy = "hash"
servers = [ { address = "10.0.0.1:5060" }, { address = "10.0.0.2:5060", capacity = 2.0 } ]
probe = false

[pool.one]
servers = [ { address = "10.0.0.3:5060" } ]

[registrar]
domains = ["example.com"]
store = "memory"
auth = false

[trust]
peers = ["0.0.0.0/0"]

[[route]]
users = ["0"]
to = "app"

[[route]]
hosts = ["example.com"]
to = "one"
state = "stateful"
"#;
    fs::write(folder.path().join("f"), text).unwrap();
    let checked = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sipyard"));
        let output = command
            .arg("check")
            .args(args)
            .current_dir(folder.path())
            .output();
        let output = output.unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, told) = checked(&["f"]);
    assert_eq!(code, Some(0), "{told}");
    let places: Vec<String> = told
        .lines()
        .map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" "))
        .collect();
    let expected = [
        "f:11:1: warning: pool.app.probe:",
        "f:9:1: warning: pool.app.policy:",
        "f:14:1: warning: pool.one:",
        "f:19:1: warning: registrar.auth:",
        "f:18:1: warning: registrar.store:",
        "f:22:1: warning: trust.peers:",
        "f:10:1: warning: pool.app:",
        "f:24:3: warning: no",
    ];
    assert_eq!(places, expected, "{told}");
    assert_eq!(checked(&["--strict", "f"]).0, Some(1));
}
