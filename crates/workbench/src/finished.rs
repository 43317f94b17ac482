//! Pages that tell where they come from.

use std::{env, path::Path};

use report::Page;
use time::OffsetDateTime;

/// The page with the command that runs, and today's date.
pub(crate) fn html(page: &Page) -> String {
    let mut words = env::args();
    let program = words.next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default();
    let mut command = program.to_string_lossy().into_owned();
    words.for_each(|word| command += &format!(" {}", quoted(&word)));
    let page = page.clone();
    page.made(command, OffsetDateTime::now_utc().date().to_string())
        .html()
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_alphanumeric() || "-_./:=@,%+".contains(char);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_if_they_have_to_be() {
        for (word, expected) in [
            ("--to", "--to"),
            ("10.0.0.1:5060", "10.0.0.1:5060"),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", "'it'\\''s'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
