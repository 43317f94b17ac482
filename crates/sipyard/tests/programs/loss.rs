//! Both sides lose messages: nothing stays open for it.

use std::{net::Ipv4Addr, time::Duration};

use crate::{
    common::free_address,
    edge::{self, Counts},
    process::whole_machine,
    sipp::{Caller, DEFAULT_CALLER, Server, addresses, scenario},
};

/// A call may be silent for a minute before the edge asks whether it lives.
const POOL: &str = r#"probe = false
[timers]
call_max = "1m""#;

/// That minute, then 64*T1 in which a server that is gone leaves four re-checks unanswered.
const FORGOTTEN: Duration = Duration::from_secs(60 + 32 + 10);

/// SIPp takes some answers for others when it loses messages, and leaves a few calls without a
/// word to the other side. What such a side goes on sending ends as well; a call whose only BYE was
/// lost stays until it is asked after. Then nothing is left.
/// The servers don't ring: SIPp's own one gives up on some INVITEs that it let ring, and a proxy
/// must hold those for Timer C, three minutes more.
/// The servers have hosts of their own: no other test's server gets the port of one that is gone, and answers for its calls.
#[test]
fn nothing_is_left_of_lossy_calls() {
    let alone = whole_machine();
    let [file, prompt] = scenario("prompt_server");
    let servers: Vec<_> = (1..=4)
        .map(|host| {
            let address = (Ipv4Addr::new(127, 61, 0, host), free_address().port()).into();
            Server::start_at(address, &[&file, &prompt, "-lost", "3"])
        })
        .collect();
    let edge = edge::start(POOL, &addresses(&servers));
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
    edge::wait_until_idle(&edge, FORGOTTEN);
    assert!(Counts::of(&edge).event("retransmission") > 0);
}
