//! A table of the file, read key by key. A key that the program did not ask for is an unknown key.

use std::path::Path;

use toml::{
    Spanned,
    de::{DeString, DeTable},
};

use crate::{
    Place, Value,
    report::Report,
    value::{Read, expected},
};

/// A value and the byte of the file where it starts.
#[derive(Clone, Copy, Debug)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Its offset in the file.
    pub at: usize,
}

/// A value of an array.
pub enum Item<'a> {
    /// A table.
    Table(Section<'a>),
    /// Anything else.
    Value(At<&'a Value<'a>>),
}

/// One table of the file.
pub struct Section<'a> {
    report: &'a Report<'a>,
    table: &'a DeTable<'a>,
    /// The name in messages; empty for the file itself.
    name: String,
    at: usize,
    known: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// The file itself.
    pub(crate) fn root(report: &'a Report<'a>, table: &'a DeTable<'a>) -> Self {
        Self::new(report, table, String::new(), 0)
    }

    fn new(report: &'a Report<'a>, table: &'a DeTable<'a>, name: String, at: usize) -> Self {
        Self {
            report,
            table,
            name,
            at,
            known: Vec::new(),
        }
    }

    /// Returns the byte where the section begins.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn file(&self) -> &'a Path {
        self.report.file()
    }

    /// Returns the file's folder, which paths in the file are relative to.
    #[must_use]
    pub fn folder(&self) -> &'a Path {
        self.report.folder()
    }

    /// Returns the place of byte `at`.
    #[must_use]
    pub fn place(&self, at: usize) -> Place {
        self.report.place(at)
    }

    /// Adds a problem of the section as a whole.
    pub fn problem(&self, message: &str) {
        let separator = if self.name.is_empty() { "" } else { ": " };
        let message = format!("{}{separator}{message}", self.name);
        self.report.problem(self.at, message);
    }

    /// Adds a problem of the value of `key`, which starts at byte `at`.
    pub fn problem_of(&self, key: &str, at: usize, message: &str) {
        let path = self.path(key);
        self.report.problem(at, format!("{path}: {message}"));
    }

    /// Returns the value of `key` if the file has it and `read` accepts it.
    pub fn get<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&'a Value<'a>) -> Read<T>,
    ) -> Option<At<T>> {
        let found = self.find(key)?;
        let at = found.span().start;
        match read(found.get_ref()) {
            Ok(value) => Some(At { value, at }),
            Err(message) => {
                self.problem_of(key, at, &message);
                None
            }
        }
    }

    /// Returns the value of `key`, or `default`.
    pub fn get_or<T>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl FnOnce(&'a Value<'a>) -> Read<T>,
    ) -> T {
        self.get(key, read).map_or(default, |found| found.value)
    }

    /// Returns the value of `key`, which the file must have. `advice` tells the operator what to
    /// write.
    pub fn require<T>(
        &mut self,
        key: &'static str,
        advice: &str,
        read: impl FnOnce(&'a Value<'a>) -> Read<T>,
    ) -> Option<At<T>> {
        if !self.has(key) {
            self.problem(&format!("`{key}` is missing: {advice}"));
        }
        self.get(key, read)
    }

    /// Whether the file has `key`, with any value.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Whether the file has `key = false`, which turns a feature off.
    pub fn is_false(&mut self, key: &'static str) -> bool {
        let found = self.find(key).map(Spanned::get_ref);
        matches!(found, Some(Value::Boolean(false)))
    }

    /// Whether the file has `key` with this word, which stands for a table.
    pub fn is_text(&mut self, key: &'static str, word: &str) -> bool {
        let found = self.find(key).map(Spanned::get_ref);
        found.and_then(Value::as_str) == Some(word)
    }

    /// Returns the table `key`; an empty one if it is absent.
    pub fn table(&mut self, key: &'static str) -> Self {
        let (report, name, at) = (self.report, self.path(key), self.at);
        self.given_table(key)
            .unwrap_or_else(|| Self::new(report, &report.empty, name, at))
    }

    /// Returns the table `key` if the file has it.
    pub fn given_table(&mut self, key: &'static str) -> Option<Self> {
        let found = self.get(key, as_table)?;
        Some(Self::new(
            self.report,
            found.value,
            self.path(key),
            found.at,
        ))
    }

    /// Returns the tables in the table `key`, with their names, in the order of the file.
    pub fn named_tables(&mut self, key: &'static str) -> Vec<(String, Self)> {
        let outer = self.table(key);
        let mut entries: Vec<_> = outer.table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let mut sections = Vec::new();
        for (name, value) in entries {
            let at = name.span().start;
            match as_table(value.get_ref()) {
                Ok(table) => {
                    let section = Self::new(self.report, table, outer.path(name.get_ref()), at);
                    sections.push((name.get_ref().to_string(), section));
                }
                Err(message) => outer.problem_of(name.get_ref(), value.span().start, &message),
            }
        }
        sections
    }

    /// Returns the tables in the array `key`.
    pub fn tables(&mut self, key: &'static str) -> Vec<Self> {
        let Some(list) = self.get(key, |value| {
            value
                .as_array()
                .ok_or_else(|| expected("a list of tables", value))
        }) else {
            return Vec::new();
        };
        let path = self.path(key);
        let mut sections = Vec::new();
        for item in list.value.iter() {
            let at = item.span().start;
            match as_table(item.get_ref()) {
                Ok(table) => sections.push(Self::new(self.report, table, path.clone(), at)),
                Err(message) => self.problem_of(key, at, &message),
            }
        }
        sections
    }

    /// Returns the values of the array `key`, or its single value. Tables become sections.
    pub fn items(&mut self, key: &'static str) -> Vec<Item<'a>> {
        let Some(found) = self.find(key) else {
            return Vec::new();
        };
        let path = self.path(key);
        let item = |value: &'a Spanned<Value<'a>>| {
            let (value, at) = (value.get_ref(), value.span().start);
            match value.as_table() {
                Some(table) => Item::Table(Self::new(self.report, table, path.clone(), at)),
                None => Item::Value(At { value, at }),
            }
        };
        match found.get_ref().as_array() {
            Some(array) => array.iter().map(item).collect(),
            None => vec![item(found)],
        }
    }

    /// All keys and values, for tables whose keys the operator chooses.
    pub fn entries(
        &self,
    ) -> impl Iterator<Item = (&'a Spanned<DeString<'a>>, &'a Spanned<Value<'a>>)> + use<'a> {
        self.table.iter()
    }

    /// Adds a problem for every key that the program did not ask for.
    pub fn finish(self) {
        for key in self.table.keys() {
            if self.known.contains(&key.get_ref().as_ref()) {
                continue;
            }
            let hint = hint(key.get_ref(), &self.known);
            let path = self.path(key.get_ref());
            let message = format!("unknown key `{path}`; {hint}");
            self.report.problem(key.span().start, message);
        }
    }

    fn find(&mut self, key: &'static str) -> Option<&'a Spanned<Value<'a>>> {
        self.report.asked(|| self.path(key));
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.table.get(key)
    }

    fn path(&self, key: &str) -> String {
        if self.name.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.name)
        }
    }
}

/// Says what to write instead of `word`: the nearest of `choices`, or any of them.
#[must_use]
pub fn hint(word: &str, choices: &[&str]) -> String {
    let near = choices
        .iter()
        .map(|choice| (distance(word, choice), choice))
        .min()
        .filter(|(distance, _)| *distance <= 1 + word.len() / 3);
    match near {
        Some((_, choice)) => format!("did you mean `{choice}`?"),
        None => format!("choose one of {}", choices.join(", ")),
    }
}

/// The Levenshtein distance of two words, ignoring case.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<u8> = right.to_ascii_lowercase().into_bytes();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, byte) in left.to_ascii_lowercase().into_bytes().iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(byte != other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

fn as_table<'a>(value: &'a Value<'a>) -> Read<&'a DeTable<'a>> {
    value.as_table().ok_or_else(|| expected("a table", value))
}
