//! `[trust]` and `[abuse]`.

use crate::{check, check_good, good};

#[test]
fn trust_is_in_networks() {
    check(
        &good(
            "[trust]\npeers = [\"10.0.0.0/8\", \"10.0.0.1/8\", \"2001:db8::1\"]\ndenied = [\"ten\", 10]\n",
        ),
        &[
            "f:6:9: trust.peers: \"10.0.0.1/8\" has bits behind its prefix: write \"10.0.0.0/8\" for the \
             network, or \"10.0.0.1\" for the host",
            "f:7:10: trust.denied: \"ten\" is no network: write one such as \"10.0.0.0/8\" or \
             \"2001:db8::/32\"",
        ],
    );
}

#[test]
fn weights_are_of_networks() {
    let summary = "f: ok (listens on udp 127.0.0.1:5060; pools: app (1 x tlwl); \
                   admin on http://127.0.0.1:8060)";
    let weights = |text| good(&format!("[trust]\nweights = {{ {text} }}\n"));
    check_good(&weights("\"10.0.0.7\" = 3, \"10.0.0.0/8\" = 1000"), summary);
    check(
        &weights("ten = 1, \"10.0.0.7\" = 0, \"10.0.0.8\" = 1.5"),
        &[
            "f:6:13: trust.weights.ten: \"ten\" is no network: write one such as \"10.0.0.0/8\" or \
             \"2001:db8::/32\"",
            "f:6:35: trust.weights.10.0.0.7: 0 is out of range: write a value from 1 to 1000",
            "f:6:51: trust.weights.10.0.0.8: expected an integer, found a number with a fraction",
        ],
    );
}

#[test]
fn urgent_users_are_what_is_before_the_at() {
    let urgent = |text: &str| good(&format!("[trust]\nurgent = [ {text} ]\n"));
    let summary = "f: ok (listens on udp 127.0.0.1:5060; pools: app (1 x tlwl); \
                   admin on http://127.0.0.1:8060)";
    check_good(&urgent("\"112\", \"+49.30-110\""), summary);
    check(
        &urgent("\"112@example.com\""),
        &[
            "f:6:10: trust.urgent: \"112@example.com\" is no user of at most 32 characters: write what is before the \
           @, such as \"112\"",
        ],
    );
    check(
        &urgent(&"\"1\", ".repeat(33)),
        &["f:6:10: trust.urgent: 33 users are too many: write 32 at most"],
    );
}

#[test]
fn rules_for_strangers_are_within_range() {
    let summary = "f: ok (listens on udp 127.0.0.1:5060; pools: app (1 x tlwl); \
                   admin on http://127.0.0.1:8060)";
    check_good(
        &good(
            r#"[abuse]
rate = 1
burst = 1
failed_logins = 2
ban = "168h"
scanners = []
nftables = "inet filter banned_2"
"#,
        ),
        summary,
    );
    check(
        &good(
            r#"[limits]
strangers = 10
[abuse]
rate = 0
failed_logins = 1
ban = "1ms"
scanners = ["sipcli", ""]
nftables = "inet sipyard { drop; }"
bans = 7
"#,
        ),
        &[
            "f:6:13: limits.strangers: 10 is out of range: write a value from 1024 to 16777216",
            "f:8:8: abuse.rate: 0 is out of range: write a value from 1 to 1000000",
            "f:9:17: abuse.failed_logins: 1 is out of range: write a value from 2 to 10000",
            "f:10:7: abuse.ban: 1ms is out of range: write a value from 1s to 168h",
            "f:11:12: abuse.scanners: every request would begin with this: write a program's name",
            "f:12:12: abuse.nftables: \"inet sipyard { drop; }\" is not a family, a table and a set: \
             write \"inet sipyard banned\"",
            "f:13:1: unknown key `abuse.bans`; did you mean `ban`?",
        ],
    );
}
