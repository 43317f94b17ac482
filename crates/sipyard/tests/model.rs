//! `sipyard model from-pcap` on captures that the test writes.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[path = "../../capture/tests/common/mod.rs"]
mod captures;

use std::{fs, net::SocketAddr, path::Path, process::Command};

use captures::{Dialog, Row, message, ms};
use serde_json::Value;

/// Twelve calls, one a second, from a driver to a server, captured at both; a packet takes 0.05 ms, the server's work 2 ms.
fn write_captures(folder: &Path) {
    let [driver, server] = [1, 2].map(|host| SocketAddr::from(([192, 0, 2, host], 5060)));
    let mut row = Row::new(&[ms(0.05)]);
    for call in 0..12 {
        let (call_id, start) = (format!("{call}@driver"), ms(1e3 * f64::from(call)));
        let dialog = Dialog {
            call_id: &call_id,
            from_tag: "a",
        };
        let mut send = |time, is_up, text| {
            let (ends, nodes) = if is_up {
                ((driver, server), (0, 1))
            } else {
                ((server, driver), (1, 0))
            };
            let cseq = if call % 2 == 0 {
                "1 INVITE"
            } else {
                "9 INVITE"
            };
            row.send(time, ends, nodes, &message(text, dialog, cseq, "b"))
        };
        let arrival = send(start, true, "INVITE");
        send(arrival + ms(1.0), false, "180 Ringing");
        send(arrival + ms(2.0), false, "486 Busy Here");
    }
    for (file, name) in row.files().iter().zip(["driver.pcap", "server.pcap"]) {
        fs::write(folder.join(name), &file.bytes).unwrap();
    }
}

/// Exit code, standard output, standard error.
fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_sipyard"))
        .args(["model", "from-pcap"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let [printed, problems] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code(), printed, problems)
}

#[test]
fn captures_become_tables_a_page_and_a_model() {
    let folder = tempfile::tempdir().unwrap();
    write_captures(folder.path());
    let arguments = [
        "driver.pcap",
        "server.pcap",
        "--out",
        "m.lqn",
        "--html",
        "m.html",
        "--network-utilisation",
        "0.4",
    ];
    let (code, printed, problems) = run(folder.path(), &arguments);
    let written = "wrote m.lqn\nwrote m.html\n";
    assert_eq!((code, problems.as_str()), (Some(0), written), "{printed}");
    for text in [
        "1 INVITE",
        "server.pcap",
        "   12  seen",
        "   12  used",
        "2.0000",
        "0.0500",
        "The model is in m.lqn.",
    ] {
        assert!(printed.contains(text), "{text} is not in\n{printed}");
    }
    let model = fs::read_to_string(folder.path().join("m.lqn")).unwrap();
    assert!(
        model.contains(" s net_driver_server 0.05 0.075 -1"),
        "{model}"
    );
    assert!(
        fs::read_to_string(folder.path().join("m.html"))
            .unwrap()
            .contains("<table>")
    );
}

#[test]
fn programs_get_json_and_others_get_xml() {
    let folder = tempfile::tempdir().unwrap();
    write_captures(folder.path());
    let (code, printed, _) = run(
        folder.path(),
        &[
            "server.pcap",
            "--json",
            "--out",
            "m.lqnx",
            "--processor-ms",
            "server=0.5",
        ],
    );
    assert_eq!(code, Some(0));
    let answer: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(answer["flows"][0]["calls"], 12);
    assert_eq!(answer["flows"][0]["outcome"], 486);
    assert_eq!(
        answer["calls"],
        serde_json::json!({ "seen": 12, "used": 12, "unused": [] })
    );
    assert_eq!(answer["demands"][0]["station"], "Pserver");
    assert_eq!(answer["demands"][0]["demand_ms"], 0.5);
    assert!(
        fs::read_to_string(folder.path().join("m.lqnx"))
            .unwrap()
            .contains("<lqn-model")
    );
}

#[test]
fn what_gives_no_model_is_refused_with_reasons() {
    let folder = tempfile::tempdir().unwrap();
    write_captures(folder.path());
    fs::write(folder.path().join("text.pcap"), "no capture").unwrap();
    let cases: [(&[&str], &[&str]); 5] = [
        (
            &["none.pcap", "text.pcap"],
            &[
                "none.pcap: No such file",
                "text.pcap: the file is neither pcap nor pcapng",
            ],
        ),
        (
            &["driver.pcap", "--out", "m.xml"],
            &["m.xml: the file's name must end in .lqn"],
        ),
        (
            &["driver.pcap", "--flow", "7"],
            &["the capture has 1 flows"],
        ),
        (
            &["driver.pcap", "--network-utilisation", "1.5"],
            &["write a share of time above 0 and at most 1"],
        ),
        (
            &["driver.pcap", "--role", "proxy=192.0.2.1"],
            &["`proxy` is not a role"],
        ),
    ];
    for (arguments, expected) in cases {
        let (code, printed, problems) = run(folder.path(), arguments);
        assert_eq!((code, printed.as_str()), (Some(2), ""), "{problems}");
        for text in expected {
            assert!(problems.contains(text), "{text} is not in\n{problems}");
        }
    }
}
