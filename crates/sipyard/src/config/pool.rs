//! Pools of servers.

use balance::Policy;
use node::config::{Listener, Pool, Probe, Timers};
use settings::{
    Read, Section, Value, hint,
    pool::{answer_timeout, costs},
    value::{METHODS, boolean, duration, expected, integer, text},
};

use super::{
    sections::{minutes, ms},
    servers::{Source, fixed, sources},
};

/// A server's number has 16 bits.
const SERVERS_MAX: usize = 65_535;

/// A pool, and the origins of its servers. It contains the servers that are configured by address.
#[derive(Debug)]
pub(crate) struct Sourced {
    pub(crate) pool: Pool,
    pub(crate) sources: Vec<Source>,
}

/// Reads all `[pool.NAME]`, including those that have problems.
pub(crate) fn pools(
    root: &mut Section<'_>,
    timers: &Timers,
    listeners: &[Listener],
) -> Vec<Sourced> {
    let has_cluster = root.has("cluster");
    let sections = root.named_tables("pool");
    if sections.is_empty() && !root.has("registrar") {
        root.problem("there is no pool: add [pool.NAME] with the servers that take the calls");
    }
    let mut pools = Vec::new();
    for (name, mut section) in sections {
        if name.is_empty() {
            section.problem("the pool has an empty name: choose one");
        }
        if name == "registrar" {
            section.problem("this name stands for the built-in registrar: choose another");
        }
        let sources = sources(&mut section, listeners, has_cluster);
        pools.push(pool(name, section, timers, sources));
    }
    if pools
        .iter()
        .map(|sourced| sourced.sources.len())
        .sum::<usize>()
        > SERVERS_MAX
    {
        root.problem(&format!(
            "the pools have more than {SERVERS_MAX} servers: remove some"
        ));
    }
    pools
}

fn pool(name: String, mut section: Section<'_>, timers: &Timers, sources: Vec<Source>) -> Sourced {
    let pool = Pool {
        name,
        policy: section.get_or("policy", Policy::Tlwl, policy),
        learn_costs: section.is_text("costs", "learn"),
        costs: costs(&mut section),
        servers: sources.iter().filter_map(fixed).collect(),
        probe: probe(&mut section),
        slow_start: section.get_or("slow_start", ms(10_000), duration(ms(0)..=minutes(60))),
        answer_timeout: answer_timeout(&mut section, timers.t1),
        overload_control: section.get_or("overload_control", false, boolean),
        learn_room: section.get_or("learn_room", true, boolean),
    };
    check_clusters(&section, pool.policy, &sources);
    section.finish();
    Sourced { pool, sources }
}

/// Clusters need a policy that places a user's calls where the user's bindings are; the others
/// don't.
fn check_clusters(section: &Section<'_>, policy: Policy, sources: &[Source]) {
    let hashes_users = matches!(policy, Policy::UserHash | Policy::BoundedHash);
    if !hashes_users && sources.iter().any(|source| source.cluster.is_some()) {
        section.problem("pools with clusters need policy = \"user-hash\" or \"bounded-hash\"");
    }
}

fn policy(value: &Value<'_>) -> Read<Policy> {
    let name = value
        .as_str()
        .ok_or_else(|| expected("a policy in quotes, such as \"tlwl\"", value))?;
    match name.parse() {
        Ok(Policy::Oracle) => Err(
            "\"oracle\" compares the work that servers have left, which only simulated servers \
             report: choose another policy, such as \"tlwl\""
                .into(),
        ),
        Ok(policy) => Ok(policy),
        Err(_) => {
            let live = Policy::ALL.iter().filter(|p| **p != Policy::Oracle);
            let names: Vec<&str> = live.map(|policy| policy.name()).collect();
            Err(format!("unknown policy \"{name}\"; {}", hint(name, &names)))
        }
    }
}

/// Probing is on unless `probe = false`.
fn probe(section: &mut Section<'_>) -> Option<Probe> {
    if section.is_false("probe") {
        return None;
    }
    let mut table = section.table("probe");
    table.get("method", probe_method);
    let interval = table.get_or("interval", ms(2_000), duration(ms(100)..=minutes(60)));
    let timeout = table.get("timeout", duration(ms(10)..=interval));
    let fall = table.get_or("fall", 2, integer(1..=100));
    let rise = table.get_or("rise", 2, integer(1..=100));
    table.finish();
    Some(Probe {
        interval,
        timeout: timeout.map_or_else(|| ms(1_000).min(interval), |found| found.value),
        fall: fall as u32,
        rise: rise as u32,
    })
}

fn probe_method(value: &Value<'_>) -> Read<()> {
    match text(value)? {
        "OPTIONS" => Ok(()),
        other if METHODS.contains(&other) => {
            Err(format!("\"{other}\" is not supported: write \"OPTIONS\""))
        }
        other => Err(format!(
            "unknown method \"{other}\"; did you mean `OPTIONS`?"
        )),
    }
}
