//! Files that hold a secret, or what passwords are proven by, are their owner's alone.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Runs a shell's line in a folder; `sipyard` is the binary under test.
fn shell(folder: &Path, line: &str) -> Output {
    let binary = env!("CARGO_BIN_EXE_sipyard");
    let output = Command::new("sh")
        .args(["-c", &line.replace("sipyard ", &format!("{binary} "))])
        .current_dir(folder)
        .output();
    output.unwrap()
}

/// A folder with a registrar's configuration `f` that listens at `address`, a secret in a file, and a
/// store.
fn folder(secret: &str, address: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    testbed::write_private(&path("secret"), SECRET).unwrap();
    let text = format!(
        r#"node = {{ secret = "{secret}" }}
listen = [ {{ transport = "udp", address = "{address}" }} ]
route = [ {{ to = "registrar" }} ]
registrar = {{ domains = ["example.com"], store = "file:store" }}
"#
    );
    testbed::write_private(&path("f"), &text).unwrap();
    let add = "echo secret | sipyard user add -c f alice@example.com";
    assert!(shell(folder.path(), add).status.success());
    folder
}

/// The store's files could be read by all, and with them the hashes of all passwords.
#[test]
fn a_store_is_private_whatever_the_umask() {
    let folder = tempfile::tempdir().unwrap();
    let add = "umask 0; echo secret | sipyard user add --store file:store alice@example.com";
    let output = shell(folder.path(), add);
    assert!(output.status.success(), "{output:?}");
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode_of(&path), 0o600, "{}", path.display());
    }
}

/// A secret and a store that others can read were used without a word.
#[test]
fn what_others_can_read_is_refused_with_the_command_that_mends_it() {
    let here = "127.0.0.1:5060";
    let cases = [
        ("secret", 0o640, "f:1:19: node.secret: secret"),
        ("secret", 0o604, "f:1:19: node.secret: secret"),
        ("store", 0o644, "f:4:50: registrar.store: store"),
    ];
    for (name, mode, begins) in cases {
        let folder = folder("file:secret", here);
        let path = folder.path().join(name);
        set_mode(&path, mode);
        let told = format!(
            "{begins}: others than its owner may use it (mode {mode:03o}): run `chmod 600 {name}`\n"
        );
        for command in ["check f", "serve --config f", "user list -c f"] {
            let output = shell(folder.path(), &format!("sipyard {command}"));
            assert_eq!(output.status.code(), Some(2), "{command}: {output:?}");
            assert_eq!(String::from_utf8_lossy(&output.stderr), told, "{command}");
        }
        let mend = told.split('`').nth(1).unwrap();
        assert!(shell(folder.path(), mend).status.success());
        let output = shell(folder.path(), "sipyard check f && sipyard user list -c f");
        assert!(output.status.success(), "{output:?}");
    }
    let folder = folder("file:secret", here);
    set_mode(&folder.path().join("store"), 0o660);
    let output = shell(folder.path(), "sipyard user list --store file:store");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(error.contains("run `chmod 600 store`"), "{error}");
}

/// A configuration with the secret in it is as secret as the secret, but on a node that only its own
/// machine can reach.
#[test]
fn a_configuration_with_the_secret_is_private() {
    for (secret, address, is_good) in [
        (SECRET, "0.0.0.0:5060\", advertise = \"192.0.2.1", false),
        (SECRET, "127.0.0.1:5060", true),
        ("file:secret", "192.0.2.1:5060", true),
    ] {
        let folder = folder(secret, address);
        assert!(shell(folder.path(), "sipyard check f").status.success());
        set_mode(&folder.path().join("f"), 0o644);
        let output = shell(folder.path(), "sipyard check f");
        assert_eq!(output.status.success(), is_good, "{address}: {output:?}");
        let error = String::from_utf8_lossy(&output.stderr);
        let told = "f:1:19: node.secret: f: others than its owner may use it (mode 644): run \
                    `chmod 600 f`\n";
        assert_eq!(error, if is_good { "" } else { told });
    }
}
