//! `sipyard store` and `sipyard user`, as a shell runs them.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use tempfile::TempDir;

struct Run {
    code: i32,
    out: String,
    error: String,
}

/// Runs it in a folder, with this on its standard input.
fn sipyard(folder: &Path, input: &str, arguments: &str) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sipyard"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that refuses its arguments reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        error: String::from_utf8(output.stderr).unwrap(),
    }
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let configuration = "[node]\nsecret = \"0123456789abcdef0123456789abcdef\"\n\
        [[listen]]\ntransport = \"udp\"\naddress = \"127.0.0.1:5060\"\n\
        [pool.app]\nservers = [ { address = \"127.0.0.1:5070\" } ]\n\
        [[route]]\nto = \"app\"\n\
        [registrar]\ndomains = [\"Example.com\"]\nstore = \"file:location.db\"\n";
    fs::write(folder.path().join("sipyard.toml"), configuration).unwrap();
    folder
}

#[test]
fn users_come_one_by_one() {
    let folder = folder();
    let run = |input, arguments| sipyard(folder.path(), input, arguments);
    let add = run(
        "secret\n",
        "user add --config sipyard.toml alice@example.com",
    );
    assert_eq!(
        (add.code, &*add.out),
        (0, "alice@example.com is added\n"),
        "{}",
        add.error
    );
    let again = run(
        "other\n",
        "user add --config sipyard.toml alice@example.com",
    );
    assert_eq!(again.code, 2);
    assert!(again.error.contains("--replace"), "{}", again.error);
    let again = run(
        "other\n",
        "user add -c sipyard.toml --replace alice@EXAMPLE.com",
    );
    assert_eq!(
        (again.code, &*again.out),
        (0, "alice@example.com has a new password\n")
    );
    let foreign = run(
        "secret\n",
        "user add --config sipyard.toml alice@example.org",
    );
    assert_eq!(foreign.code, 2);
    assert!(
        foreign.error.contains("not a domain of [registrar]"),
        "{}",
        foreign.error
    );
    let empty = run("\n", "user add --config sipyard.toml bob@example.com");
    assert_eq!(empty.code, 2);
}

#[test]
fn users_come_by_a_list_and_go() {
    let folder = folder();
    let run = |input, arguments| sipyard(folder.path(), input, arguments);
    run(
        "secret\n",
        "user add --config sipyard.toml alice@example.com",
    );
    let table = "username,domain,password\nbob,example.com,x\nalice,example.com,y\n";
    let import = run(table, "user import --config sipyard.toml -");
    assert_eq!(
        import.out, "file:location.db: 1 added, 1 replaced\n",
        "{}",
        import.error
    );
    let list = run("", "user list --store file:location.db");
    let users: Vec<&str> = list
        .out
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(users, ["user", "alice@example.com", "bob@example.com"]);
    assert!(!list.out.contains("secret"));
    let remove = run("", "user remove --config sipyard.toml bob@example.com");
    assert_eq!(
        (remove.code, &*remove.out),
        (0, "bob@example.com is removed\n")
    );
    assert_eq!(
        run("", "user remove --config sipyard.toml bob@example.com").code,
        2
    );
    let wrong = run(
        "username,domain,ha1\nbob,example.com,12\ncarol,x,1\n",
        "user import -c sipyard.toml -",
    );
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.error.contains("-:2: ha1") && wrong.error.contains("-:3: "),
        "{}",
        wrong.error
    );
    assert_eq!(
        run("", "user list --store file:location.db")
            .out
            .lines()
            .count(),
        2
    );
}

const RECORDS: &str = "\
    {\"aor\":\"alice@example.com\",\"bindings\":[{\"contact\":\"sip:a@192.0.2.1\",\"q\":1000,\
    \"expires_ms\":4000000000000,\"call_id\":\"x\",\"cseq\":7,\"path\":\"\",\
    \"received\":\"192.0.2.1:5060\"}]}\n\
    {\"user\":\"alice@example.com\",\"ha1_md5\":\"00112233445566778899aabbccddeeff\"}\n";

#[test]
fn what_is_exported_can_be_imported() {
    let folder = folder();
    let run = |input, arguments| sipyard(folder.path(), input, arguments);
    let import = run(RECORDS, "store import --store file:one -");
    assert_eq!(
        import.out, "file:one: 2 added, 0 replaced\n",
        "{}",
        import.error
    );
    let export = run("", "store export --store file:one");
    assert_eq!(export.out, RECORDS);
    let check = run("", "store check --store file:one");
    assert_eq!(
        (check.code, &*check.out),
        (
            0,
            "file:one: ok (1 addresses-of-record with 1 bindings, 1 subscribers)\n"
        )
    );
    let wrong = run(
        &format!("{RECORDS}nonsense\n"),
        "store import --store file:two -",
    );
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.error.starts_with("-:3: the line is not a record"),
        "{}",
        wrong.error
    );
    assert!(!folder.path().join("two").exists());
}

#[test]
fn what_is_wrong_is_told() {
    let folder = folder();
    let run = |arguments| sipyard(folder.path(), "", arguments);
    fs::write(
        folder.path().join("foreign"),
        "a file of another kind, and long enough",
    )
    .unwrap();
    let cases = [
        ("store check --store file:none", 2, "there is no such file"),
        (
            "store check --store memory",
            2,
            "in the memory of the node's process",
        ),
        ("store check --store mysql://h", 2, "not a store"),
        ("store check --store redis://127.0.0.1:1", 1, "unavailable"),
        ("store check --store file:foreign", 1, "not a store's file"),
        ("store check", 2, "required"),
        ("store import --store file:x none", 2, "none: "),
        ("user add --store file:x alice", 2, "not USER@DOMAIN"),
        ("user list --config none.toml", 2, "none.toml"),
    ];
    for (arguments, code, expected) in cases {
        let run = run(arguments);
        assert_eq!(run.code, code, "{arguments}: {}", run.error);
        assert!(run.error.contains(expected), "{arguments}: {}", run.error);
    }
    sipyard(
        folder.path(),
        RECORDS,
        "store import --store file:damaged -",
    );
    sipyard(
        folder.path(),
        RECORDS,
        "store import --store file:damaged -",
    );
    let path = folder.path().join("damaged");
    let mut bytes = fs::read(&path).unwrap();
    bytes[60] ^= 1;
    fs::write(&path, bytes).unwrap();
    let damaged = run("store check --store file:damaged");
    assert_eq!(damaged.code, 1);
    assert!(
        damaged.error.contains("damaged between bytes"),
        "{}",
        damaged.error
    );
}
