//! One line that changes while long work goes on, where there is a terminal to show it.

use std::io::{self, IsTerminal, Write};

/// A line on standard error.
pub(crate) struct Progress {
    is_shown: bool,
}

impl Progress {
    /// A line, if standard error is a terminal.
    pub(crate) fn new() -> Self {
        Self {
            is_shown: io::stderr().is_terminal(),
        }
    }

    /// Shows another text in place of the last.
    pub(crate) fn show(&self, text: &str) {
        if self.is_shown {
            // A terminal that is gone needs no progress.
            let _ = write!(io::stderr(), "\r\x1b[K{text}");
        }
    }

    /// Shows how much of some work is done, from 0 to 1.
    pub(crate) fn show_share(&self, what: &str, done: f64) {
        self.show(&format!("{what} {:3.0} %", 100.0 * done));
    }

    /// Leaves a text where the line was.
    pub(crate) fn leave(&self, text: &str) {
        self.show(text);
        self.show_nothing_more();
    }

    fn show_nothing_more(&self) {
        if self.is_shown {
            let _ = writeln!(io::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
}
