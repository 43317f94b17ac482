//! The section `[abuse]`: what is taken from strangers.

use node::config::{Abuse, Rules};
use settings::{
    Read, Section, Value,
    value::{duration, integer, list, text},
};

use super::sections::{minutes, ms};

/// What programs call themselves that look for open exchanges and weak passwords.
const SCANNERS: [&str; 8] = [
    "friendly-scanner",
    "sipvicious",
    "sipcli",
    "pplsip",
    "sundayddr",
    "sip-scan",
    "iWar",
    "SIVuS",
];

/// A pair of sets of nftables: the first for IPv4 addresses, the second for networks of IPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nftables {
    /// The family and the table.
    pub(crate) table: String,
    /// The set of IPv4 addresses; that of IPv6 has a 6 behind its name.
    pub(crate) set: String,
}

/// Reads `[abuse]`.
pub(crate) fn abuse(mut section: Section<'_>) -> (Abuse, Option<Nftables>) {
    let default = Rules::default();
    let number = |value: u32| value as usize;
    let million = integer(1..=1_000_000);
    let rules = Rules {
        rate: section.get_or("rate", number(default.rate), &million) as u32,
        burst: section.get_or("burst", number(default.burst), &million) as u32,
        logins: section.get_or("failed_logins", number(default.logins), integer(2..=10_000)) as u32,
        ban: section.get_or("ban", default.ban, duration(ms(1_000)..=minutes(10_080))),
    };
    let known = || SCANNERS.map(str::to_owned).to_vec();
    let listed = section.get("scanners", list(scanner));
    let scanners = listed.map_or_else(known, |found| found.value);
    let nftables = section.get("nftables", nftables);
    section.finish();
    (Abuse { rules, scanners }, nftables.map(|found| found.value))
}

fn scanner(value: &Value<'_>) -> Read<String> {
    match text(value)? {
        "" => Err("every request would begin with this: write a program's name".to_owned()),
        name => Ok(name.to_owned()),
    }
}

fn nftables(value: &Value<'_>) -> Read<Nftables> {
    const FAMILIES: [&str; 3] = ["inet", "ip", "netdev"];
    let text = text(value)?;
    let words: Vec<&str> = text.split(' ').collect();
    let is_name = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_alphabetic())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    match words[..] {
        [family, table, set] if FAMILIES.contains(&family) && is_name(table) && is_name(set) => {
            Ok(Nftables {
                table: format!("{family} {table}"),
                set: set.to_owned(),
            })
        }
        _ => Err(format!(
            "\"{text}\" is not a family, a table and a set: write \"inet sipyard banned\""
        )),
    }
}
