//! Draws the demo on a terminal: ten whole frames a second.

use std::{
    env,
    io::{self, Write},
};

use rustix::termios::tcgetwinsize;

use super::{frame::frame, scene::Scene};

/// Selects the alternate screen, hides the cursor and turns wrapping off, so that long lines are
/// cut.
const TAKE: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const GIVE_BACK: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Makes each frame appear at once: terminals that know this mode hold the output back until its
/// end.
const BEGIN: &str = "\x1b[?2026h\x1b[H";
const END: &str = "\x1b[J\x1b[?2026l";

/// Columns and rows of a terminal that does not report its size.
const SIZE: (usize, usize) = (80, 24);

/// The terminal, which the demo controls until this is dropped.
#[derive(Debug)]
pub(super) struct Screen {
    has_colors: bool,
}

impl Screen {
    /// Takes control of the terminal.
    pub(super) fn open() -> io::Result<Self> {
        let has_colors = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        write(TAKE)?;
        Ok(Self { has_colors })
    }

    /// Draws the scene.
    pub(super) fn show(&self, scene: &Scene) -> io::Result<()> {
        let (columns, rows) = size();
        let lines = frame(scene, columns, rows, self.has_colors);
        let lines: Vec<String> = lines.iter().map(|line| format!("{line}\x1b[K")).collect();
        write(&[BEGIN, &lines.join("\r\n"), END].concat())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = write(GIVE_BACK);
    }
}

fn size() -> (usize, usize) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => SIZE,
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
