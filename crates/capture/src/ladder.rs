//! Draws a flow as text: parties are columns, messages are arrows.

use std::fmt::Write;

use crate::{Rung, Study};

/// The distance from one party's line to the next.
const GAP_MIN: usize = 24;

impl Study {
    /// The messages of one call of the flow, each with its number and its time since the first in
    /// milliseconds.
    #[must_use]
    pub fn ladder_text(&self) -> String {
        let places = self.places.len();
        let texts = self
            .ladder
            .iter()
            .enumerate()
            .map(|(number, rung)| label(number, rung).chars().count());
        let gap = texts.max().unwrap_or(0).saturating_add(6).max(GAP_MIN);
        let mut text = format!("{:>12}  ", "ms");
        for place in 0..places {
            let name = &self.places[place].name;
            let width = if place + 1 < places { gap } else { 0 };
            let _ = write!(text, "{name:<width$}");
        }
        text.push('\n');
        for (number, rung) in self.ladder.iter().enumerate() {
            let _ = writeln!(
                text,
                "{:>12.3}  {}",
                rung.offset_ms,
                line(places, gap, number, rung)
            );
        }
        text
    }
}

fn label(number: usize, rung: &Rung) -> String {
    format!("{} {}", number + 1, rung.message)
}

fn line(places: usize, gap: usize, number: usize, rung: &Rung) -> String {
    let (source, destination) = rung.ends;
    let (left, right) = (source.min(destination), source.max(destination));
    let mut line = String::new();
    for place in 0..places {
        // An arrow to a farther place passes over the lines between.
        if place <= left || place >= right {
            line.push('|');
        }
        if place + 1 == places {
            break;
        }
        if place != left {
            if place < left || place >= right {
                line.extend(std::iter::repeat_n(' ', gap - 1));
            }
            continue;
        }
        let width = gap * (right - left) - 2;
        let dashes = format!("{:-^1$}", format!(" {} ", label(number, rung)), width);
        match source < destination {
            true => line += &format!("{dashes}>"),
            false => line += &format!("<{dashes}"),
        }
    }
    line
}
