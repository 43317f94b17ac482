//! Sets of destinations become pools.

use std::collections::BTreeMap;

use crate::{
    facts::Facts,
    notes::{At, Kind, Notes},
    parts::{Origin, Pool, Server},
    rows::{Row, Table},
    targets::target,
};

/// The most that a capacity may be; the configuration has the same bound.
const CAPACITY_MAX: f64 = 1e6;

/// How a script chooses within a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    policy: &'static str,
    reason: &'static str,
    weights: Weights,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weights {
    None,
    Attribute(&'static str),
    Priorities,
}

impl Weights {
    fn reads(self, name: &str) -> bool {
        matches!(self, Self::Attribute(read) if read == name)
    }
}

const fn way(policy: &'static str, reason: &'static str, weights: Weights) -> Way {
    Way {
        policy,
        reason,
        weights,
    }
}

/// What the algorithms of `ds_select_dst` are here.
fn way_of(origin: Origin, algorithm: &str) -> Option<Way> {
    let equal = Weights::None;
    let weighted = if origin == Origin::Opensips {
        Weights::Attribute("weight")
    } else {
        equal
    };
    Some(match algorithm {
        "0" => way("hash", "by Call-ID, as algorithm 0", equal),
        "1" | "2" | "3" | "5" => way("user-hash", "by user, as algorithms 1, 2, 3 and 5", equal),
        "4" => way("round-robin", "each in turn, as algorithm 4", weighted),
        "6" => way(
            "p2c",
            "at random, as algorithm 6, but of two the less loaded",
            weighted,
        ),
        "7" => way(
            "hash",
            "by Call-ID; algorithm 7 hashes what the script says",
            equal,
        ),
        "8" => way(
            "tlwl",
            "the first live priority, as algorithm 8",
            Weights::Priorities,
        ),
        "9" if origin == Origin::Kamailio => way(
            "round-robin",
            "by weight, as algorithm 9",
            Weights::Attribute("weight"),
        ),
        "10" if origin == Origin::Kamailio => {
            way("cjsq", "the fewest calls, as algorithm 10", equal)
        }
        "11" if origin == Origin::Kamailio => way(
            "round-robin",
            "by weight, as algorithm 11",
            Weights::Attribute("rweight"),
        ),
        "13" if origin == Origin::Kamailio => {
            way("peak-ewma", "by response times, as algorithm 13", equal)
        }
        _ => return None,
    })
}

/// The sets of dispatcher and the groups of load_balancer as pools, in the order in which the script
/// names them.
pub(crate) fn pools(
    origin: Origin,
    facts: &Facts<'_>,
    rows: &[Row],
    notes: &mut Notes,
) -> Vec<Pool> {
    let mut sets: BTreeMap<(bool, String), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        match row.table {
            Table::Dispatcher => {
                let set = row.get("setid").to_owned();
                sets.entry((true, set)).or_default().push(row);
            }
            Table::LoadBalancer => {
                let group = row.get("group_id").to_owned();
                sets.entry((false, group)).or_default().push(row);
            }
            _ => {}
        }
    }
    let order: Vec<String> = facts
        .selections()
        .map(|(_, set, _)| set.to_owned())
        .collect();
    let mut sets: Vec<_> = sets.into_iter().collect();
    sets.sort_by_key(|((_, set), _)| order.iter().position(|it| it == set).unwrap_or(usize::MAX));
    sets.into_iter()
        .map(|((is_set, set), rows)| match is_set {
            true => dispatcher(origin, facts, &set, &rows, notes),
            false => load_balancer(&set, &rows, notes),
        })
        .filter(|pool| !pool.servers.is_empty())
        .collect()
}

fn dispatcher(
    origin: Origin,
    facts: &Facts<'_>,
    set: &str,
    rows: &[&Row],
    notes: &mut Notes,
) -> Pool {
    let selected = facts.selections().find(|(_, named, _)| *named == set);
    let unknown = way(
        "tlwl",
        "no call of ds_select_dst says how to choose: the least work left",
        Weights::None,
    );
    let chosen = match selected {
        Some((at, _, algorithm)) => way_of(origin, algorithm).unwrap_or_else(|| {
            let text = "Sipyard has no such algorithm: the pool chooses the least work left";
            notes.add(at, Kind::Differs, &format!("algorithm {algorithm}"), text);
            unknown
        }),
        None => unknown,
    };
    let priority = |row: &Row| row.get("priority").parse::<i64>().unwrap_or(0);
    let mut ranks: Vec<i64> = rows.iter().map(|row| priority(row)).collect();
    // Both programs use the highest first.
    ranks.sort_unstable_by(|a, b| b.cmp(a));
    ranks.dedup();
    let mut servers: Vec<Server> = Vec::new();
    for row in rows {
        let Some(mut server) = server(row, row.get("destination"), notes) else {
            continue;
        };
        server.is_off = is_off(origin, row);
        match chosen.weights {
            Weights::Attribute(name) => {
                let text = match row.get(name) {
                    "" => attribute(row, name),
                    cell => cell,
                };
                server.capacity = capacity(row.at, name, text, notes);
            }
            Weights::Priorities => {
                let rank = ranks.iter().position(|rank| *rank == priority(row));
                server.priority = rank.unwrap_or(0);
            }
            Weights::None => {}
        }
        attributes(row, chosen.weights, notes);
        add(&mut servers, server, notes);
    }
    Pool {
        name: format!("set-{set}"),
        policy: chosen.policy,
        reason: chosen.reason.to_owned(),
        servers,
    }
}

fn load_balancer(group: &str, rows: &[&Row], notes: &mut Notes) -> Pool {
    let mut servers = Vec::new();
    for row in rows {
        let Some(mut server) = server(row, row.get("dst_uri"), notes) else {
            continue;
        };
        let first = row.get("resources").split(';').next().unwrap_or_default();
        let (name, most) = first.split_once('=').unwrap_or((first, ""));
        server.capacity = capacity(row.at, name, most, notes);
        let text =
            "the numbers of resources are relative capacities here; no call is refused for them";
        notes.add(row.at, Kind::Differs, "resources", text);
        add(&mut servers, server, notes);
    }
    Pool {
        name: format!("group-{group}"),
        policy: "cjsq",
        reason: "the fewest calls for its capacity, as load_balancer".to_owned(),
        servers,
    }
}

fn server(row: &Row, destination: &str, notes: &mut Notes) -> Option<Server> {
    match target(destination) {
        Ok(target) => {
            if target.is_bare_name {
                let text = format!(
                    "the name has no port, so SRV records may name others: write \"srv:_sip._udp.NAME\" \
                     if so; the import wrote {}",
                    target.address
                );
                notes.add(row.at, Kind::ToDo, destination, text);
            }
            Some(Server::new(row.at, target.address))
        }
        Err(why) => {
            notes.add(
                row.at,
                Kind::Missing,
                destination,
                format!("left out: {why}"),
            );
            None
        }
    }
}

/// Adds a server that the pool does not have.
pub(crate) fn add(servers: &mut Vec<Server>, server: Server, notes: &mut Notes) {
    if servers.iter().any(|known| known.address == server.address) {
        let text = "left out: the pool has this server";
        return notes.add(server.at, Kind::Differs, &server.address, text);
    }
    servers.push(server);
}

fn is_off(origin: Origin, row: &Row) -> bool {
    match origin {
        // Bit 0: inactive; bit 2: taken out by an administrator.
        Origin::Kamailio => row.get("flags").parse::<u32>().unwrap_or(0) & 5 != 0,
        Origin::Opensips => row.get("state") == "1",
    }
}

/// A number relative to others; 1 if there is none.
fn capacity(at: At, name: &str, text: &str, notes: &mut Notes) -> f64 {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= CAPACITY_MAX => number,
        Ok(_) => {
            let said = format!("{name}={text}");
            notes.add(
                at,
                Kind::ToDo,
                &said,
                "capacities are above 0: the import wrote 1.0",
            );
            1.0
        }
        Err(_) => 1.0,
    }
}

fn attribute<'r>(row: &'r Row, name: &str) -> &'r str {
    let pairs = row
        .get("attrs")
        .split(';')
        .filter_map(|it| it.split_once('='));
    let mut values = pairs.filter(|(key, _)| key.trim() == name);
    values.next().map_or("", |(_, value)| value.trim())
}

/// Notes attributes that the pool does not have.
fn attributes(row: &Row, used: Weights, notes: &mut Notes) {
    for pair in row
        .get("attrs")
        .split(';')
        .filter(|it| !it.trim().is_empty())
    {
        let name = pair.split('=').next().unwrap_or_default().trim();
        let (kind, text) = match name {
            "weight" | "rweight" if used.reads(name) => continue,
            "weight" | "rweight" => (Kind::Needless, "the algorithm does not look at it"),
            "duid" | "cc" => (Kind::Needless, "servers are known by their addresses"),
            "maxload" => (
                Kind::Missing,
                "a server has no most calls: `capacity` is relative",
            ),
            "socket" | "sockname" | "ping_from" | "obproxy" => (
                Kind::Differs,
                "the listener that reaches the server is used",
            ),
            _ => (
                Kind::Missing,
                "servers have no attributes that a script could read",
            ),
        };
        notes.add(row.at, kind, name, text);
    }
    let has_priority = row.get("priority").parse::<i64>().is_ok_and(|it| it != 0);
    if has_priority && used != Weights::Priorities {
        let text =
            "the algorithm does not look at it; `priority` of a server here says who is used first";
        notes.add(row.at, Kind::Needless, "priority", text);
    }
}
