//! Keys of a pool of servers, which configurations and scenarios have in common.

use std::time::Duration;

use crate::{
    Section,
    value::{Read, check_method, duration, number, show},
};

/// The transactions that cost something else than 1, unless the file says otherwise: an INVITE
/// and a BYE as the least-work policy's authors measured them.
const COSTS: [(&str, f64); 2] = [("BYE", 1.0), ("INVITE", 1.75)];

/// Reads `costs`: what a transaction of each method costs, in the order of their names.
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

/// Whether requests of this method open a transaction that can have a cost of its own.
fn check_costed(method: &str) -> Read<()> {
    check_method(method)?;
    match method {
        "ACK" | "CANCEL" => Err("belongs to its INVITE and costs nothing: leave it out".into()),
        _ => Ok(()),
    }
}

/// Reads `answer_timeout`: between T1, before which silence means nothing, and 64*T1, after which the
/// caller has given up.
pub fn answer_timeout(section: &mut Section<'_>, t1: Duration) -> Duration {
    let range = t1..=64 * t1;
    let found = section.get("answer_timeout", |value| {
        duration(range)(value)
            .map_err(|message| format!("{message} (T1 to 64*T1; timers.t1 is {})", show(t1)))
    });
    found.map_or(4 * t1, |found| found.value)
}
