//! Writes the configuration, with comments.

use std::fmt::Write;

use crate::parts::{Listener, Origin, Plan, Pool, Probe, Registrar, Route, Server};

/// The configuration as TOML.
pub(crate) fn configuration(origin: Origin, names: &[&str], plan: &Plan) -> String {
    let mut out = String::new();
    head(origin, names, &mut out);
    plan.listeners.iter().for_each(|it| listener(it, &mut out));
    if let Some(found) = &plan.registrar {
        registrar(found, &mut out);
    }
    for found in &plan.pools {
        pool(found, plan, names, &mut out);
    }
    for (place, found) in plan.routes.iter().enumerate() {
        route(found, place == 0, &mut out);
    }
    out
}

/// Appends a line; a text has no other outcome.
macro_rules! line {
    ($out:expr, $($text:tt)*) => {
        writeln!($out, $($text)*).expect("a text takes all")
    };
}

fn head(origin: Origin, names: &[&str], out: &mut String) {
    let program = match origin {
        Origin::Kamailio => "Kamailio",
        Origin::Opensips => "OpenSIPS",
    };
    line!(
        out,
        "# Imported from {program}: {}.",
        names.join(", ").escape_debug()
    );
    line!(
        out,
        "# `sipyard check FILE` checks it; `sipyard shadow` tries it on captured traffic."
    );
    line!(out, "");
    line!(out, "[node]");
    line!(out, "name = \"edge-1\"");
    line!(
        out,
        "secret = \"file:secret\"  # `--out` writes one; or (umask 077; openssl rand -hex 32 > secret)"
    );
}

fn listener(listener: &Listener, out: &mut String) {
    line!(out, "\n[[listen]]");
    line!(out, "transport = \"{}\"", listener.transport);
    line!(out, "address = \"{}\"", listener.address);
    if let Some(advertise) = &listener.advertise {
        line!(out, "advertise = \"{advertise}\"");
    }
}

fn registrar(registrar: &Registrar, out: &mut String) {
    let domains: Vec<String> = registrar
        .domains
        .iter()
        .map(|it| format!("\"{it}\""))
        .collect();
    line!(out, "\n[registrar]");
    line!(out, "domains = [{}]", domains.join(", "));
    line!(
        out,
        "store = \"file:location.db\"  # or \"redis://HOST:PORT\", which several nodes share"
    );
    if !registrar.has_passwords {
        line!(
            out,
            "auth = false               # as the script: whoever asks may register"
        );
    }
    let times = [
        ("min", registrar.min_s),
        ("default", registrar.default_s),
        ("max", registrar.max_s),
    ];
    let times = times
        .into_iter()
        .filter_map(|(name, s)| Some(format!("{name} = \"{}s\"", s?)));
    let times: Vec<String> = times.collect();
    if !times.is_empty() {
        line!(out, "expires = {{ {} }}", times.join(", "));
    }
    if let Some(contacts) = registrar.contacts {
        line!(out, "contacts = {contacts}");
    }
}

fn pool(pool: &Pool, plan: &Plan, names: &[&str], out: &mut String) {
    line!(out, "\n[pool.{}]", pool.name);
    line!(out, "policy = \"{}\"  # {}", pool.policy, pool.reason);
    if pool.policy != "tlwl" {
        line!(
            out,
            "# policy = \"tlwl\"  # the least work left: try it with `sipyard shadow`"
        );
    }
    if let Some(ms) = plan.answer_ms {
        line!(out, "answer_timeout = \"{ms}ms\"  # as tm's timer");
    }
    line!(out, "servers = [");
    for found in &pool.servers {
        server(found, names, out);
    }
    line!(out, "]");
    match plan.probe {
        Some(Probe::Off) => line!(out, "probe = false"),
        Some(Probe::On {
            interval_s,
            fall,
            rise,
        }) => {
            line!(out, "\n[pool.{}.probe]", pool.name);
            line!(out, "interval = \"{interval_s}s\"");
            for (name, number) in [("fall", fall), ("rise", rise)] {
                if let Some(number) = number {
                    line!(out, "{name} = {number}");
                }
            }
        }
        None => {}
    }
}

fn server(server: &Server, names: &[&str], out: &mut String) {
    let mut entry = format!("{{ address = \"{}\"", server.address);
    if (server.capacity - 1.0).abs() > f64::EPSILON {
        let _ = write!(entry, ", capacity = {:?}", server.capacity);
    }
    if server.priority > 0 {
        let _ = write!(entry, ", priority = {}", server.priority);
    }
    let from = names
        .get(server.at.file)
        .copied()
        .unwrap_or_default()
        .escape_debug();
    let line = server.at.line;
    let (mark, why) = match server.is_off {
        true => ("# ", ", which has it off"),
        false => ("", ""),
    };
    line!(out, "    {mark}{entry} }},  # {from}:{line}{why}");
}

fn route(route: &Route, is_first: bool, out: &mut String) {
    let mark = if route.is_hint { "# " } else { "" };
    line!(out, "");
    if route.is_hint {
        line!(
            out,
            "# Say which requests go to this pool: by users, hosts, methods, from or listeners."
        );
    } else if is_first {
        line!(out, "# The first route that matches wins.");
    }
    line!(out, "{mark}[[route]]");
    if route.is_hint {
        line!(out, "{mark}users = [\"PREFIX\"]");
    }
    if let Some(users) = &route.users {
        line!(out, "users = [\"{}\"]", users.escape_default());
    }
    if !route.hosts.is_empty() {
        let hosts: Vec<String> = route.hosts.iter().map(|it| format!("\"{it}\"")).collect();
        line!(out, "hosts = [{}]", hosts.join(", "));
    }
    line!(out, "{mark}to = \"{}\"", route.to);
    if route.is_stateful {
        line!(
            out,
            "{mark}state = \"stateful\"  # as t_relay; \"stateless\" costs less"
        );
    }
}
