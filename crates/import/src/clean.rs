//! Takes comments and what the preprocessor leaves out from a script, and replaces defined names.
//! Lines keep their numbers.

use std::collections::BTreeMap;

use crate::notes::{At, Kind, Notes};

/// Replacements of one line; a definition may name another, but no chain is longer.
const ROUNDS_MAX: usize = 8;
/// A line that grows longer than this by replacements stays as it is.
const LINE_BYTES_MAX: usize = 65_536;

/// The script without comments, each line as the parser of its program sees it.
pub(crate) fn clean(file: usize, text: &str, notes: &mut Notes) -> String {
    let mut preprocessor = Preprocessor::default();
    let mut comments = Comments::default();
    let mut out = String::with_capacity(text.len());
    for (index, line) in text.lines().enumerate() {
        let at = At {
            file,
            line: index + 1,
        };
        let directive = line.trim_start();
        let is_directive = !comments.is_open() && is_directive(directive);
        if is_directive {
            preprocessor.take(&directive[2..], at, notes);
        } else if preprocessor.is_active() {
            out.push_str(&preprocessor.replace(&comments.strip(line)));
        }
        out.push('\n');
    }
    out
}

fn is_directive(line: &str) -> bool {
    (line.starts_with("#!") || line.starts_with("!!"))
        && line[2..].starts_with(|first: char| first.is_ascii_lowercase())
}

#[derive(Default)]
struct Preprocessor {
    words: BTreeMap<String, String>,
    texts: Vec<(String, String)>,
    /// For each open condition, whether its lines count.
    open: Vec<bool>,
}

impl Preprocessor {
    fn is_active(&self) -> bool {
        self.open.iter().all(|active| *active)
    }

    fn take(&mut self, directive: &str, at: At, notes: &mut Notes) {
        let (name, rest) = directive
            .split_once(char::is_whitespace)
            .unwrap_or((directive, ""));
        let rest = rest.trim();
        let (word, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        match name {
            "ifdef" => self.open.push(self.words.contains_key(word)),
            "ifndef" => self.open.push(!self.words.contains_key(word)),
            "ifexp" => {
                self.open.push(false);
                let text = "the condition was taken as false";
                notes.add(at, Kind::ToDo, "#!ifexp", text);
            }
            "else" => {
                if let Some(last) = self.open.last_mut() {
                    *last = !*last;
                }
            }
            "endif" => drop(self.open.pop()),
            _ if !self.is_active() => {}
            "define" | "redefine" => drop(self.words.insert(word.to_owned(), value.to_owned())),
            "trydef" | "trydefine" => {
                self.words
                    .entry(word.to_owned())
                    .or_insert_with(|| value.to_owned());
            }
            "subst" | "substdef" | "substdefs" => self.substitute(name, rest, at, notes),
            "defenv" | "trydefenv" | "defenvs" | "trydefenvs" => {
                let text = "the value is in the environment, which an import can't see";
                notes.add(at, Kind::ToDo, rest, text);
            }
            _ => {}
        }
    }

    /// `"!NAME!VALUE!g"`, with any separator.
    fn substitute(&mut self, name: &str, rest: &str, at: At, notes: &mut Notes) {
        let rule = rest.trim_matches(['"', '\'']);
        let mut parts = rule
            .chars()
            .next()
            .map(|by| rule[by.len_utf8()..].split(by));
        let pair = parts.as_mut().and_then(|it| Some((it.next()?, it.next()?)));
        let plain =
            |text: &str| !text.is_empty() && !text.contains(['\\', '*', '[', '(', '^', '+']);
        match pair {
            Some((from, to)) if plain(from) => {
                if name != "subst" {
                    self.words.insert(from.to_owned(), to.to_owned());
                }
                self.texts.push((from.to_owned(), to.to_owned()));
            }
            _ => notes.add(at, Kind::ToDo, rest, "this substitution was not made"),
        }
    }

    fn replace(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (from, to) in &self.texts {
            if line.contains(from.as_str()) && line.len() < LINE_BYTES_MAX {
                line = line.replace(from.as_str(), to);
            }
        }
        for _ in 0..ROUNDS_MAX {
            match self.replace_words(&line) {
                Some(next) if next.len() < LINE_BYTES_MAX => line = next,
                _ => break,
            }
        }
        line
    }

    /// The line with each defined word replaced, but not within strings; none if there is none.
    fn replace_words(&self, line: &str) -> Option<String> {
        let mut out = String::new();
        let mut rest = line;
        let mut quote = None;
        let mut changed = false;
        while let Some(first) = rest.chars().next() {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let length = match quote {
                None if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                _ => first.len_utf8(),
            };
            let (token, next) = rest.split_at(length);
            match quote {
                Some(open) if open == first => quote = None,
                None if first == '"' || first == '\'' => quote = Some(first),
                _ => {}
            }
            let value = self.words.get(token).filter(|_| quote.is_none());
            let value = value.filter(|value| !value.is_empty() && *value != token);
            changed |= value.is_some();
            out.push_str(value.map_or(token, String::as_str));
            rest = next;
        }
        changed.then_some(out)
    }
}

/// Removes comments, line by line.
#[derive(Default)]
struct Comments {
    in_block: bool,
    quote: Option<char>,
}

impl Comments {
    fn is_open(&self) -> bool {
        self.in_block || self.quote.is_some()
    }

    fn strip(&mut self, line: &str) -> String {
        let mut out = String::with_capacity(line.len());
        let mut chars = line.char_indices();
        while let Some((at, c)) = chars.next() {
            let rest = &line[at..];
            if self.in_block {
                if rest.starts_with("*/") {
                    chars.next();
                    self.in_block = false;
                }
            } else if let Some(open) = self.quote {
                out.push(c);
                if c == '\\' {
                    out.extend(chars.next().map(|(_, escaped)| escaped));
                } else if c == open {
                    self.quote = None;
                }
            } else if rest.starts_with("/*") {
                chars.next();
                self.in_block = true;
            } else if c == '#' || (rest.starts_with("//") && !line[..at].ends_with(':')) {
                break;
            } else {
                if c == '"' || c == '\'' {
                    self.quote = Some(c);
                }
                out.push(c);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &str) -> String {
        clean(0, text, &mut Notes::default())
    }

    #[test]
    fn conditions_definitions_and_comments_are_resolved() {
        let cases = [
            ("a=1 # b", "a=1 \n"),
            ("a=\"#\" // c", "a=\"#\" \n"),
            ("a /* b\nc */ d", "a \n d\n"),
            ("#!define X 5\na=X \"X\"", "\na=5 \"X\"\n"),
            (
                "#!define X\n#!ifdef X\na\n#!else\nb\n#!endif\nc",
                "\n\na\n\n\n\nc\n",
            ),
            ("#!ifndef X\na\n#!endif", "\na\n\n"),
            (
                "#!subst \"/HERE/10.0.0.1/g\"\nl=\"udp:HERE\"",
                "\nl=\"udp:10.0.0.1\"\n",
            ),
            ("#!define A B\n#!define B A\nA", "\n\nA\n"),
        ];
        for (text, expected) in cases {
            assert_eq!(cleaned(text), expected, "{text}");
        }
    }
}
