//! Reads scripts: settings, parameters of modules, and the functions that routes call.

use crate::{
    clean::clean,
    notes::{At, Kind, Notes},
};

/// One thing that a script says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) at: At,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// `name=value`, outside of routes.
    Setting { name: String, value: String },
    /// `modparam("module", "name", value)`; one for each of the modules.
    Param {
        module: String,
        name: String,
        value: String,
    },
    /// A function that a route calls.
    Call { name: String, args: Vec<String> },
    /// What a route writes to, such as `$ru`.
    Assign(String),
}

/// Whether a text is a script.
pub(crate) fn is_script(text: &str) -> bool {
    let starts = |line: &str| {
        let line = line.trim_start();
        [
            "#!KAMAILIO",
            "#!OPENSER",
            "#!SER",
            "loadmodule ",
            "modparam(",
        ]
        .iter()
        .any(|start| line.starts_with(start))
            || (line.starts_with("route") || line.starts_with("request_route"))
                && line.trim_end().ends_with('{')
            || (line.starts_with("listen") || line.starts_with("socket")) && line.contains('=')
    };
    text.lines().any(starts)
}

/// Reads a script.
pub(crate) fn statements(file: usize, text: &str, notes: &mut Notes) -> Vec<Statement> {
    let text = clean(file, text, notes);
    let mut reader = Reader {
        rest: &text,
        at: At { file, line: 1 },
        found: Vec::new(),
    };
    reader.read(notes);
    reader.found
}

struct Reader<'a> {
    rest: &'a str,
    at: At,
    found: Vec<Statement>,
}

impl<'a> Reader<'a> {
    fn read(&mut self, notes: &mut Notes) {
        while let Some(first) = self.rest.chars().next() {
            if !is_word(first) {
                self.skip(first.len_utf8());
                continue;
            }
            let at = self.at;
            let name = self.word();
            if name.ends_with("route") {
                self.body();
                continue;
            }
            self.blank(" \t");
            if self.rest.starts_with('=') {
                self.skip(1);
                let value = self.line();
                let name = name.to_owned();
                self.add(at, What::Setting { name, value });
            } else if name == "modparam" && self.rest.starts_with('(') {
                self.param(at);
            } else if ["include_file", "import_file"].contains(&name) {
                let text = "give this file to the import, too";
                notes.add(at, Kind::ToDo, &format!("{name} {}", self.line()), text);
            } else if name != "loadmodule" && name != "loadpath" {
                // `group.name = value` is for the script itself.
                if self.rest.starts_with('.') {
                    self.line();
                }
            } else {
                self.line();
            }
        }
    }

    fn param(&mut self, at: At) {
        let (args, end) = arguments(self.rest);
        self.skip(end);
        let [modules, name, value] = &args[..] else {
            return;
        };
        for module in modules.split('|') {
            let what = What::Param {
                module: module.trim().to_owned(),
                name: name.clone(),
                value: value.clone(),
            };
            self.add(at, what);
        }
    }

    /// A route's name and its block.
    fn body(&mut self) {
        let Some(open) = self.rest.find('{') else {
            self.rest = "";
            return;
        };
        let is_name = |c: char| is_word(c) || c.is_whitespace() || "[]:\"'".contains(c);
        if !self.rest[..open].chars().all(is_name) {
            return;
        }
        self.skip(open + 1);
        let mut depth = 1;
        while depth > 0
            && let Some(first) = self.rest.chars().next()
        {
            match first {
                '{' => depth += 1,
                '}' => depth -= 1,
                '"' | '\'' => {
                    let end = string_end(self.rest, first);
                    self.skip(end);
                    continue;
                }
                '$' => {
                    self.variable();
                    continue;
                }
                _ if is_word(first) => {
                    self.call();
                    continue;
                }
                _ => {}
            }
            self.skip(first.len_utf8());
        }
    }

    /// A function's call; its arguments are read again, for the calls in them.
    fn call(&mut self) {
        let at = self.at;
        let name = self.word();
        self.blank(" \t");
        let is_keyword = [
            "if", "while", "switch", "return", "route", "case", "else", "for", "and", "or", "not",
        ];
        if self.rest.starts_with('(') && !is_keyword.contains(&name) {
            let (args, _) = arguments(self.rest);
            let name = name.to_owned();
            self.add(at, What::Call { name, args });
        }
    }

    /// A variable, and whether it is written to.
    fn variable(&mut self) {
        let at = self.at;
        self.skip(1);
        let name = self.word().to_owned();
        if self.rest.starts_with('(') {
            let end = arguments(self.rest).1;
            self.skip(end);
        }
        self.blank(" \t");
        if self.rest.starts_with('=') && !self.rest.starts_with("==") {
            self.add(at, What::Assign(name));
        }
    }

    fn add(&mut self, at: At, what: What) {
        self.found.push(Statement { at, what });
    }

    fn word(&mut self) -> &'a str {
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let word = &self.rest[..end];
        self.rest = &self.rest[end..];
        word
    }

    fn blank(&mut self, chars: &str) {
        self.rest = self.rest.trim_start_matches(|c| chars.contains(c));
    }

    /// The rest of the line, without a semicolon.
    fn line(&mut self) -> String {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        let line = self.rest[..end].trim().trim_end_matches(';').trim();
        let line = line.to_owned();
        self.skip(end);
        line
    }

    fn skip(&mut self, bytes: usize) {
        let (done, rest) = self.rest.split_at(bytes);
        self.at.line += done.matches('\n').count();
        self.rest = rest;
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Where a string ends that begins with this quote.
fn string_end(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The arguments in parentheses, without their quotes, and where the parentheses end.
fn arguments(text: &str) -> (Vec<String>, usize) {
    let mut args = vec![String::new()];
    let (mut depth, mut at) = (0, 0);
    while let Some(c) = text[at..].chars().next() {
        if c == '"' || c == '\'' {
            let end = at + string_end(&text[at..], c);
            let inner = text[at + 1..end]
                .strip_suffix(c)
                .unwrap_or_else(|| &text[at + 1..end]);
            args.last_mut().expect("never empty").push_str(inner);
            at = end;
            continue;
        }
        at += c.len_utf8();
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        match (c, depth) {
            (')', 0) => break,
            (',', 1) => args.push(String::new()),
            ('(', 1) => {}
            _ => args.last_mut().expect("never empty").push(c),
        }
    }
    for arg in &mut args {
        *arg = arg.trim().to_owned();
    }
    if args == [""] {
        args.clear();
    }
    (args, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_becomes_statements_with_their_lines() {
        let text = "#!KAMAILIO\nlisten=udp:10.0.0.1:5060 advertise 1.2.3.4:5060\n\
                    loadmodule \"tm.so\"\nmodparam(\"a|b\", \"c\",\n  \"d, e\")\n\
                    request_route {\n  if (is_method(\"INVITE\") && uri == myself) {\n\
                    $ru = \"sip:\" + $rU + f(1);\n  t_relay();\n }\n}\ntcp.x = 1\n";
        let found = statements(0, text, &mut Notes::default());
        let shown: Vec<String> = found
            .iter()
            .map(|it| format!("{} {}", it.at.line, show(&it.what)))
            .collect();
        let expected = [
            "2 listen=udp:10.0.0.1:5060 advertise 1.2.3.4:5060",
            "4 a.c=d, e",
            "4 b.c=d, e",
            "7 is_method(INVITE)",
            "8 $ru",
            "8 f(1)",
            "9 t_relay()",
        ];
        assert_eq!(shown, expected);
    }

    fn show(what: &What) -> String {
        match what {
            What::Setting { name, value } => format!("{name}={value}"),
            What::Param {
                module,
                name,
                value,
            } => format!("{module}.{name}={value}"),
            What::Call { name, args } => format!("{name}({})", args.join(",")),
            What::Assign(name) => format!("${name}"),
        }
    }

    #[test]
    fn broken_scripts_end() {
        for text in [
            "route {",
            "route[",
            "modparam(\"",
            "a=\"",
            "route { f(\"",
            "route { $x(",
        ] {
            statements(0, text, &mut Notes::default());
        }
    }
}
