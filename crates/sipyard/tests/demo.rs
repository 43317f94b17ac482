//! The demo, in brief: every call is carried, whatever the policy changes to.

use std::process::Command;

#[test]
fn no_call_fails_when_the_policy_changes() {
    let output = Command::new(env!("CARGO_BIN_EXE_sipyard"))
        .args(["demo", "--duration", "4s"])
        .output()
        .expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let summary = text.lines().find(|line| line.contains(" carried, "));
    assert!(
        summary.is_some_and(|line| line.contains(" carried, 0 failed in ")),
        "{text}"
    );
    for policy in ["tlwl", "round-robin", "hash", "cjsq"] {
        let row = text.lines().rfind(|line| line.starts_with(policy));
        let calls = row.and_then(|row| row.split_whitespace().nth(1)?.parse::<u32>().ok());
        assert!(calls.is_some_and(|calls| calls > 100), "{policy}: {text}");
    }
    assert!(output.status.success(), "{text}");
}
