//! The sections `[[route]]`: which pool, or the registrar, takes a request.

use node::config::{Destination, Listener, Mode, Route, Source};
use settings::{
    At, Place, Read, Section, Value, hint,
    value::{boolean, list, method, name, text, word},
};
use sip::HeaderName;

use super::{
    Registrar,
    address::{address, host},
    trust::network,
};

/// What a section names to be for some requests only.
const MATCHERS: [&str; 5] = ["from", "listeners", "methods", "hosts", "users"];

const MODES: [(&str, Mode); 3] = [
    ("stateless", Mode::Stateless),
    ("stateful", Mode::Stateful),
    ("dynamic", Mode::Dynamic),
];

/// Headers that say where messages go, or which belong together, and that the proxy itself changes.
const FIXED: [&str; 11] = [
    "Via",
    "Route",
    "Record-Route",
    "Call-ID",
    "CSeq",
    "From",
    "To",
    "Contact",
    "Content-Length",
    "Max-Forwards",
    "Max-Breadth",
];

/// What routes refer to.
pub(crate) struct Known<'a> {
    /// The names of the pools.
    pub(crate) pools: &'a [String],
    /// The listeners, in the order of their indices.
    pub(crate) listeners: &'a [Listener],
    /// The registrar, if the file has one without mistakes.
    pub(crate) registrar: Option<&'a Registrar>,
}

/// Reads all `[[route]]`. A route leads to a pool or to the registrar.
pub(crate) fn routes(root: &mut Section<'_>, known: &Known<'_>) -> Vec<Route> {
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
        let mut read = matchers(&mut section, known.listeners);
        read.auth = auth(&mut section, known.registrar, has_registrar);
        (read.remove, read.add) = edits(&mut section);
        if let Some(route) = destination(&mut section, read, known.pools, has_registrar) {
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
        _ => network(value)
            .map(Source::Network)
            .map_err(|problem| format!("{problem}, or \"peers\"")),
    }
}

/// The index of a listener, which is named by its address; by its transport, too, if others have the same.
fn index(value: &Value<'_>, listeners: &[Listener]) -> Read<u8> {
    let text = text(value)?;
    let is_named = |known: &Listener| {
        let prefix = text.strip_prefix(known.transport.label());
        prefix.and_then(|rest| rest.strip_prefix(':')) == Some(&known.address.to_string())
    };
    if let Some(place) = listeners.iter().position(is_named) {
        return Ok(place as u8);
    }
    let wanted = address(value)?;
    let place = listeners.iter().position(|known| known.address == wanted);
    place.map(|place| place as u8).ok_or_else(|| {
        let known: Vec<String> = listeners.iter().map(|l| l.address.to_string()).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let hint = hint(&wanted.to_string(), &known);
        format!("no [[listen]] has the address \"{wanted}\"; {hint}")
    })
}

/// Whether those who call must be users, who need passwords for that.
fn auth(section: &mut Section<'_>, registrar: Option<&Registrar>, has_registrar: bool) -> bool {
    let Some(found) = section.get("auth", boolean).filter(|found| found.value) else {
        return false;
    };
    let is_open = registrar.is_some_and(|registrar| registrar.rules.algorithms.is_empty());
    if !has_registrar {
        let message = "there is no registrar, so nobody has a password: add [registrar] with \
                       domains and store";
        section.problem_of("auth", found.at, message);
    } else if is_open {
        let message = "nobody can prove a password, because [registrar] has auth = false: remove \
                       that key or this one";
        section.problem_of("auth", found.at, message);
    }
    true
}

/// The headers that a route removes, and those that it adds.
fn edits(section: &mut Section<'_>) -> (Vec<String>, Vec<(String, String)>) {
    let header = |value: &Value<'_>| check_header(text(value)?).map(str::to_owned);
    let remove = section.get_or("remove", Vec::new(), list(header));
    let add = section.get_or("add", Vec::new(), list(|value| header_line(text(value)?)));
    (remove, add)
}

/// A header that a route may change.
fn check_header(name: &str) -> Read<&str> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "-.!%*_+`'~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        return Err(format!(
            "\"{name}\" is not the name of a header, such as \"X-Internal\""
        ));
    }
    let known = HeaderName::from_bytes(name.as_bytes());
    let full = known.map_or(name, |known| known.as_str());
    if FIXED.iter().any(|fixed| fixed.eq_ignore_ascii_case(full)) {
        return Err(format!(
            "a route can't change {full}, because requests and answers find their way by it: \
             remove it from the list"
        ));
    }
    Ok(name)
}

/// A header's name and value.
fn header_line(line: &str) -> Read<(String, String)> {
    let (name, value) = line.split_once(':').unwrap_or((line, ""));
    let (name, value) = (name.trim_end(), value.trim());
    if value.is_empty() || value.contains(char::is_control) {
        return Err(format!(
            "\"{}\" is not a header line, such as \"X-Edge: one\"",
            line.escape_debug()
        ));
    }
    Ok((check_header(name)?.to_owned(), value.to_owned()))
}

/// Where a route leads.
fn destination(
    section: &mut Section<'_>,
    route: Route,
    pools: &[String],
    has_registrar: bool,
) -> Option<Route> {
    let to = section.require("to", "write to = \"NAME\", the pool's name", name)?;
    let state = section.get("state", word("state", &MODES));
    let (to, state) = if to.value == "registrar" {
        if let Some(At {
            value: Mode::Stateless | Mode::Dynamic,
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
