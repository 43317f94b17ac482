//! The section `[registrar]`: the domains, the rules and the store.

use std::{path::Path, time::Duration};

use ::store::{Address, OpenError, check_private};
use node::config::{KeepAlive, KeepAliveMethod, WhenFull};
use settings::{
    At, Read, Section, Value, hint,
    value::{boolean, duration, integer, list, text, word},
};
use sip::digest::Algorithm;

use super::{
    address::host,
    sections::{minutes, ms},
};

/// The settings of `[registrar]`.
#[derive(Debug)]
pub(crate) struct Registrar {
    /// The store of bindings and subscribers.
    pub(crate) store: Address,
    /// The rules for a REGISTER.
    pub(crate) rules: node::config::Registrar,
}

const KEEP_ALIVES: [(&str, KeepAliveMethod); 2] = [
    ("OPTIONS", KeepAliveMethod::Options),
    ("CRLF", KeepAliveMethod::Crlf),
];
/// What becomes of a contact that is one too many.
const WHEN_FULL: [(&str, WhenFull); 2] = [
    ("refuse", WhenFull::Refuse),
    ("replace-oldest", WhenFull::ReplaceOldest),
];
const ALGORITHMS: [Algorithm; 2] = [Algorithm::Sha256, Algorithm::Md5];

/// Reads `[registrar]`; none if it is absent or has a mistake.
pub(crate) fn registrar(root: &mut Section<'_>) -> Option<Registrar> {
    let mut section = root.given_table("registrar")?;
    let folder = section.folder();
    let advice = "write domains = [\"example.com\"], the domains whose users register";
    let domains = section.require("domains", advice, list(host));
    if let Some(found) = domains.as_ref().filter(|found| found.value.is_empty()) {
        section.problem_of(
            "domains",
            found.at,
            "the list is empty, so nobody could register: write at least one domain",
        );
    }
    let advice = "write store = \"file:PATH\", \"redis://HOST:PORT\" or \"memory\"";
    let store = section.require("store", advice, |value| address(folder, text(value)?));
    if let Some(At { value, at }) = &store
        && let Some(error) = exposed(value)
    {
        section.problem_of("store", *at, &error.to_string());
    }
    let (expires_min, expires_default, expires_max) = expires(section.table("expires"));
    let contacts_max = section.get_or("contacts", 10, integer(1..=100));
    let when_full = section.get_or("when_full", WhenFull::Refuse, word("word", &WHEN_FULL));
    let algorithms = algorithms(&mut section);
    let service_route = section.get_or("service_route", Vec::new(), list(route));
    let keep_alive = match section.is_false("keep_alive") {
        true => None,
        false => section.given_table("keep_alive").map(keep_alive),
    };
    let removes_dead = section.get_or("remove_dead", true, boolean);
    section.finish();
    let lower = |domain: String| domain.to_ascii_lowercase();
    let rules = node::config::Registrar {
        domains: domains?.value.into_iter().map(lower).collect(),
        expires_min,
        expires_default,
        expires_max,
        contacts_max,
        when_full,
        algorithms,
        service_route,
        removes_dead,
        keep_alive,
    };
    Some(Registrar {
        store: store?.value,
        rules,
    })
}

fn keep_alive(mut section: Section<'_>) -> KeepAlive {
    let keep_alive = KeepAlive {
        method: section.get_or(
            "method",
            KeepAliveMethod::Options,
            word("method", &KEEP_ALIVES),
        ),
        interval: section.get_or("interval", ms(30_000), duration(ms(5_000)..=minutes(60))),
        fall: section.get_or("fall", 3, |value| Ok(integer(1..=100)(value)? as u32)),
    };
    section.finish();
    keep_alive
}

/// How long bindings last: minimum, default and maximum.
fn expires(mut section: Section<'_>) -> (Duration, Duration, Duration) {
    // RFC 3261 §10.3 step 6: nobody may refuse an hour as too short.
    let min = section.get_or("min", minutes(1), duration(ms(1_000)..=minutes(60)));
    let max = section.get_or("max", minutes(120), duration(min..=minutes(43_200)));
    let default = section.get("default", duration(min..=max));
    let default = default.map_or_else(|| minutes(60).clamp(min, max), |found| found.value);
    section.finish();
    (min, default, max)
}

/// Whether users must authenticate: `auth = false`, or the hashes in order of preference.
fn algorithms(section: &mut Section<'_>) -> Vec<Algorithm> {
    if section.is_false("auth") {
        return Vec::new();
    }
    let Some(found) = section.get("auth", list(algorithm)) else {
        // Many phones know no other, and some fail at a second challenge that they don't know.
        return vec![Algorithm::Md5];
    };
    if found.value.is_empty() {
        let message = "the list is empty, so nobody could register: write a hash, or `auth = \
                       false` to let everybody register";
        section.problem_of("auth", found.at, message);
    }
    found.value
}

fn algorithm(value: &Value<'_>) -> Read<Algorithm> {
    let name = text(value)?;
    Algorithm::from_bytes(name.as_bytes()).ok_or_else(|| {
        let names = ALGORITHMS.map(Algorithm::as_str);
        format!("unknown hash \"{name}\"; {}", hint(name, &names))
    })
}

fn route(value: &Value<'_>) -> Read<String> {
    let text = text(value)?;
    match sip::Uri::parse(text.as_bytes()) {
        Ok(uri) if uri.param(b"lr").is_present() => Ok(text.to_owned()),
        Ok(_) => Err(format!("{text} has no lr: write \"{text};lr\"")),
        Err(error) => Err(format!(
            "{error}: write a URI such as \"sip:edge.example.com;lr\""
        )),
    }
}

/// Why others can read the store's file. One that can't be looked at is not there yet, or closed to
/// this user, which the node says when it opens it.
fn exposed(address: &Address) -> Option<OpenError> {
    let Address::File(path) = address else {
        return None;
    };
    let error = check_private(path).err()?;
    matches!(error, OpenError::Exposed(..)).then_some(error)
}

/// A store's address. A relative path of a file starts in the configuration's folder.
fn address(folder: &Path, text: &str) -> Read<Address> {
    Ok(match text.parse()? {
        Address::File(path) => Address::File(folder.join(path)),
        address => address,
    })
}
