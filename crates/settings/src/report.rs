//! The problems of a file, each with its place.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
};

use toml::de::DeTable;

/// A place in a file, as editors and compilers write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    file: PathBuf,
    /// Line and column, both from 1, the column in characters; none for the file as a whole.
    position: Option<(usize, usize)>,
}

impl Place {
    /// The file as a whole.
    #[must_use]
    pub fn file(path: &Path) -> Self {
        Self {
            file: path.to_owned(),
            position: None,
        }
    }

    fn line(&self) -> Option<usize> {
        self.position.map(|(line, _)| line)
    }

    /// Makes a problem at this place.
    #[must_use]
    pub fn problem(&self, message: impl Into<String>) -> Problem {
        Problem {
            place: self.clone(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        match self.position {
            Some((line, column)) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}

/// A problem at a place: what is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    place: Place,
    message: String,
}

impl Problem {
    /// The file, and the line and column if it is not about the file as a whole.
    #[must_use]
    pub fn place(&self) -> (&Path, Option<(usize, usize)>) {
        (&self.place.file, self.place.position)
    }

    /// What is wrong, and what to do about it.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Collects the problems of one file while it is read.
pub(crate) struct Report<'a> {
    path: &'a Path,
    text: &'a str,
    problems: RefCell<Vec<Problem>>,
    /// The paths of the keys that were asked for, if somebody wants them.
    asked: Option<RefCell<BTreeSet<String>>>,
    /// What an absent section yields: its defaults, or problems for the keys that are required.
    pub(crate) empty: DeTable<'a>,
}

impl<'a> Report<'a> {
    /// Makes an empty report on the file at `path`, which contains `text`.
    pub(crate) fn new(path: &'a Path, text: &'a str) -> Self {
        Self {
            path,
            text,
            problems: RefCell::default(),
            asked: None,
            empty: DeTable::new(),
        }
    }

    /// The same, which remembers the keys that are asked for.
    pub(crate) fn recording(path: &'a Path, text: &'a str) -> Self {
        Self {
            asked: Some(RefCell::default()),
            ..Self::new(path, text)
        }
    }

    pub(crate) fn asked(&self, path: impl FnOnce() -> String) {
        if let Some(asked) = &self.asked {
            asked.borrow_mut().insert(path());
        }
    }

    pub(crate) fn into_asked(self) -> BTreeSet<String> {
        self.asked.map_or_else(BTreeSet::new, RefCell::into_inner)
    }

    pub(crate) fn file(&self) -> &'a Path {
        self.path
    }

    pub(crate) fn folder(&self) -> &'a Path {
        self.path.parent().unwrap_or_else(|| Path::new(""))
    }

    /// Adds a problem at byte `at` of the file.
    pub(crate) fn problem(&self, at: usize, message: impl Into<String>) {
        let problem = self.place(at).problem(message);
        self.problems.borrow_mut().push(problem);
    }

    /// Adds a syntax error at byte `at`. Further syntax errors of the same line follow from the
    /// first, so they are left out.
    pub(crate) fn syntax(&self, at: usize, message: &str) {
        let place = self.place(at);
        let mut problems = self.problems.borrow_mut();
        if !problems
            .iter()
            .any(|known| known.place.line() == place.line())
        {
            problems.push(place.problem(format!("not TOML: {message}")));
        }
    }

    /// The place of byte `at` of the file.
    pub(crate) fn place(&self, at: usize) -> Place {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before[line_start..].chars().count() + 1;
        Place {
            file: self.path.to_owned(),
            position: Some((line, column)),
        }
    }

    /// Whether there are no problems.
    pub(crate) fn is_clean(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// All problems, in the order of the file.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.place.position);
        problems
    }
}
