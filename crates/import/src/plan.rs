//! What the configuration will have, from what the files say.

use std::net::{IpAddr, SocketAddr};

use crate::{
    facts::Facts,
    gateways, meanings,
    notes::{At, Kind, Notes},
    parts::{Listener, Origin, Plan, Pool, Probe, Registrar, Route, Server},
    registrar,
    rows::{Row, Table},
    script::{Statement, What},
    servers,
    targets::{Listen, TRANSPORTS, is_name, listen},
};

/// Stands for an address that the files don't tell. RFC 5737
pub(crate) const EXAMPLE: &str = "192.0.2.10";
const EXAMPLE_SERVER: &str = "192.0.2.11:5060";
/// Answers are waited for from T1 to 64*T1.
const ANSWER_MS: [u64; 2] = [500, 32_000];

/// Plans a configuration.
pub(crate) fn plan(
    origin: Origin,
    statements: &[Statement],
    rows: &[Row],
    notes: &mut Notes,
) -> Plan {
    let facts = Facts { statements };
    let listeners = listeners(&facts, notes);
    let registrar = registrar::registrar(&facts, notes);
    let mut pools = servers::pools(origin, &facts, rows, notes);
    let (gateways, by_prefix) = gateways::gateways(rows, notes);
    pools.extend(gateways);
    pools.retain_mut(|pool| reachable(pool, &listeners, notes));
    let first = facts
        .selections()
        .next()
        .map_or_else(At::default, |found| found.0);
    if pools.is_empty() && registrar.is_none() {
        pools.push(example_pool(first, notes));
    }
    check_selections(&facts, &pools, notes);
    let by_prefix = by_prefix.into_iter();
    let by_prefix = by_prefix.filter(|route| pools.iter().any(|pool| pool.name == route.to));
    let is_stateful = facts.calls("t_relay").next().is_some();
    let routes = routes(&pools, by_prefix.collect(), registrar.as_ref(), is_stateful);
    for row in rows.iter().filter(|row| row.table == Table::Subscriber) {
        let text = "`sipyard user import` takes this table";
        notes.add(row.at, Kind::ToDo, "subscriber", text);
    }
    note_rest(statements, notes);
    Plan {
        listeners,
        routes,
        probe: probe(origin, &facts, notes),
        answer_ms: answer_ms(origin, &facts),
        registrar,
        pools,
    }
}

fn listeners(facts: &Facts<'_>, notes: &mut Notes) -> Vec<Listener> {
    let mut found: Vec<Listener> = Vec::new();
    let outside = advertised(facts);
    let ports = facts
        .settings("port")
        .map(|(at, port)| (at, format!("udp:*:{port}")));
    let named = facts.settings("listen").chain(facts.settings("socket"));
    let mut named: Vec<(At, String)> = named.map(|(at, text)| (at, text.to_owned())).collect();
    if named.is_empty() {
        named.extend(ports);
    }
    for (at, text) in named {
        let Ok(socket) = listen(&text) else {
            let text_of_note = "this is no address: write a [[listen]] for it";
            notes.add(at, Kind::ToDo, &text, text_of_note);
            continue;
        };
        if !TRANSPORTS.contains(&socket.transport.as_str()) {
            let why = "it needs a certificate or a path of yours: write a [[listen]] for it";
            notes.add(at, Kind::ToDo, &text, why);
            continue;
        }
        let listener = listener(at, &text, socket, outside.as_deref(), notes);
        if !found.iter().any(|known| {
            (&known.transport, known.address) == (&listener.transport, listener.address)
        }) {
            found.push(listener);
        }
    }
    if found.is_empty() {
        let at = At::default();
        if !facts.is_empty() {
            let text = "no listener could be read: write yours in place of the example";
            notes.add(At { line: 1, ..at }, Kind::ToDo, "listen", text);
        }
        let ip: IpAddr = EXAMPLE.parse().expect("an address");
        found.push(Listener {
            transport: "udp".to_owned(),
            address: SocketAddr::new(ip, 5060),
            advertise: None,
        });
    }
    found
}

/// `advertised_address` and `advertised_port`.
fn advertised(facts: &Facts<'_>) -> Option<String> {
    let unquoted = |text: &str| text.trim_matches(['"', '\'']).to_owned();
    let host = unquoted(facts.settings("advertised_address").last()?.1);
    let is_host = host.parse::<IpAddr>().is_ok() || is_name(&host);
    let port = facts.settings("advertised_port").last();
    let port = port.map_or_else(|| "5060".to_owned(), |(_, port)| unquoted(port));
    is_host.then(|| format!("{host}:{port}"))
}

fn listener(
    at: At,
    text: &str,
    socket: Listen,
    outside: Option<&str>,
    notes: &mut Notes,
) -> Listener {
    let advertise = socket.advertise.or_else(|| outside.map(str::to_owned));
    let advertise = advertise.filter(|it| {
        let is_good = is_advertisable(it);
        if !is_good {
            notes.add(
                at,
                Kind::ToDo,
                it,
                "this is no address that others reach: write `advertise`",
            );
        }
        is_good
    });
    let ip = socket.host.parse::<IpAddr>().ok();
    if ip.is_none() {
        let text_of_note = "this names no IP address: write this machine's in [[listen]]";
        notes.add(at, Kind::ToDo, text, text_of_note);
    }
    let ip = ip.unwrap_or_else(|| EXAMPLE.parse().expect("an address"));
    let needs_name = ip.is_unspecified() && advertise.is_none();
    if needs_name {
        let text_of_note =
            "this stands for all addresses: write the one that others reach into `advertise`";
        notes.add(at, Kind::ToDo, text, text_of_note);
    }
    let example = needs_name.then(|| format!("{EXAMPLE}:{}", socket.port));
    Listener {
        transport: socket.transport,
        address: SocketAddr::new(ip, socket.port),
        advertise: advertise.or(example),
    }
}

fn is_advertisable(text: &str) -> bool {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, "5060"));
    let ip = text
        .parse::<SocketAddr>()
        .map(|it| it.ip())
        .or_else(|_| host.parse());
    let is_host = ip.map_or_else(|_| is_name(host), |ip: IpAddr| !ip.is_unspecified());
    is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Drops servers that no listener reaches, or that are the listener; whether any is left.
fn reachable(pool: &mut Pool, listeners: &[Listener], notes: &mut Notes) -> bool {
    pool.servers.retain(|server| {
        let (transport, address) = match server.address.strip_prefix("tcp:") {
            Some(address) => ("tcp", address),
            None => ("udp", server.address.as_str()),
        };
        let of_kind = || listeners.iter().filter(|it| it.transport == transport);
        let Ok(address) = address.parse::<SocketAddr>() else {
            let has_way = of_kind().next().is_some();
            if !has_way {
                let text = "left out: the node has no listener of this transport";
                notes.add(server.at, Kind::ToDo, &server.address, text);
            }
            return has_way;
        };
        let is_own = of_kind().any(|it| it.address == address);
        let has_way = of_kind().any(|it| it.address.is_ipv4() == address.is_ipv4());
        if is_own || !has_way || address.ip().is_unspecified() {
            let text = "left out: no listener of this node can send there, or it is one of them";
            notes.add(server.at, Kind::ToDo, &server.address, text);
        }
        has_way && !is_own && !address.ip().is_unspecified()
    });
    // The first priority is 0, whatever was left out.
    let first = pool
        .servers
        .iter()
        .map(|server| server.priority)
        .min()
        .unwrap_or(0);
    pool.servers
        .iter_mut()
        .for_each(|server| server.priority -= first);
    !pool.servers.is_empty()
}

fn example_pool(at: At, notes: &mut Notes) -> Pool {
    let at = At {
        line: at.line.max(1),
        ..at
    };
    let text = "no server could be taken over: write yours in place of the example, or import the list or \
                table that the script reads";
    notes.add(at, Kind::ToDo, "servers", text);
    Pool {
        name: "app".to_owned(),
        policy: "tlwl",
        reason: "the least work left".to_owned(),
        servers: vec![Server::new(at, EXAMPLE_SERVER.to_owned())],
    }
}

/// Notes sets that the script selects from and no file has.
fn check_selections(facts: &Facts<'_>, pools: &[Pool], notes: &mut Notes) {
    for (at, set, _) in facts.selections() {
        let names = [format!("set-{set}"), format!("group-{set}")];
        if !pools.iter().any(|pool| names.contains(&pool.name)) {
            let text =
                "no file has this set with a server that Sipyard reaches: import its list or table";
            notes.add(at, Kind::ToDo, &format!("set {set}"), text);
        }
    }
}

/// The registrar's users first, then prefixes, then the first pool. The other pools are hints.
fn routes(
    pools: &[Pool],
    mut by_prefix: Vec<Route>,
    registrar: Option<&Registrar>,
    is_stateful: bool,
) -> Vec<Route> {
    let mut routes = Vec::new();
    if let Some(registrar) = registrar {
        let mut route = Route::to("registrar".to_owned(), None);
        route.hosts.clone_from(&registrar.domains);
        routes.push(route);
    }
    let is_open = |route: &Route| route.users.is_none();
    let last = by_prefix
        .iter()
        .position(is_open)
        .map(|at| by_prefix.remove(at));
    by_prefix.retain(|route| !is_open(route));
    let named: Vec<String> = by_prefix
        .iter()
        .chain(&last)
        .map(|it| it.to.clone())
        .collect();
    routes.append(&mut by_prefix);
    let mut others = pools.iter().filter(|pool| !named.contains(&pool.name));
    let last = last.or_else(|| others.next().map(|pool| Route::to(pool.name.clone(), None)));
    routes.extend(others.map(|pool| Route {
        is_hint: true,
        ..Route::to(pool.name.clone(), None)
    }));
    routes.extend(last);
    for route in routes.iter_mut().filter(|route| route.to != "registrar") {
        route.is_stateful = is_stateful;
    }
    routes
}

fn probe(origin: Origin, facts: &Facts<'_>, notes: &mut Notes) -> Option<Probe> {
    let module = match origin {
        Origin::Opensips if facts.param("load_balancer", "probing_interval").is_some() => {
            "load_balancer"
        }
        _ => "dispatcher",
    };
    let number = |name: &str| facts.param(module, name)?.1.parse::<u64>().ok();
    let interval = number("ds_ping_interval").or_else(|| number("probing_interval"));
    let (at, ..) = facts.selections().next()?;
    match interval.filter(|seconds| *seconds > 0) {
        Some(seconds) => Some(Probe::On {
            interval_s: seconds.min(3_600),
            fall: number("ds_probing_threshold").filter(|it| (1..=100).contains(it)),
            rise: number("ds_inactive_threshold").filter(|it| (1..=100).contains(it)),
        }),
        None if module == "load_balancer" => None,
        None => {
            let text = "the script probes no server, so the pools don't: remove probe = false if they answer OPTIONS";
            notes.add(at, Kind::Differs, "ds_ping_interval", text);
            Some(Probe::Off)
        }
    }
}

fn answer_ms(origin: Origin, facts: &Facts<'_>) -> Option<u64> {
    let (name, unit_ms) = match origin {
        Origin::Kamailio => ("fr_timer", 1),
        Origin::Opensips => ("fr_timeout", 1_000),
    };
    let number = facts.param("tm", name)?.1.parse::<u64>().ok()?;
    let [low, high] = ANSWER_MS;
    Some((number.saturating_mul(unit_ms)).clamp(low, high))
}

/// Notes all that was not taken over.
fn note_rest(statements: &[Statement], notes: &mut Notes) {
    const TAKEN: [&str; 19] = [
        "tm.fr_timer",
        "tm.fr_timeout",
        "dispatcher.list_file",
        "dispatcher.ds_ping_interval",
        "dispatcher.ds_probing_threshold",
        "dispatcher.ds_inactive_threshold",
        "dispatcher.ds_probing_mode",
        "dispatcher.db_url",
        "dispatcher.table_name",
        "load_balancer.db_url",
        "load_balancer.db_table",
        "load_balancer.probing_interval",
        "drouting.db_url",
        "registrar.max_expires",
        "registrar.min_expires",
        "registrar.default_expires",
        "registrar.max_contacts",
        "dispatcher.flags",
        "usrloc.db_mode",
    ];
    for statement in statements {
        let at = statement.at;
        match &statement.what {
            What::Setting { name, .. } => {
                let (kind, text) = meanings::setting(name);
                let is_taken = ["listen", "socket", "port", "alias"].contains(&name.as_str());
                if !is_taken {
                    notes.add(at, kind, name, text);
                }
            }
            What::Param { module, name, .. } => {
                let full = format!("{module}.{name}");
                if !TAKEN.contains(&full.as_str()) {
                    let (kind, text) = meanings::param(module, name);
                    notes.add(at, kind, &format!("module {module}"), text);
                }
            }
            What::Call { name, .. } => {
                let (group, kind, text) = meanings::call(name);
                notes.add(at, kind, if group.is_empty() { name } else { group }, text);
            }
            What::Assign(variable) => {
                if let Some((kind, text)) = meanings::assignment(variable) {
                    notes.add(at, kind, &format!("${variable}"), text);
                }
            }
        }
    }
}
