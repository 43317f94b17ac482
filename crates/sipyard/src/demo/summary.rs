//! The summary that the demo prints at its end.

use report::figures::{count, ms_or_dash, percent};

use super::scene::{PolicyScene, Scene, ServerScene};

/// Calls carried and failed, by server and by policy.
pub(super) fn summary(scene: &Scene) -> String {
    let (offered, carried, failed) = scene.totals();
    let mut text = format!(
        "{} calls: {} carried, {} failed",
        count(offered),
        count(carried),
        count(failed)
    );
    if scene.open > 0 {
        text += &format!(", {} cut off at the end", count(scene.open as u64));
    }
    text += &format!(" in {:.1} s\n", scene.elapsed.as_secs_f64());
    for (failure, &calls) in &scene.failures {
        text += &format!("  {}: {failure}\n", count(calls));
    }
    text += "\nServer              calls    share   failed   stalls\n";
    let taken = scene.servers.iter().map(|server| server.taken).sum();
    for server in &scene.servers {
        text += &server_line(server, taken);
    }
    text += "\nMilliseconds from INVITE to first response, for the calls started under \
        each policy\n";
    text += "Policy              calls   failed   stalls     mean      p50      p99      max\n";
    for policy in scene.policies.iter().filter(|policy| policy.offered > 0) {
        text += &policy_line(policy);
    }
    text
}

fn server_line(server: &ServerScene, taken: u64) -> String {
    format!(
        "{:<16} {:>8} {:>8} {:>8} {:>8}\n",
        server.address.to_string(),
        count(server.taken),
        percent(server.taken, taken),
        count(server.failed),
        server.stalls
    )
}

fn policy_line(policy: &PolicyScene) -> String {
    let time = |pick: fn(&super::scene::ResponseTimes) -> _| {
        ms_or_dash(policy.response.as_ref().map(pick))
    };
    format!(
        "{:<16} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n",
        policy.name,
        count(policy.offered),
        count(policy.failed),
        policy.stalls,
        time(|t| t.mean),
        time(|t| t.p50),
        time(|t| t.p99),
        time(|t| t.max)
    )
}
