//! A line on the terminal that shows the progress of long work.

use std::io::{self, IsTerminal, Write};

/// A line on standard error.
pub(crate) struct Progress {
    is_shown: bool,
}

impl Progress {
    /// Makes a line if standard error is a terminal.
    pub(crate) fn new() -> Self {
        Self {
            is_shown: io::stderr().is_terminal(),
        }
    }

    /// Replaces the text of the line.
    pub(crate) fn show(&self, text: &str) {
        if self.is_shown {
            // A terminal that is gone needs no progress.
            let _ = write!(io::stderr(), "\r\x1b[K{text}");
        }
    }

    /// Shows how much of the work is done, from 0 to 1.
    pub(crate) fn show_share(&self, what: &str, done: f64) {
        self.show(&format!("{what} {:3.0} %", 100.0 * done));
    }

    /// Leaves a last text in place of the line.
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
