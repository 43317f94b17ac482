//! OpenSIPS's drouting: rules by prefix, and the gateways that they name.

use crate::{
    notes::{Kind, Notes},
    parts::{Pool, Route, Server},
    rows::{Row, Table},
    servers::add,
    targets::target,
};

/// One pool for each list of gateways, and a route for each rule, the longest prefix first.
pub(crate) fn gateways(rows: &[Row], notes: &mut Notes) -> (Vec<Pool>, Vec<Route>) {
    let mut pools: Vec<Pool> = Vec::new();
    let mut routes: Vec<(usize, Route)> = Vec::new();
    let known = |id: &str| {
        let mut gateways = rows.iter().filter(|row| row.table == Table::Gateways);
        gateways.find(|row| row.get("gwid") == id)
    };
    for rule in rows.iter().filter(|row| row.table == Table::Rules) {
        let list = rule.get("gwlist");
        let name = format!("gateways-{}", sane(list));
        if !pools.iter().any(|pool| pool.name == name) {
            let servers = servers(rule, list, known, notes);
            if servers.is_empty() {
                notes.add(
                    rule.at,
                    Kind::ToDo,
                    list,
                    "left out: the rule has no gateway that is known",
                );
                continue;
            }
            pools.push(Pool {
                name: name.clone(),
                policy: "tlwl",
                reason: "the first gateway that lives, as drouting".to_owned(),
                servers,
            });
        }
        let prefix = rule.get("prefix");
        let users = Some(prefix.to_owned()).filter(|prefix| !prefix.is_empty());
        for column in ["timerec", "routeid"] {
            if !rule.get(column).is_empty() {
                notes.add(
                    rule.at,
                    Kind::Missing,
                    column,
                    "routes know no times and run no script",
                );
            }
        }
        routes.push((prefix.len(), Route::to(name, users)));
    }
    routes.sort_by_key(|(length, _)| usize::MAX - length);
    let mut routes: Vec<Route> = routes.into_iter().map(|(_, route)| route).collect();
    routes.dedup_by(|later, first| later.users == first.users);
    if pools.is_empty() {
        pools.extend(all(rows, notes));
    }
    (pools, routes)
}

/// Without rules, one pool of all gateways.
fn all(rows: &[Row], notes: &mut Notes) -> Option<Pool> {
    let mut servers = Vec::new();
    for row in rows.iter().filter(|row| row.table == Table::Gateways) {
        if let Some(found) = gateway(row, notes) {
            add(&mut servers, found, notes);
        }
    }
    (!servers.is_empty()).then(|| Pool {
        name: "gateways".to_owned(),
        policy: "tlwl",
        reason: "no dr_rules say how to choose: the least work left".to_owned(),
        servers,
    })
}

/// `gw1,gw2=10,#carrier`: in order, or by weight.
fn servers<'r>(
    rule: &Row,
    list: &str,
    known: impl Fn(&str) -> Option<&'r Row>,
    notes: &mut Notes,
) -> Vec<Server> {
    let mut servers = Vec::new();
    for (place, entry) in list.split([',', ';']).enumerate() {
        let (id, weight) = entry.split_once('=').unwrap_or((entry, ""));
        let Some(row) = known(id.trim()) else {
            let text = "left out: no gateway of dr_gateways has this id; carriers are not imported";
            notes.add(rule.at, Kind::ToDo, id, text);
            continue;
        };
        if let Some(mut server) = gateway(row, notes) {
            match weight.parse::<f64>() {
                Ok(weight) if weight > 0.0 => server.capacity = weight,
                _ => server.priority = place,
            }
            add(&mut servers, server, notes);
        }
    }
    servers
}

fn gateway(row: &Row, notes: &mut Notes) -> Option<Server> {
    for column in ["strip", "pri_prefix"] {
        if !["", "0"].contains(&row.get(column)) {
            notes.add(
                row.at,
                Kind::Missing,
                column,
                "Sipyard changes no numbers: let the gateway do it",
            );
        }
    }
    match target(row.get("address")) {
        Ok(target) => {
            let mut server = Server::new(row.at, target.address);
            server.is_off = row.get("state") == "1";
            Some(server)
        }
        Err(why) => {
            let text = format!("left out: {why}");
            notes.add(row.at, Kind::Missing, row.get("address"), text);
            None
        }
    }
}

/// A text as part of a pool's name.
fn sane(text: &str) -> String {
    let part = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    text.chars().take(40).map(part).collect()
}
