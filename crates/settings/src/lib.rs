//! Reads the files that operators write, and reports every mistake with its line and column.
//!
//! [`load`] reads a TOML file. A [`Section`] hands out the values of its keys and records a problem
//! for each key that is wrong, missing or unknown. If a file has a problem, `load` returns the
//! problems and no part of the file. [`table`] reads tables of users, and [`duration`] and [`share`]
//! read arguments. A command with a wrong argument ends with [`refuse`].

mod command;
pub mod pool;
mod report;
mod section;
mod table;
pub mod value;

use std::{collections::BTreeSet, fs, path::Path};

use toml::de::DeTable;

pub use command::{duration, refuse, share};
pub use report::{Place, Problem};
pub use section::{At, Item, Section, hint};
pub use table::table;
pub use toml::de::DeValue as Value;
pub use value::Read;

use report::Report;

/// Reads the file at `path`. `read` converts its root section, and returns none if a required part
/// is absent.
///
/// # Errors
/// Every problem, in the order of the file. If the file is not TOML, the syntax errors alone are
/// reported, because the rest can't be read.
pub fn load<T>(
    path: &Path,
    read: impl FnOnce(Section<'_>) -> Option<T>,
) -> Result<T, Vec<Problem>> {
    let text = fs::read_to_string(path).map_err(|error| {
        let message = format!("can't read the file: {error}");
        vec![Place::file(path).problem(message)]
    })?;
    let report = Report::new(path, &text);
    let (table, errors) = DeTable::parse_recoverable(&text);
    for error in &errors {
        let at = error.span().map_or(0, |span| span.start);
        report.syntax(at, error.message());
    }
    let read = report
        .is_clean()
        .then(|| read(Section::root(&report, table.get_ref())))
        .flatten();
    match read {
        Some(read) if report.is_clean() => Ok(read),
        _ => Err(report.into_problems()),
    }
}

/// The paths of the keys that `read` asks for in a file of this text.
pub fn keys<T>(
    path: &Path,
    text: &str,
    read: impl FnOnce(Section<'_>) -> Option<T>,
) -> BTreeSet<String> {
    let report = Report::recording(path, text);
    let (table, _) = DeTable::parse_recoverable(text);
    read(Section::root(&report, table.get_ref()));
    report.into_asked()
}

/// The place of a table or a key in a file; the file itself if it has neither.
#[must_use]
pub fn place_of(path: &Path, names: &[&str]) -> Place {
    let text = fs::read_to_string(path).unwrap_or_default();
    let report = Report::new(path, &text);
    let (table, _) = DeTable::parse_recoverable(&text);
    let mut table = Some(table.get_ref());
    let mut place = Place::file(path);
    for name in names {
        let found = table.and_then(|it| it.iter().find(|(key, _)| key.get_ref() == name));
        let Some((key, value)) = found else {
            break;
        };
        place = report.place(key.span().start);
        let first = value.get_ref().as_array().and_then(|list| list.first());
        let value = first.map_or_else(|| value.get_ref(), |first| first.get_ref());
        table = value.as_table();
    }
    place
}
