//! A call as text: its ladder, then its messages.

use std::{fmt::Write, net::SocketAddr};

use node::DecisionView;
use sip::Message;

use crate::{
    drawing::{GAP_MIN, Line, draw},
    ladder::{Ladder, Seen, Step, label},
    reading::HEADERS_MAX,
};

impl Ladder {
    /// The ladder: time in milliseconds since the call began, an arrow for each message, and a line for each
    /// reason. Control characters of peers are shown as dots.
    #[must_use]
    pub fn text(&self) -> String {
        let names: Vec<String> = (0..self.parties.len()).map(|it| self.name(it)).collect();
        let rungs: Vec<(f64, Line)> = self
            .rungs
            .iter()
            .map(|rung| {
                let since = rung.at.saturating_sub(self.summary.began);
                (since.as_secs_f64() * 1e3, Line::of(&rung.step))
            })
            .collect();
        draw(&names, &rungs, GAP_MIN).join("\n") + "\n"
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

/// Text of peers for a terminal: line ends stay, what steers the terminal becomes dots.
pub(crate) fn printable(text: &str) -> String {
    let shown = |letter: char| match letter {
        '\n' | '\t' => letter,
        letter if steers(letter) => '.',
        letter => letter,
    };
    text.chars().map(shown).collect()
}

/// Whether a letter does something to a terminal: control characters, and those that are not seen or turn the direction
/// of writing.
#[must_use]
pub fn steers(letter: char) -> bool {
    let is_unseen = matches!(
        letter,
        '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
    );
    is_unseen || letter.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name with a right-to-left override made the rest of its line read backwards.
    #[test]
    fn no_name_steers_a_terminal() {
        let name = "a\u{202e}b\u{1b}[2J\u{9b}1m\u{200b}\u{feff}\r\n\tc\u{e9}";
        assert_eq!(printable(name), "a.b.[2J.1m...\n\tc\u{e9}");
    }
}
