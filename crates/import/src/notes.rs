//! What an import says about lines that it did not take over as they are.

use std::{collections::BTreeMap, fmt};

/// A place in one of the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct At {
    /// The file's index.
    pub(crate) file: usize,
    /// The line, from 1.
    pub(crate) line: usize,
}

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Somebody must write something.
    ToDo,
    /// Sipyard can't do it.
    Missing,
    /// Sipyard does it in another way.
    Differs,
    /// Sipyard needs no such line.
    Needless,
}

/// A note on lines of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How much it matters.
    pub kind: Kind,
    /// The file.
    pub file: String,
    /// The lines, from 1.
    pub lines: Vec<usize>,
    /// What stands there, in short.
    pub subject: String,
    /// What becomes of it.
    pub text: String,
}

/// Collects notes. Equal ones on several lines are one.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    found: BTreeMap<(usize, String, String, Kind), Vec<usize>>,
}

impl Notes {
    pub(crate) fn add(&mut self, at: At, kind: Kind, subject: &str, text: impl Into<String>) {
        let key = (at.file, subject.to_owned(), text.into(), kind);
        let lines = self.found.entry(key).or_default();
        if lines.last() != Some(&at.line) {
            lines.push(at.line);
        }
    }

    /// All notes, by file and first line.
    pub(crate) fn finish(self, names: &[&str]) -> Vec<Note> {
        let mut notes: Vec<(usize, Note)> = self
            .found
            .into_iter()
            .map(|((file, subject, text, kind), mut lines)| {
                lines.sort_unstable();
                lines.dedup();
                let file_name = names.get(file).copied().unwrap_or_default().to_owned();
                let note = Note {
                    kind,
                    file: file_name,
                    lines,
                    subject,
                    text,
                };
                (file, note)
            })
            .collect();
        notes.sort_by(|(file, note), (other_file, other)| {
            (file, note.lines.first()).cmp(&(other_file, other.lines.first()))
        });
        notes.into_iter().map(|(_, note)| note).collect()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ToDo => "to do",
            Self::Missing => "missing",
            Self::Differs => "differs",
            Self::Needless => "needless",
        })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.lines.iter().map(ToString::to_string).collect();
        let Self {
            kind,
            file,
            subject,
            text,
            ..
        } = self;
        write!(f, "{file}:{}: {kind}: {subject}: {text}", lines.join(","))
    }
}
