//! The section `[calls]`: what is kept of the latest calls, to be looked at.

use recorder::{Collector, Settings};
use settings::{
    Read, Section, Value, hint,
    value::{boolean, integer, list, text},
};

use super::address::address;

/// What may be hidden.
const HIDDEN: [&str; 2] = ["users", "bodies"];

/// What is kept without `[calls]`: about 8,600 calls of 12 messages.
pub(crate) const DEFAULT: Settings = Settings {
    bytes_max: 64 << 20,
    calls_max: 100_000,
    one_in: 1,
    masks_users: false,
    masks_bodies: false,
    collector: None,
};

/// Reads `[calls]`; none: nothing is recorded.
pub(crate) fn calls(mut section: Section<'_>) -> Option<Settings> {
    let records = section.get_or("record", true, boolean);
    let memory_mib = section.get_or("memory_mib", DEFAULT.bytes_max >> 20, integer(1..=65_536));
    let calls_max = section.get_or("keep", DEFAULT.calls_max, integer(1..=10_000_000));
    let one_in = section.get_or("one_in", 1, integer(1..=1_000_000));
    let hide = section.get_or("hide", Vec::new(), list(hidden));
    let collector = section.given_table("homer").and_then(homer);
    section.finish();
    records.then_some(Settings {
        bytes_max: memory_mib << 20,
        calls_max,
        one_in: one_in as u32,
        masks_users: hide.contains(&HIDDEN[0]),
        masks_bodies: hide.contains(&HIDDEN[1]),
        collector,
    })
}

/// Reads `homer`; none if it has a mistake.
fn homer(mut section: Section<'_>) -> Option<Collector> {
    let advice = "write the collector's address, such as \"10.0.0.9:9060\"";
    let address = section.require("address", advice, address);
    let id = section.get_or("id", 1, integer(1..=u32::MAX as usize));
    let password = section.get("password", |value| text(value).map(str::to_owned));
    section.finish();
    Some(Collector {
        address: address?.value,
        id: id as u32,
        password: password.map(|it| it.value),
    })
}

fn hidden(value: &Value<'_>) -> Read<&'static str> {
    let name = text(value)?;
    let known = HIDDEN.into_iter().find(|known| *known == name);
    known.ok_or_else(|| format!("\"{name}\" can't be hidden; {}", hint(name, &HIDDEN)))
}
