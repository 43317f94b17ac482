//! What operators write, read with the place of every mistake.
//!
//! [`load`] reads a TOML file: a [`Section`] hands out the values of its keys, and notes a problem
//! for each that is wrong, missing or unknown. Nobody gets a part of a file that holds a problem.
//! [`table`] reads lists, [`duration`] an argument; a command ends by [`refuse`] if one is wrong.

mod command;
pub mod pool;
mod report;
mod section;
mod table;
pub mod value;

use std::{fs, path::Path};

use toml::de::DeTable;

pub use command::{duration, refuse};
pub use report::{Place, Problem};
pub use section::{At, Item, Section, hint};
pub use table::table;
pub use toml::de::DeValue as Value;
pub use value::Read;

use report::Report;

/// Reads the file at `path`. `read` makes something of it, or none if a required part is absent.
///
/// # Errors
/// Every problem, in the order of the file. A file that is no TOML yields its syntax errors alone,
/// since what it means can't be told.
pub fn load<T>(
    path: &Path,
    read: impl FnOnce(Section<'_>) -> Option<T>,
) -> Result<T, Vec<Problem>> {
    let text = fs::read_to_string(path).map_err(|error| {
        let message = format!("cannot be read: {error}");
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
