//! One line that changes while a load runs, where there is a terminal to show it.

use std::io::{self, IsTerminal, Write};

/// A line on standard error.
pub(super) struct Progress {
    is_shown: bool,
}

impl Progress {
    /// A line, if standard error is a terminal.
    pub(super) fn new() -> Self {
        Self {
            is_shown: io::stderr().is_terminal(),
        }
    }

    /// Shows another text in place of the last.
    pub(super) fn show(&self, text: &str) {
        if self.is_shown {
            // A terminal that is gone needs no progress.
            let _ = write!(io::stderr(), "\r\x1b[K{text}");
        }
    }

    /// Leaves a text where the line was.
    pub(super) fn leave(&self, text: &str) {
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
