//! The page of all keys, from the sample that the tests hold against the code.

use std::fmt::Write;

const SAMPLE: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../etc/sipyard.toml"
));

/// A key of the sample.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    section: String,
    name: String,
    /// As the sample writes it.
    value: String,
    text: String,
}

/// The page, in Markdown.
pub(super) fn page() -> String {
    let mut out = "# Keys of the configuration\n\n\
        The page is made from `etc/sipyard.toml`; tests hold that file against the program. A key marked with a \
        star takes\neffect at the next start.\n"
        .to_owned();
    let mut section = String::new();
    for key in keys() {
        if key.section != section {
            section.clone_from(&key.section);
            write!(
                out,
                "\n## {section}\n\n| key | in the sample | meaning |\n|---|---|---|\n"
            )
            .expect("a text");
        }
        let cell = |text: &str| text.replace('|', "\\|").replace('<', "&lt;");
        let value = match key.value.as_str() {
            "" => String::new(),
            value => format!("`{}`", value.replace('|', "\\|")),
        };
        writeln!(out, "| `{}` | {value} | {} |", key.name, cell(&key.text)).expect("a text");
    }
    out
}

/// The keys in their order. A line that begins further right goes on with the comment before it.
fn keys() -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    let mut section = String::new();
    for line in SAMPLE.lines() {
        let plain = line.strip_prefix("# ").unwrap_or(line);
        if let Some(text) = line.strip_prefix("                            # ") {
            if let Some(key) = keys.last_mut() {
                key.text.push(' ');
                key.text.push_str(text.trim());
            }
        } else if plain.starts_with('[') {
            let end = plain.find(" #").unwrap_or(plain.len());
            section = plain[..end].trim().to_owned();
            let text = plain[end..].trim_start_matches([' ', '#']).to_owned();
            let name = "(the section)".to_owned();
            keys.push(Key {
                section: section.clone(),
                name,
                value: String::new(),
                text,
            });
        } else if let Some((name, rest)) = key_of(plain)
            && !section.is_empty()
        {
            let (value, text) = split_comment(rest);
            keys.push(Key {
                section: section.clone(),
                name: name.to_owned(),
                value: value.trim().to_owned(),
                text: text.trim().to_owned(),
            });
        }
    }
    keys
}

fn key_of(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once('=')?;
    let name = name.trim();
    let is_name = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    is_name.then_some((name, rest))
}

/// A value, and the comment behind it.
fn split_comment(rest: &str) -> (&str, &str) {
    let mut quoted = false;
    for (at, c) in rest.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => return (&rest[..at], &rest[at + 1..]),
            _ => {}
        }
    }
    (rest, "")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config;

    /// A file that makes the program ask for every key there is.
    const ASKS: &str = r#"
node = { secret = "x" }
listen = [ { transport = "tls", address = "127.0.0.1:5061" } ]
pool = { app = { servers = [ { address = "127.0.0.1:1" } ] } }
route = [ { to = "app" } ]
registrar = { domains = ["a.example"], store = "memory" }
cluster = { store = "redis://127.0.0.1:1" }
"#;

    #[test]
    fn the_page_has_every_key_that_the_program_asks_for() {
        let known = keys();
        let inline = |name: &str| {
            known
                .iter()
                .any(|key| key.value.contains(name) || key.text.contains(name))
        };
        let mut missing: Vec<String> = Vec::new();
        for path in config::keys(Path::new("x.toml"), ASKS) {
            let name = path.rsplit('.').next().unwrap_or_default();
            let is_key = known
                .iter()
                .any(|key| key.name == name || key.section.contains(name));
            if !is_key && !inline(name) {
                missing.push(path);
            }
        }
        assert!(
            missing.is_empty(),
            "etc/sipyard.toml does not show {missing:?}"
        );
    }
}
