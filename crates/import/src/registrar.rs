//! What a script says about phones that register.

use crate::{
    facts::Facts,
    notes::{At, Kind, Notes},
    parts::Registrar,
    targets::is_name,
};

/// Reads it; none if the script saves no registration.
pub(crate) fn registrar(facts: &Facts<'_>, notes: &mut Notes) -> Option<Registrar> {
    let (saved, _) = facts.calls("save").next()?;
    let mut domains: Vec<String> = facts
        .settings("alias")
        .map(|(_, value)| bare_host(value))
        .filter(|host| is_name(host))
        .collect();
    domains.dedup();
    if domains.is_empty() {
        domains.push("example.com".to_owned());
        let text = "no alias names the users' domain: write it into registrar.domains";
        notes.add(saved, Kind::ToDo, "save", text);
    }
    let asks = [
        "www_authorize",
        "auth_check",
        "pv_auth_check",
        "pv_www_authenticate",
    ];
    let has_passwords = asks.iter().any(|name| facts.calls(name).next().is_some());
    let text = "take over users by `sipyard user import`, and phones by `sipyard import ... --bindings FILE`";
    notes.add(saved, Kind::ToDo, "save", text);
    let mut number = |name: &str, low: u64, high: u64| {
        let (at, text) = facts.param("registrar", name)?;
        bounded(at, name, text, low, high, notes)
    };
    let max_s = number("max_expires", 60, 30 * 86_400);
    let most = max_s.unwrap_or(7_200);
    let min_s = number("min_expires", 1, most.min(3_600));
    let default_s = number(
        "default_expires",
        min_s.unwrap_or_else(|| most.min(60)),
        most,
    );
    let contacts = number("max_contacts", 1, 100);
    Some(Registrar {
        domains,
        has_passwords,
        min_s,
        default_s,
        max_s,
        contacts,
    })
}

/// A number within the bounds that the configuration has. 0 means none to both programs.
fn bounded(at: At, name: &str, text: &str, low: u64, high: u64, notes: &mut Notes) -> Option<u64> {
    let number: u64 = text.parse().ok().filter(|number| *number > 0)?;
    let within = number.clamp(low, high);
    if within != number {
        let text = format!("{number} is outside of {low} to {high}: the import wrote {within}");
        notes.add(at, Kind::Differs, name, text);
    }
    Some(within)
}

/// `udp:example.com:5060` without its transport and port.
fn bare_host(alias: &str) -> String {
    let alias = alias.trim_matches(['"', '\'']);
    let parts: Vec<&str> = alias.split(':').collect();
    let host = match parts[..] {
        ["udp" | "tcp" | "tls", host, ..] => host,
        _ => parts[0],
    };
    host.to_ascii_lowercase()
}
