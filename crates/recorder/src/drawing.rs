//! Draws a ladder with letters: a column for each party, a line for each thing that happened.

use crate::{ladder::Step, text::printable};

/// The usual distance from one party's column to the next.
pub const GAP_MIN: usize = 26;

/// A line of a ladder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A message between two parties.
    Arrow {
        /// Who sent it; the first party is the node.
        from: usize,
        /// Who got it.
        to: usize,
        /// What it is.
        label: String,
        /// Whether the same passed before.
        is_repeated: bool,
    },
    /// A reason.
    Words(String),
}

impl Line {
    pub(crate) fn of(step: &Step) -> Self {
        match step {
            Step::Message {
                party,
                came_in,
                label,
                is_repeated,
                ..
            } => {
                let (from, to) = if *came_in { (*party, 0) } else { (0, *party) };
                Self::Arrow {
                    from,
                    to,
                    label: label.clone(),
                    is_repeated: *is_repeated,
                }
            }
            other => Self::Words(other.words()),
        }
    }
}

/// The lines of a ladder: first the names of the parties, then what happened, each with its milliseconds. The caller,
/// who is the second party, has the first column. Columns are `gap` letters apart, or more if a label needs that.
#[must_use]
pub fn draw(names: &[String], rungs: &[(f64, Line)], gap: usize) -> Vec<String> {
    let order = columns(names.len());
    let labels = rungs.iter().filter_map(|(_, line)| match line {
        Line::Arrow { label, .. } => Some(label.chars().count() + 14),
        Line::Words(_) => None,
    });
    let widest = names.iter().map(|name| name.len() + 2).chain(labels).max();
    let gap = widest.unwrap_or(0).max(gap);
    let mut head = format!("{:>12}  ", "ms");
    for &party in &order {
        head += &format!("{:<gap$}", names[party]);
    }
    let at = |party| order.iter().position(|&it| it == party).unwrap_or(0);
    let lines = rungs.iter().map(|(since, line)| {
        let line = match line {
            Line::Arrow {
                from,
                to,
                label,
                is_repeated,
            } => {
                let again = if *is_repeated { " (again)" } else { "" };
                let label = format!("{}{again}", printable(label));
                arrow(order.len(), gap, (at(*from), at(*to)), &label)
            }
            Line::Words(words) => format!("  {words}"),
        };
        format!("{since:>12.3}  {}", line.trim_end())
    });
    std::iter::once(head.trim_end().to_owned())
        .chain(lines)
        .collect()
}

/// The caller, the node, then all others.
fn columns(parties: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..parties).collect();
    if parties > 1 {
        order.swap(0, 1);
    }
    order
}

fn arrow(columns: usize, gap: usize, (from, to): (usize, usize), label: &str) -> String {
    let (left, right) = (from.min(to), from.max(to));
    let width = ((right - left) * gap).saturating_sub(1);
    let mut line = String::new();
    for column in 0..columns {
        if column == left {
            line.push('|');
            let dashes = format!("{:-^1$}", format!(" {label} "), width.saturating_sub(1));
            match from < to {
                true => line += &format!("{dashes}>"),
                false => line += &format!("<{dashes}"),
            }
        } else if column < left || column >= right {
            line.push('|');
            if column + 1 < columns {
                line.extend(std::iter::repeat_n(' ', gap - 1));
            }
        }
    }
    line
}
