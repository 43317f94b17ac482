//! A call as text: its ladder, then its messages.

use std::{fmt::Write, net::SocketAddr};

use node::DecisionView;
use sip::Message;

use crate::{
    HEADERS_MAX,
    ladder::{Ladder, Seen, Step, label},
};

/// The distance from one party's line to the next.
const GAP_MIN: usize = 26;

impl Ladder {
    /// The ladder: time in milliseconds since the call began, an arrow for each message, and a line for each
    /// reason. Control characters of peers are shown as dots.
    #[must_use]
    pub fn text(&self) -> String {
        let order = self.columns();
        let names: Vec<String> = order.iter().map(|&party| self.name(party)).collect();
        let labels = self.rungs.iter().filter_map(|rung| match &rung.step {
            Step::Message { label, .. } => Some(label.chars().count() + 14),
            _ => None,
        });
        let widest = names.iter().map(|name| name.len() + 2).chain(labels).max();
        let gap = widest.unwrap_or(0).max(GAP_MIN);
        let mut text = format!("{:>12}  ", "ms");
        for name in &names {
            let _ = write!(text, "{name:<gap$}");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        for rung in &self.rungs {
            let since = rung.at.saturating_sub(self.summary.began).as_secs_f64() * 1e3;
            let line = match &rung.step {
                Step::Message {
                    party,
                    came_in,
                    label,
                    is_repeated,
                    ..
                } => {
                    let again = if *is_repeated { " (again)" } else { "" };
                    let label = format!("{}{again}", printable(label));
                    let (from, to) = if *came_in { (*party, 0) } else { (0, *party) };
                    let at = |party| order.iter().position(|&it| it == party).unwrap_or(0);
                    arrow(order.len(), gap, (at(from), at(to)), &label)
                }
                other => format!("  {}", other.words()),
            };
            let _ = writeln!(text, "{since:>12.3}  {}", line.trim_end());
        }
        text
    }

    /// The ladder, and below it every message as it passed.
    #[must_use]
    pub fn full_text(&self) -> String {
        let mut text = self.text();
        for rung in &self.rungs {
            if let Step::Message {
                party,
                came_in,
                bytes,
                ..
            } = &rung.step
            {
                let since = rung.at.saturating_sub(self.summary.began).as_secs_f64() * 1e3;
                let way = if *came_in { "from" } else { "to" };
                let _ = writeln!(text, "\n--- {since:.3} ms, {way} {}", self.name(*party));
                text += &printable(&String::from_utf8_lossy(bytes).replace("\r\n", "\n"));
            }
        }
        text
    }

    /// The caller, the node, then all others.
    fn columns(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.parties.len()).collect();
        if order.len() > 1 {
            order.swap(0, 1);
        }
        order
    }
}

impl Step {
    /// A reason or a placement in words.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Message { label, .. } => label.clone(),
            Self::Why { why, is_shared } => {
                let other = if *is_shared {
                    " (at this moment, for this call or another)"
                } else {
                    ""
                };
                format!("{}: {}{other}", why.label(), why.help())
            }
            Self::Placed {
                policy,
                chosen,
                seen,
                more,
            } => placement(policy, *chosen, seen, *more),
        }
    }
}

/// A placement in words.
#[must_use]
pub fn placement_words(view: &DecisionView) -> String {
    let seen: Vec<Seen> = view.ledgers.iter().map(Seen::of).collect();
    placement(&view.policy.to_string(), view.chosen, &seen, view.more)
}

/// A message in a few words: what it is, and its Call-ID.
#[must_use]
pub fn gist(bytes: &[u8]) -> String {
    let call_id = Message::parse(bytes, HEADERS_MAX).ok();
    let call_id = call_id
        .and_then(|message| message.call_id().ok())
        .unwrap_or_default();
    let call_id = String::from_utf8_lossy(call_id);
    printable(&format!("{}, Call-ID {call_id}", label(bytes)))
}

fn placement(policy: &str, chosen: Option<SocketAddr>, seen: &[Seen], more: u16) -> String {
    let chosen = chosen.map_or_else(|| "a server".to_owned(), |server| server.to_string());
    let mut seen: Vec<String> = seen.iter().map(Seen::words).collect();
    if more > 0 {
        seen.push(format!("{more} more servers"));
    }
    format!("{policy} chose {chosen}: {}", seen.join("; "))
}

fn arrow(columns: usize, gap: usize, (from, to): (usize, usize), label: &str) -> String {
    let (left, right) = (from.min(to), from.max(to));
    let width = (right - left) * gap - 1;
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

/// Text of peers for a terminal: line ends stay, other control characters become dots.
fn printable(text: &str) -> String {
    let shown = |letter: char| match letter {
        '\n' | '\t' => letter,
        letter if letter.is_control() => '.',
        letter => letter,
    };
    text.chars().map(shown).collect()
}
