//! Keys of a pool of servers, which configurations and scenarios share.

use std::time::Duration;

use crate::{
    Section,
    value::{Read, check_method, duration, number, show},
};

/// The default costs of transactions; all others cost 1. The authors of the least-work policy
/// measured these costs of an INVITE and a BYE.
const COSTS: [(&str, f64); 2] = [("BYE", 1.0), ("INVITE", 1.75)];

/// Reads `costs`: the cost of a transaction of each method, in the order of their names.
pub fn costs(section: &mut Section<'_>) -> Vec<(String, f64)> {
    let mut costs: Vec<(String, f64)> = COSTS
        .iter()
        .map(|(method, cost)| ((*method).to_owned(), *cost))
        .collect();
    if section.is_text("costs", "learn") {
        return costs;
    }
    let Some(given) = section.given_table("costs") else {
        return costs;
    };
    for (method, value) in given.entries() {
        if let Err(message) = check_costed(method.get_ref()) {
            given.problem_of(method.get_ref(), method.span().start, &message);
            continue;
        }
        match number(0.0..=1_000.0)(value.get_ref()) {
            Ok(cost) => {
                costs.retain(|(known, _)| known != method.get_ref());
                costs.push((method.get_ref().to_string(), cost));
            }
            Err(message) => given.problem_of(method.get_ref(), value.span().start, &message),
        }
    }
    costs.sort_by(|(left, _), (right, _)| left.cmp(right));
    costs
}

/// Whether a request of this method opens a transaction with a cost of its own.
fn check_costed(method: &str) -> Read<()> {
    check_method(method)?;
    match method {
        "ACK" | "CANCEL" => Err("belongs to its INVITE and costs nothing: remove it".into()),
        _ => Ok(()),
    }
}

/// Reads `answer_timeout`. It is at least T1, because a shorter silence means nothing, and at most
/// 64*T1, because the caller then gives up.
pub fn answer_timeout(section: &mut Section<'_>, t1: Duration) -> Duration {
    let range = t1..=64 * t1;
    let found = section.get("answer_timeout", |value| {
        duration(range)(value)
            .map_err(|message| format!("{message} (T1 to 64*T1; timers.t1 is {})", show(t1)))
    });
    found.map_or(4 * t1, |found| found.value)
}
