//! Both sides lose messages: nothing stays open for it.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    common::Edge,
    edge::{self, Counts},
    process::whole_machine,
    sipp::{Caller, DEFAULT_CALLER, Server, addresses, scenario},
};

/// 64*T1, and the second in which a node's timers may be late.
const SILENCE: Duration = Duration::from_secs(33);

/// SIPp takes some answers for others when it loses messages, and leaves a few calls without a
/// word to the other side. What such a side goes on sending ends as well, and then nothing is left.
/// The servers don't ring: SIPp's own one gives up on some INVITEs that it let ring, and a proxy
/// must hold those for Timer C, three minutes more.
#[test]
fn nothing_is_left_of_lossy_calls() {
    let alone = whole_machine();
    let [file, prompt] = scenario("prompt_server");
    let servers = Server::start_many(4, &[&file, &prompt, "-lost", "3"]);
    let edge = edge::start("probe = false", &addresses(&servers));
    let load = [
        "-r",
        "300",
        "-m",
        "3000",
        "-lost",
        "3",
        "-max_non_invite_retrans",
        "5",
    ];
    let mut caller = Caller::start(edge.sip(), DEFAULT_CALLER, &load);
    let outcome = caller.outcome(Duration::from_secs(90));
    drop(alone);
    assert!(outcome.successful >= 2_900, "{outcome:?}");
    drop(servers);
    let counts = counts_after_silence(&edge);
    assert!(counts.are_zero(), "{counts}");
    assert!(counts.event("retransmission") > 0, "{counts}");
}

/// The counts when no message has come for long enough.
fn counts_after_silence(edge: &Edge) -> Counts {
    let mut heard = (0, Instant::now());
    loop {
        let counts = Counts::of(edge);
        let received = counts.event("received");
        if received != heard.0 {
            heard = (received, Instant::now());
        } else if heard.1.elapsed() >= SILENCE {
            return counts;
        }
        thread::sleep(Duration::from_millis(200));
    }
}
