//! Recorded calls, as an operator sees them.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{fs, net::SocketAddr};

use common::{Edge, Settings, eventually, phones::Phone, phones::reply};

fn edge(servers: &[SocketAddr], more: &str) -> Edge {
    let settings = Settings::new();
    let servers = servers
        .iter()
        .map(|server| format!("{{ address = \"{server}\" }}"));
    let servers: Vec<String> = servers.collect();
    let pool = format!("servers = [{}]\nprobe = false", servers.join(", "));
    settings.write(&pool, more);
    settings.start()
}

/// Waits until `ctl calls` shows a word; the whole list.
fn listed(edge: &Edge, arguments: &[&str], word: &str) -> String {
    let mut text = String::new();
    eventually(word, || {
        let all = [&["calls"], arguments].concat();
        text = edge.ctl(&all).1;
        text.contains(word)
    });
    text
}

/// The list of calls as soon as it has a word, after this was done time and again.
fn listed_after(edge: &Edge, word: &str, mut act: impl FnMut()) -> String {
    let mut text = String::new();
    eventually(word, || {
        act();
        text = edge.ctl(&["calls"]).1;
        text.contains(word)
    });
    text
}

#[test]
fn a_call_is_found_and_shown_with_why_it_went_where_it_went() {
    let (caller, server) = (Phone::new(), Phone::new());
    let edge = edge(&[server.address()], "");
    caller.call(edge.sip(), &server, "found-me", "alice");
    let list = listed(&edge, &["alice", "--state", "done"], "found-me");
    assert!(
        list.contains("done") && list.contains(&server.address().to_string()),
        "{list}"
    );
    let (code, shown, _) = edge.ctl(&["call", "found-me"]);
    assert_eq!(code, Some(0));
    for words in [
        "INVITE",
        "180 Ringing",
        "tlwl chose 127.0.0.1",
        "work 0.00",
        "CSeq: 1 INVITE",
    ] {
        assert!(shown.contains(words), "{words} in {shown}");
    }
    let (_, ladder, _) = edge.ctl(&["call", "found-me", "--ladder"]);
    assert!(
        !ladder.contains("CSeq") && ladder.contains("BYE"),
        "{ladder}"
    );
    let file = edge.folder().join("call.pcapng");
    let path = file.to_str().unwrap();
    assert_eq!(edge.ctl(&["call", "found-me", "--pcapng", path]).0, Some(0));
    assert_eq!(fs::read(&file).unwrap()[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    let (code, _, problem) = edge.ctl(&["call", "nobody"]);
    assert_eq!(code, Some(2));
    assert!(
        problem.contains("no call with Call-ID nobody is recorded"),
        "{problem}"
    );
}

#[test]
fn refused_calls_come_first() {
    let (caller, server) = (Phone::new(), Phone::new());
    let edge = edge(&[server.address()], "");
    caller.send(edge.sip(), &caller.request("INVITE", "busy-one", "bob", ""));
    let invite = server.expect("INVITE");
    server.send(edge.sip(), &reply(&invite, "486 Busy Here"));
    caller.expect("SIP/2.0 486");
    caller.call(edge.sip(), &server, "good-one", "alice");
    let list = listed(&edge, &[], "good-one");
    let at = |word| list.find(word).unwrap();
    assert!(at("busy-one") < at("good-one"), "{list}");
    assert!(list.contains("refused  486"), "{list}");
    assert!(list.contains("2 of 2 calls"), "{list}");
}

#[test]
fn a_trace_shows_each_message_as_it_passes() {
    let (caller, server) = (Phone::new(), Phone::new());
    let edge = edge(&[server.address()], "");
    caller.call(edge.sip(), &server, "traced", "alice");
    caller.call(edge.sip(), &server, "other", "bob");
    let (code, trace, _) = edge.ctl(&["trace", "alice", "--seconds", "1"]);
    assert_eq!(code, Some(0));
    assert!(
        trace.contains(&format!("<- {} INVITE", caller.address())),
        "{trace}"
    );
    assert!(
        trace.contains(&format!("-> {} 200 OK", caller.address())),
        "{trace}"
    );
    assert!(!trace.contains("other"), "{trace}");
}

/// With more calls than its memory holds for long, the node forgot each after a fraction of a second, and was busy with copies.
#[test]
fn of_many_calls_some_are_recorded_whole() {
    let (caller, server) = (Phone::new(), Phone::new());
    let edge = edge(&[server.address()], "calls = { memory_mib = 4 }");
    let mut calls = 0;
    let list = listed_after(&edge, "One call in", || {
        for _ in 0..50 {
            calls += 1;
            caller.call(edge.sip(), &server, &format!("call-{calls}"), "alice");
        }
    });
    assert!(list.contains("done") && !list.contains("lost"), "{list}");
    let list = listed(&edge, &["alice"], "alice");
    assert!(list.contains("done"), "{list}");
    eventually("all are recorded, as somebody looks for some", || {
        calls += 1;
        let call = format!("call-{calls}");
        caller.call(edge.sip(), &server, &call, "alice");
        let list = listed(&edge, &["alice"], "kept");
        list.contains(&call) && !list.contains("One call in")
    });
}

/// Messages tell who calls whom, so not every user of the machine may read them.
#[test]
fn calls_need_a_token_on_loopback_too() {
    let edge = edge(&["127.0.0.1:9".parse().unwrap()], "");
    for path in ["/api/v1/calls", "/api/v1/call?call_id=a"] {
        assert_eq!(edge.ask("GET", path).0, 401, "{path}");
    }
    assert_eq!(edge.ask_as_operator("GET", "/api/v1/calls").0, 200);
    let (status, problem) = edge.ask_as_operator("GET", "/api/v1/calls?state=gone");
    assert_eq!(status, 422);
    assert!(problem.contains("lost,refused,ringing"), "{problem}");
}

#[test]
fn a_reload_turns_recording_off_and_on() {
    let (caller, server) = (Phone::new(), Phone::new());
    let edge = edge(&[server.address()], "calls = { hide = [\"users\"] }");
    caller.call(edge.sip(), &server, "masked", "alice");
    let list = listed(&edge, &[], "masked");
    assert!(!list.contains("alice"), "{list}");
    let text = fs::read_to_string(edge.settings.path()).unwrap();
    let off = text.replace("hide = [\"users\"]", "record = false");
    edge.settings.write_whole(&off);
    assert_eq!(edge.ctl(&["reload"]).0, Some(0));
    assert!(edge.ctl(&["calls"]).1.contains("calls.record is false"));
    caller.call(edge.sip(), &server, "unseen", "alice");
    edge.settings.write_whole(&text);
    assert_eq!(edge.ctl(&["reload"]).0, Some(0));
    eventually("a call is recorded again", || {
        caller.call(edge.sip(), &server, "seen", "alice");
        edge.ctl(&["calls"]).1.contains("seen")
    });
    assert!(!edge.ctl(&["calls"]).1.contains("unseen"));
}

/// A reload with `hide` went on writing users into call records, and records that it turned on lacked their journal
/// without a word.
#[test]
fn a_reload_hides_users_in_records_and_tells_what_they_lack() {
    let (caller, server) = (Phone::new(), Phone::new());
    let edge = edge(&[server.address()], "");
    let text = fs::read_to_string(edge.settings.path()).unwrap();
    let file = edge.settings.path().with_file_name("calls.jsonl");
    let reload = |more: &str| {
        let calls = format!("[calls]\nrecords = {{ file = \"calls.jsonl\" }}\n{more}");
        edge.settings.write_whole(&format!("{text}\n{calls}"));
        assert_eq!(edge.ctl(&["reload"]).0, Some(0));
    };
    let record = |call: &str| {
        caller.call(edge.sip(), &server, call, "alice");
        let mut line = None;
        eventually("the call has its record", || {
            let text = fs::read_to_string(&file).unwrap_or_default();
            line = text.lines().find(|it| it.contains(call)).map(str::to_owned);
            line.is_some()
        });
        line.unwrap()
    };
    reload("");
    edge.wait_for_log("call records have no journal");
    let shown = record("shown");
    assert!(shown.contains("alice"), "{shown}");
    reload("hide = [\"users\"]");
    let hidden = record("hidden");
    assert!(!hidden.contains("alice"), "{hidden}");
}
