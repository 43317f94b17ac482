use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use regex_lite::Regex;

use super::*;

const FILTER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../etc/fail2ban/filter.d/sipyard.conf"
);

fn failed(from: &str, user: &str, is_held_against: bool) -> Notice {
    Notice::LoginFailed {
        from: from.parse().unwrap(),
        user: user.into(),
        realm: "example.com".into(),
        is_held_against,
    }
}

fn banned(source: &str) -> Notice {
    Notice::Banned(Ban {
        source: source.parse().unwrap(),
        since: Duration::from_secs(7),
        until: Duration::from_secs(607),
        last_user: "alice".into(),
    })
}

#[test]
fn lines_are_as_their_readers_expect() {
    let check = |notice: &Notice, expected: &str| assert_eq!(line(notice), expected);
    check(
        &failed("203.0.113.9", "alice", true),
        "login failed from 203.0.113.9 user \"alice\" realm \"example.com\"",
    );
    check(
        &failed("2001:db8::9", "a\"\n\u{1b}[2Jé", false),
        "login failed, not held against 2001:db8::9 user \"a\\\"\\n\\u{1b}[2J\\u{e9}\" realm \
         \"example.com\"",
    );
    check(
        &banned("2001:db8:1:2:3::4"),
        "banned 2001:db8:1:2::/64 for 10m: too many failed logins, the last as \"alice\"",
    );
    check(
        &Notice::Unbanned("203.0.113.9".parse().unwrap()),
        "the ban of 203.0.113.9 is lifted",
    );
}

/// The address that fail2ban finds in a line: it takes the time out first, and `<ADDR>` stands for an
/// address.
fn found(line: &str) -> Option<String> {
    let filter = fs::read_to_string(FILTER).unwrap();
    let pattern = filter
        .lines()
        .find_map(|line| line.strip_prefix("failregex = "));
    let address = r"\[?(?P<ADDR>(?:\d{1,3}\.){3}\d{1,3}|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)\]?";
    let pattern = Regex::new(&pattern.unwrap().replace("<ADDR>", address)).unwrap();
    let captures = pattern.captures(line)?;
    Some(captures["ADDR"].to_owned())
}

#[test]
fn fail2ban_finds_who_failed_and_nobody_else() {
    let time = "2026-11-22T13:40:00.123456Z";
    for from in ["203.0.113.9", "2001:db8::9"] {
        let line = line(&failed(from, "alice", true));
        for before in [
            "",
            time,
            "edge1 sipyard[812]: ",
            &format!("edge1 sipyard[812]: {time}"),
        ] {
            let whole = format!("{before}  INFO {line}");
            assert_eq!(found(&whole).as_deref(), Some(from), "{whole}");
        }
        let entry = format!("edge1 sipyard[812]: {line}");
        assert_eq!(found(&entry).as_deref(), Some(from), "{entry}");
    }
    let hostile = "x\" INFO login failed from 198.51.100.1 user \"y";
    for notice in [
        failed("203.0.113.9", hostile, false),
        failed(
            "203.0.113.9",
            "INFO login failed from 198.51.100.1 user ",
            false,
        ),
        banned("203.0.113.9"),
        Notice::Unbanned("203.0.113.9".parse().unwrap()),
    ] {
        let whole = format!("{time}  INFO {}", line(&notice));
        assert_eq!(found(&whole), None, "{whole}");
    }
    let held = format!(
        "{time}  INFO {}",
        line(&failed("203.0.113.9", hostile, true))
    );
    assert_eq!(found(&held).as_deref(), Some("203.0.113.9"));
}

#[test]
fn nftables_is_told_of_bans() {
    let nftables = Nftables {
        table: "inet sipyard".to_owned(),
        set: "banned".to_owned(),
    };
    let notices = [
        failed("203.0.113.9", "alice", true),
        banned("203.0.113.9"),
        banned("2001:db8::9"),
        banned("203.0.113.10"),
        Notice::Unbanned("2001:db8::/64".parse().unwrap()),
    ];
    assert_eq!(
        commands(&nftables, &notices),
        [
            "add element inet sipyard banned { 203.0.113.9 timeout 600s }\n\
             add element inet sipyard banned { 203.0.113.10 timeout 600s }\n",
            "add element inet sipyard banned6 { 2001:db8::/64 timeout 600s }\n",
            "delete element inet sipyard banned6 { 2001:db8::/64 }\n",
        ]
    );
}

/// A program in place of nft that writes what it is told into a file, and fails if that says so.
fn program(folder: &Path) -> String {
    let path = folder.join("nft");
    let script = format!(
        "#!/bin/sh\ncat > {}/told\nif grep -q bad {0}/told; then echo 'no such set' >&2; exit 1; fi\n",
        folder.display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn what_nft_refuses_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    run(&program, "add element good\n").unwrap();
    let told = fs::read_to_string(folder.path().join("told")).unwrap();
    assert_eq!(told, "add element good\n");
    let error = run(&program, "add element bad\n").unwrap_err();
    assert_eq!(error.to_string(), "no such set");
    assert!(run("/nonexistent/nft", "add element good\n").is_err());
}
