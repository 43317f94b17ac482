//! Reads tables of users, and other tables whose first line names the columns.

use csv::ReaderBuilder;

/// Returns a reader for a table. The separator of the first line applies to all lines: a comma, a
/// semicolon or a tab.
#[must_use]
pub fn table(text: &[u8]) -> ReaderBuilder {
    let head = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let delimiter = [b'\t', b';'].into_iter().find(|byte| head.contains(byte));
    let mut reader = ReaderBuilder::new();
    reader.delimiter(delimiter.unwrap_or(b','));
    reader
}
