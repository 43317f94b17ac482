//! How words look.

use ratatui::style::{Color, Modifier, Style};

/// Headings of tables.
pub(super) const HEADING: Style = Style::new().add_modifier(Modifier::BOLD);
/// The row that is chosen.
pub(super) const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

/// The colour of a state, which its word tells as well.
pub(super) fn state_style(state: &str) -> Style {
    let colour = match state {
        "up" | "talking" => Color::Green,
        "down" | "lost" | "refused" => Color::Red,
        "slow start" | "draining" | "backing off" | "reserve" | "ringing" | "trying" => {
            Color::Yellow
        }
        _ => return Style::new(),
    };
    Style::new().fg(colour)
}
