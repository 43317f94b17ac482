//! The section `[calls]`: what is kept of the latest calls, to be looked at.

use recorder::Settings;
use settings::{
    Read, Section, Value, hint,
    value::{boolean, integer, list, text},
};

/// What may be hidden.
const HIDDEN: [&str; 2] = ["users", "bodies"];

/// What is kept without `[calls]`: about 8,600 calls of 12 messages.
pub(crate) const DEFAULT: Settings = Settings {
    bytes_max: 64 << 20,
    calls_max: 100_000,
    one_in: 1,
    masks_users: false,
    masks_bodies: false,
};

/// Reads `[calls]`; none: nothing is recorded.
pub(crate) fn calls(mut section: Section<'_>) -> Option<Settings> {
    let records = section.get_or("record", true, boolean);
    let memory_mib = section.get_or("memory_mib", DEFAULT.bytes_max >> 20, integer(1..=65_536));
    let calls_max = section.get_or("keep", DEFAULT.calls_max, integer(1..=10_000_000));
    let one_in = section.get_or("one_in", 1, integer(1..=1_000_000));
    let hide = section.get_or("hide", Vec::new(), list(hidden));
    section.finish();
    records.then_some(Settings {
        bytes_max: memory_mib << 20,
        calls_max,
        one_in: one_in as u32,
        masks_users: hide.contains(&HIDDEN[0]),
        masks_bodies: hide.contains(&HIDDEN[1]),
    })
}

fn hidden(value: &Value<'_>) -> Read<&'static str> {
    let name = text(value)?;
    let known = HIDDEN.into_iter().find(|known| *known == name);
    known.ok_or_else(|| format!("\"{name}\" can't be hidden; {}", hint(name, &HIDDEN)))
}
