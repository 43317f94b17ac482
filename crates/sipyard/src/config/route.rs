//! The sections `[[route]]`: which pool, or the registrar, takes a request.

use node::config::{Destination, Mode, Route};
use settings::{
    At, Place, Read, Section, Value, hint,
    value::{list, method, name, text},
};

use super::address::host;

/// Reads all `[[route]]`. A route leads to one of `pools` or to the registrar.
pub(crate) fn routes(root: &mut Section<'_>, pools: &[String]) -> Vec<Route> {
    let sections = root.tables("route");
    if sections.is_empty() {
        root.problem(
            "there is no route: add [[route]] with to = \"NAME\", the pool that takes the calls",
        );
    }
    let has_registrar = root.has("registrar");
    let mut catch_all: Option<Place> = None;
    let mut routes = Vec::new();
    for mut section in sections {
        if let Some(first) = &catch_all {
            let message = format!(
                "no request reaches this route, because the route at {first} takes every request: \
                 swap or remove one"
            );
            section.problem(&message);
        }
        if let Some(route) = route(&mut section, pools, has_registrar) {
            if !section.has("methods") && !section.has("hosts") {
                catch_all.get_or_insert_with(|| section.place(section.at()));
            }
            routes.push(route);
        }
        section.finish();
    }
    routes
}

fn route(section: &mut Section<'_>, pools: &[String], has_registrar: bool) -> Option<Route> {
    let methods = section.get("methods", list(method));
    let hosts = section.get("hosts", list(host));
    for (key, list) in [("methods", &methods), ("hosts", &hosts)] {
        if let Some(found) = list.as_ref().filter(|found| found.value.is_empty()) {
            let message = "the list is empty, so the route matches nothing: remove the key to \
                           match everything";
            section.problem_of(key, found.at, message);
        }
    }
    let to = section.require("to", "write to = \"NAME\", the pool's name", name)?;
    let state = section.get("state", mode);
    let (to, state) = if to.value == "registrar" {
        if let Some(At {
            value: Mode::Stateless,
            at,
        }) = state
        {
            let message = "a route to the registrar always keeps state, because it waits for the \
                           store: remove this key";
            section.problem_of("state", at, message);
        }
        if !has_registrar {
            let message = "there is no registrar: add [registrar] with domains and store";
            section.problem_of("to", to.at, message);
        }
        (Destination::Registrar, Mode::Stateful)
    } else {
        check_target(section, to.value, to.at, pools);
        let state = state.map_or(Mode::Stateless, |found| found.value);
        (Destination::Pool(to.value.to_owned()), state)
    };
    Some(Route {
        methods: methods.map_or_else(Vec::new, |found| found.value),
        hosts: hosts.map_or_else(Vec::new, |found| found.value),
        to,
        state,
    })
}

fn mode(value: &Value<'_>) -> Read<Mode> {
    match text(value)? {
        "stateless" => Ok(Mode::Stateless),
        "stateful" => Ok(Mode::Stateful),
        other => Err(format!(
            "unknown state \"{other}\"; {}",
            hint(other, &["stateless", "stateful"])
        )),
    }
}

fn check_target(section: &Section<'_>, to: &str, at: usize, pools: &[String]) {
    if pools.iter().any(|pool| pool == to) {
        return;
    }
    let message = if pools.is_empty() {
        format!("there is no pool \"{to}\": add [pool.{to}]")
    } else {
        let names: Vec<&str> = pools.iter().map(String::as_str).collect();
        format!("there is no pool \"{to}\"; {}", hint(to, &names))
    };
    section.problem_of("to", at, &message);
}
