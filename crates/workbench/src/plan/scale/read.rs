//! Reads a design from its file.

use std::{ops::RangeInclusive, path::Path, time::Duration};

use settings::{
    Problem, Section,
    value::{duration, name, number},
};

use super::design::{
    Aims, Connection, Costs, Demand, Design, Machine, Site, Source, Store, Transport,
};

const SHARE: RangeInclusive<f64> = 0.0..=1.0;
const COUNT: RangeInclusive<f64> = 1.0..=1e12;
const COST: RangeInclusive<f64> = 0.0..=1e9;
const CORES: RangeInclusive<f64> = 1.0..=1_024.0;
const MEMORY_GIB: RangeInclusive<f64> = 1.0..=65_536.0;
const SPARE: RangeInclusive<f64> = 0.0..=1_000.0;
const SITES_MAX: usize = 100;
const DAY: Duration = Duration::from_secs(86_400);
const SECOND: Duration = Duration::from_secs(1);

/// Reads and checks the file at `path`.
///
/// # Errors
/// Every problem, in the order of the file.
pub(super) fn load(path: &Path) -> Result<Design, Vec<Problem>> {
    settings::load(path, design)
}

fn design(mut root: Section<'_>) -> Option<Design> {
    let title = root.get_or("title", String::new(), |value| {
        name(value).map(str::to_owned)
    });
    let demand = demand(root.table("demand"));
    let transports = root.named_tables("transport");
    let transports_at = start(&root, &transports);
    let transports: Vec<_> = transports.into_iter().filter_map(transport).collect();
    let sites = root.named_tables("site");
    let sites_at = start(&root, &sites);
    let sites: Vec<_> = sites.into_iter().filter_map(site).collect();
    if sites.len() < 2 || sites.len() > SITES_MAX {
        let advice = format!(
            "there must be 2 to {SITES_MAX} sites: write [site.NAME] with share = 0.5 for each"
        );
        root.problem_of("site", sites_at, &advice);
    }
    let shares = transports.iter().map(|it| it.share);
    whole(&root, "transport", transports_at, shares);
    whole(&root, "site", sites_at, sites.iter().map(|it| it.share));
    let edge = machine(root.table("edge"), true);
    let registrar = machine(root.table("registrar"), false);
    let store = store(root.table("store"));
    let aims = aims(root.table("aims"));
    let costs = costs(root.table("cost"));
    root.finish();
    let (costs, sources) = costs?;
    Some(Design {
        title,
        demand: demand?,
        transports,
        sites,
        edge: edge?,
        registrar: registrar?,
        store: store?,
        aims: aims?,
        costs,
        sources,
    })
}

/// Where the first of these tables is in the file.
fn start(root: &Section<'_>, tables: &[(String, Section<'_>)]) -> usize {
    let first = tables.first();
    first.map_or_else(|| root.at(), |(_, table)| table.at())
}

fn whole(root: &Section<'_>, what: &str, at: usize, shares: impl Iterator<Item = f64>) {
    let sum: f64 = shares.sum();
    if (sum - 1.0).abs() > 1e-6 {
        let message =
            format!("the shares of all [{what}.NAME] add up to {sum}: they must add up to 1");
        root.problem_of(what, at, &message);
    }
}

fn demand(mut section: Section<'_>) -> Option<Demand> {
    let users = section.require("users", "write how many are registered", number(COUNT));
    let calls = section.require("calls_per_s", "write those of the busy hour", number(COUNT));
    let holding = seconds(&mut section, "holding");
    let between_sites = share(&mut section, "between_sites");
    let away = share(&mut section, "away");
    let challenged = share(&mut section, "challenged");
    section.finish();
    Some(Demand {
        users: users?.value,
        calls_per_s: calls?.value,
        holding_s: holding?,
        between_sites: between_sites?,
        away: away?,
        challenged: challenged?,
    })
}

fn transport((name, mut section): (String, Section<'_>)) -> Option<Transport> {
    let share = share(&mut section, "share");
    let register_every = seconds(&mut section, "register_every");
    let keep_alive_every = seconds(&mut section, "keep_alive_every");
    let keep_alive_us = cost(&mut section, "keep_alive_us");
    let keep_alive_bytes = cost(&mut section, "keep_alive_bytes");
    let connection = section.given_table("connection").map(connection);
    section.finish();
    let connection = match connection {
        Some(connection) => Some(connection?),
        None => None,
    };
    Some(Transport {
        name,
        share: share?,
        register_every_s: register_every?,
        keep_alive_every_s: keep_alive_every?,
        keep_alive_us: keep_alive_us?,
        keep_alive_bytes: keep_alive_bytes?,
        connection,
    })
}

fn connection(mut section: Section<'_>) -> Option<Connection> {
    let bytes = cost(&mut section, "bytes");
    let handshake_us = cost(&mut section, "handshake_us");
    section.finish();
    Some(Connection {
        bytes: bytes?,
        handshake_us: handshake_us?,
    })
}

fn site((name, mut section): (String, Section<'_>)) -> Option<Site> {
    let share = share(&mut section, "share");
    section.finish();
    Some(Site {
        name,
        share: share?,
    })
}

fn machine(mut section: Section<'_>, is_edge: bool) -> Option<Machine> {
    let cores = section.require("cores", "write those of a node", number(CORES));
    let memory = section.require("memory_gib", "write that of a node", number(MEMORY_GIB));
    let spare = section.get_or("spare", 1.0, number(SPARE));
    let connections = if is_edge {
        section.require(
            "connections",
            "write how many phones a node may hold",
            number(COUNT),
        )
    } else {
        None
    };
    section.finish();
    Some(Machine {
        cores: cores?.value,
        memory_gib: memory?.value,
        connections_max: match is_edge {
            true => connections?.value,
            false => 0.0,
        },
        spare,
    })
}

fn store(mut section: Section<'_>) -> Option<Store> {
    let memory = section.require("memory_gib", "write that of a shard", number(MEMORY_GIB));
    let replicas = section.get_or("replicas", 1.0, number(0.0..=10.0));
    section.finish();
    Some(Store {
        memory_gib: memory?.value,
        replicas,
    })
}

fn aims(mut section: Section<'_>) -> Option<Aims> {
    let busy = section.require("busy", "write a share, such as 0.5", number(0.01..=1.0));
    let return_within = seconds(&mut section, "return_within");
    let round_trip = section.require(
        "round_trip",
        "write that between phones and edges",
        duration(Duration::from_millis(1)..=SECOND),
    );
    let store_round_trip = section.require(
        "store_round_trip",
        "write that between nodes and stores",
        duration(Duration::from_millis(1)..=SECOND),
    );
    let link = section.require("link_gbit", "write that of a site", number(0.001..=1e6));
    section.finish();
    Some(Aims {
        busy_max: busy?.value,
        return_within_s: return_within?,
        round_trip_s: round_trip?.value.as_secs_f64(),
        store_round_trip_s: store_round_trip?.value.as_secs_f64(),
        link_gbit_per_s: link?.value,
    })
}

/// Reads all costs; each says where it comes from.
fn costs(mut section: Section<'_>) -> Option<(Costs, Vec<Source>)> {
    let mut costs = Costs::default();
    let mut sources = Vec::new();
    let mut is_whole = true;
    for (key, into) in costs.named() {
        let Some(mut found) = section.given_table(key) else {
            section.problem(&format!(
                "cost.{key} is missing: write {key} = {{ value = 1.0, from = \"where it was measured\" }}"
            ));
            is_whole = false;
            continue;
        };
        let value = cost(&mut found, "value");
        let advice = "write where it was measured";
        let from = found.require("from", advice, |value| name(value).map(str::to_owned));
        found.finish();
        let (Some(value), Some(from)) = (value, from) else {
            is_whole = false;
            continue;
        };
        *into = value;
        sources.push(Source {
            cost: key.to_owned(),
            value,
            from: from.value,
        });
    }
    section.finish();
    is_whole.then_some((costs, sources))
}

impl Costs {
    fn named(&mut self) -> [(&'static str, &mut f64); 15] {
        [
            ("edge_call_us", &mut self.edge_call_us),
            ("edge_register_us", &mut self.edge_register_us),
            ("registrar_call_us", &mut self.registrar_call_us),
            ("registrar_register_us", &mut self.registrar_register_us),
            ("registrar_news_us", &mut self.registrar_news_us),
            ("store_change_us", &mut self.store_change_us),
            ("store_news_us", &mut self.store_news_us),
            ("store_bus_us", &mut self.store_bus_us),
            ("store_look_up_us", &mut self.store_look_up_us),
            ("call_bytes", &mut self.call_bytes),
            ("binding_bytes", &mut self.binding_bytes),
            ("subscriber_bytes", &mut self.subscriber_bytes),
            ("cached_bytes", &mut self.cached_bytes),
            ("call_wire_bytes", &mut self.call_wire_bytes),
            ("register_wire_bytes", &mut self.register_wire_bytes),
        ]
    }
}

fn share(section: &mut Section<'_>, key: &'static str) -> Option<f64> {
    let found = section.require(key, "write a share, such as 0.2", number(SHARE));
    found.map(|found| found.value)
}

fn cost(section: &mut Section<'_>, key: &'static str) -> Option<f64> {
    let found = section.require(key, "write what was measured", number(COST));
    found.map(|found| found.value)
}

fn seconds(section: &mut Section<'_>, key: &'static str) -> Option<f64> {
    let advice = "write a time, such as \"30s\" or \"1h\"";
    let found = section.require(key, advice, duration(SECOND..=DAY));
    found.map(|found| found.value.as_secs_f64())
}
