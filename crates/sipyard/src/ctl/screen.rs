//! Fits tables to a terminal: colours for states, and no line that wraps. Pipes get all of it as it is.

use std::{env, io, io::IsTerminal, thread, time::Duration};

use rustix::termios::tcgetwinsize;

/// How often a watched table is shown anew.
const TICK: Duration = Duration::from_secs(1);

/// Words that stand alone in a cell, and their colours.
const COLOURS: [(&str, &str); 14] = [
    ("up", "32"),
    ("serving", "32"),
    ("heard", "32"),
    ("talking", "32"),
    ("slow start", "33"),
    ("draining", "33"),
    ("backing off", "33"),
    ("ringing", "33"),
    ("trying", "33"),
    ("reserve", "33"),
    ("down", "31"),
    ("silent", "31"),
    ("refused", "31"),
    ("lost", "31"),
];

/// The same text for the terminal of standard output.
pub(super) fn fit(text: &str) -> String {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return text.to_owned();
    }
    let width = tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_col));
    let width = if width == 0 { usize::MAX } else { width };
    let has_colour = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    shown(text, width, has_colour)
}

/// Each line cut to the width, with its states coloured.
fn shown(text: &str, width: usize, has_colour: bool) -> String {
    let lines = text.lines().map(|line| {
        let cut = cut(line, width);
        if has_colour { coloured(&cut) } else { cut }
    });
    let lines: Vec<String> = lines.collect();
    lines.join("\n") + "\n"
}

fn cut(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let kept = line.chars().take(width.saturating_sub(1));
    kept.chain(['\u{2026}']).collect()
}

/// Cells stand at least two spaces apart.
fn coloured(line: &str) -> String {
    let mut text = line.to_owned();
    for (word, colour) in COLOURS {
        for (before, after) in [("  ", "  "), (": ", ",")] {
            let plain = format!("{before}{word}{after}");
            if text.contains(&plain) {
                let bright = format!("{before}\x1b[{colour}m{word}\x1b[0m{after}");
                text = text.replace(&plain, &bright);
            }
        }
        let first = format!("{word}  ");
        if text.starts_with(&first) {
            text = format!("\x1b[{colour}m{word}\x1b[0m{}", &text[word.len()..]);
        }
    }
    text
}

/// Waits until the next look.
#[expect(clippy::disallowed_methods, reason = "nothing happens in between")]
pub(super) fn wait() {
    thread::sleep(TICK);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of servers wrapped at 80 columns, so no column stood under its heading.
    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let wide = "x".repeat(200);
        let text = format!("short\n{wide}\n");
        let shown = shown(&text, 80, false);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "short");
        assert_eq!(lines[1].chars().count(), 80);
        assert!(lines[1].ends_with('\u{2026}'));
    }

    #[test]
    fn states_have_colours_where_they_are_cells() {
        let line = "app   tlwl    10.0.0.1:5060  down   downtown  upper";
        let bright = coloured(line);
        assert!(bright.contains("\x1b[31mdown\x1b[0m  "), "{bright}");
        assert_eq!(bright.matches("\x1b[0m").count(), 1, "{bright}");
        assert!(coloured("edge 0.1.0: serving, up 5s").contains("\x1b[32mserving"));
        assert!(coloured("lost    408").starts_with("\x1b[31mlost"));
    }
}
