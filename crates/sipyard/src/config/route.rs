//! The sections `[[route]]`: which pool, or the registrar, takes a request.

use node::config::{Destination, Listener, Mode, Route, Source};
use settings::{
    At, Place, Read, Section, Value, hint,
    value::{list, method, name, text},
};

use super::{
    address::{address, host},
    trust::network,
};

/// What a section names to be for some requests only.
const MATCHERS: [&str; 5] = ["from", "listeners", "methods", "hosts", "users"];

/// Reads all `[[route]]`. A route leads to one of `pools` or to the registrar.
pub(crate) fn routes(
    root: &mut Section<'_>,
    pools: &[String],
    listeners: &[Listener],
) -> Vec<Route> {
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
        let read = matchers(&mut section, listeners);
        if let Some(route) = destination(&mut section, read, pools, has_registrar) {
            if !MATCHERS.iter().any(|matcher| section.has(matcher)) {
                catch_all.get_or_insert_with(|| section.place(section.at()));
            }
            routes.push(route);
        }
        section.finish();
    }
    routes
}

/// Which requests a route is for; where it leads is to be filled in.
fn matchers(section: &mut Section<'_>, listeners: &[Listener]) -> Route {
    let index = |value: &Value<'_>| index(value, listeners);
    Route {
        from: matcher(section, "from", source),
        listeners: matcher(section, "listeners", index),
        methods: matcher(section, "methods", method),
        hosts: matcher(section, "hosts", host),
        users: matcher(section, "users", |value| name(value).map(str::to_owned)),
        ..Route::of_all(Destination::Registrar, Mode::Stateful)
    }
}

fn matcher<'a, T>(
    section: &mut Section<'a>,
    key: &'static str,
    read: impl Fn(&'a Value<'a>) -> Read<T>,
) -> Vec<T> {
    let Some(found) = section.get(key, list(read)) else {
        return Vec::new();
    };
    if found.value.is_empty() {
        let message = "the list is empty, so the route matches nothing: remove the key to match \
                       everything";
        section.problem_of(key, found.at, message);
    }
    found.value
}

/// `"peers"`, or a network.
fn source(value: &Value<'_>) -> Read<Source> {
    match value.as_str() {
        Some("peers") => Ok(Source::Peers),
        _ => network(value).map(Source::Network),
    }
}

/// The index of a listener, which is named by its address.
fn index(value: &Value<'_>, listeners: &[Listener]) -> Read<u8> {
    let wanted = address(value)?;
    let place = listeners.iter().position(|known| known.address == wanted);
    place.map(|place| place as u8).ok_or_else(|| {
        let known: Vec<String> = listeners.iter().map(|l| l.address.to_string()).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let hint = hint(&wanted.to_string(), &known);
        format!("no [[listen]] has the address \"{wanted}\"; {hint}")
    })
}

/// Where a route leads.
fn destination(
    section: &mut Section<'_>,
    route: Route,
    pools: &[String],
    has_registrar: bool,
) -> Option<Route> {
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
    Some(Route { to, state, ..route })
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
