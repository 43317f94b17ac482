//! Reads the servers.

use std::time::Duration;

use load::{Discipline, Law, ServerConfig, Service, Stall};
use settings::{
    Section,
    value::{boolean, integer, name, number, word},
};
use sim::{Noise, ServerSetup, server_address};

use super::{
    super::scenario::ServersSetup,
    values::{law, numbers, one_or_more, time},
};

const KINDS: [(&str, Kind); 3] = [
    ("constant", Kind::Constant),
    ("exponential", Kind::Exponential),
    ("log-normal", Kind::LogNormal),
];
const DISCIPLINES: [(&str, Discipline); 2] = [
    ("fifo", Discipline::Fifo),
    ("processor-sharing", Discipline::ProcessorSharing),
];

/// Reads `[[servers]]`. Each is a farm of its own; one with several counts makes as many farms.
pub(super) fn all(root: &mut Section<'_>) -> Vec<ServersSetup> {
    let mut farms: Vec<ServersSetup> = Vec::new();
    for section in root.tables("servers") {
        let at = section.at();
        for farm in farm(section) {
            if farms.iter().any(|other| other.name == farm.name) {
                let message = format!(
                    "two farms have the name \"{}\": give each a name of its own",
                    farm.name
                );
                root.problem_of("servers", at, &message);
            }
            farms.push(farm);
        }
    }
    if !root.has("servers") {
        root.problem(
            "there are no servers: add [[servers]] with count = 8 and service = { INVITE = \
             \"1.45ms\", BYE = \"0.83ms\" }",
        );
    }
    farms
}

fn farm(mut section: Section<'_>) -> Vec<ServersSetup> {
    let called = section.get("name", name);
    let counts = section.get_or("count", vec![1], one_or_more(integer(1..=1_000)));
    let spare = section.get_or("spare", 0, integer(0..=100));
    let speeds = section.get_or("speed", vec![1.0], numbers(0.01..=100.0));
    let capacities = section.get_or("capacity", vec![1.0], numbers(balance::CAPACITY));
    let noise = section.given_table("noise").and_then(noise);
    let (config, stalls) = config(&mut section);
    section.finish();
    let server = |number: usize, count: usize| ServerSetup {
        config: ServerConfig {
            stall: stalls.get(number % stalls.len().max(1)).copied(),
            ..config
        },
        speed: speeds[number % speeds.len()],
        capacity: capacities[number % capacities.len()],
        is_spare: number >= count,
    };
    let farm = |&count: &usize| ServersSetup {
        name: match &called {
            Some(name) if counts.len() == 1 => name.value.to_owned(),
            Some(name) => format!("{count} {}", name.value),
            None => count.to_string(),
        },
        servers: (0..count + spare)
            .map(|number| server(number, count))
            .collect(),
        noise,
    };
    counts.iter().map(farm).collect()
}

fn noise(mut section: Section<'_>) -> Option<Noise> {
    let by = section.require(
        "by",
        "write the share of the speed, such as 0.5",
        number(0.0..=0.99),
    );
    let every = section.require("every", "write how often, such as \"5s\"", time);
    section.finish();
    Some(Noise {
        by: by?.value,
        every: every?.value,
    })
}

/// The common properties of a farm's servers, and their stalls. Each server gets the next stall.
fn config(section: &mut Section<'_>) -> (ServerConfig, Vec<Stall>) {
    let prompt = ServerConfig::prompt(server_address(0));
    let config = ServerConfig {
        service: service(section.table("service")),
        repeated: section.get_or("repeated", prompt.repeated, law),
        discipline: section.get_or("discipline", prompt.discipline, word("word", &DISCIPLINES)),
        trying: section.get_or("trying", prompt.trying, boolean),
        ringing: section.get_or("ringing", prompt.ringing, law),
        ..prompt
    };
    let stalls = section.given_table("stall").map(stalls);
    (config, stalls.unwrap_or_default())
}

/// Reads times by method. `law` makes all of them random.
fn service(mut section: Section<'_>) -> Service {
    let kind = section.get_or("law", Kind::Constant, word("word", &KINDS));
    let variation = section.get_or("variation", 1.0, number(0.0..=100.0));
    let random = |time: Duration| match kind {
        Kind::Constant => Law::Constant(time),
        Kind::Exponential => Law::Exponential(time),
        Kind::LogNormal => Law::LogNormal {
            mean: time,
            deviation: time.mul_f64(variation),
        },
    };
    let service = Service {
        invite: random(section.get_or("INVITE", Duration::ZERO, time)),
        bye: random(section.get_or("BYE", Duration::ZERO, time)),
        other: random(section.get_or("other", Duration::ZERO, time)),
    };
    section.finish();
    service
}

#[derive(Clone, Copy)]
enum Kind {
    Constant,
    Exponential,
    LogNormal,
}

/// The first stall of each server comes at a random time: see [`sim::Cluster`].
fn stalls(mut section: Section<'_>) -> Vec<Stall> {
    let calls = section.get("calls", integer(1..=1_000_000_000));
    let every = section.get("every", one_or_more(time));
    let advice = "write how long a stall lasts, such as \"1s\"";
    let lasting = section.require("lasting", advice, one_or_more(time));
    if calls.is_some() == every.is_some() {
        section.problem("the frequency is unclear: write either calls = 950 or every = \"5s\"");
    }
    let lasting = lasting.map(|lasting| lasting.value).unwrap_or_default();
    let every = every.map(|every| every.value).unwrap_or_default();
    let stalls = match calls {
        Some(calls) => lasting
            .into_iter()
            .map(|lasting| Stall::Calls {
                first: 1,
                every: calls.value as u64,
                lasting,
            })
            .collect(),
        // After so many servers both lists begin anew together.
        None => (0..every.len() * lasting.len())
            .map(|number| Stall::Periodic {
                first: Duration::ZERO,
                every: every[number % every.len()],
                lasting: lasting[number % lasting.len()],
            })
            .collect(),
    };
    section.finish();
    stalls
}
