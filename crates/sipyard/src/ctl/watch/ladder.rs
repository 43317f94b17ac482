//! One call: its ladder, and the chosen message.

use ratatui::{
    Frame,
    crossterm::event::KeyCode,
    layout::{Constraint, Layout, Rect},
    style::Stylize,
    text::{Line, Span},
    widgets::{List, ListItem, ListState, Paragraph, Wrap},
};
use recorder::drawing;

use super::style::{CHOSEN, HEADING, state_style};
use crate::{
    calls::{Call, Rung, What},
    ctl::table::{call_row, printable},
};

/// Columns that an arrow moves by.
const SIDE: usize = 8;
/// Lines that a page key moves the message by.
const PAGE: u16 = 5;
/// From this width the message is beside the ladder.
const WIDE: u16 = 170;
/// The distance of the parties' columns where there is little room.
const GAP: usize = 22;

/// A call that is open.
pub(super) struct Ladder {
    pub(super) call_id: String,
    call: Option<Call>,
    chosen: usize,
    left: usize,
    /// The first line of the message that is shown.
    top: u16,
    rows: ListState,
}

impl Ladder {
    /// A call that the node is asked for.
    pub(super) fn of(call_id: String) -> Self {
        Self {
            call_id,
            call: None,
            chosen: 0,
            left: 0,
            top: 0,
            rows: ListState::default(),
        }
    }

    /// Takes the call as it is now. What was chosen stays so, also when the first rungs were left out.
    pub(super) fn take(&mut self, call: Call) {
        let before = self.call.as_ref().map_or(0, |it| it.left_out);
        let gone = call.left_out.saturating_sub(before);
        self.chosen = self.chosen.saturating_sub(gone);
        self.chosen = self.chosen.min(call.rungs.len().saturating_sub(1));
        self.call = Some(call);
    }

    /// Chooses and scrolls.
    pub(super) fn step(&mut self, code: KeyCode) {
        let rungs = self.call.as_ref().map_or(0, |it| it.rungs.len());
        let last = rungs.saturating_sub(1);
        let chosen = match code {
            KeyCode::Down => self.chosen + 1,
            KeyCode::Up => self.chosen.saturating_sub(1),
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => self.chosen,
        };
        match code {
            KeyCode::Left => self.left = self.left.saturating_sub(SIDE),
            KeyCode::Right => self.left += SIDE,
            KeyCode::PageDown => self.top = self.top.saturating_add(PAGE),
            KeyCode::PageUp => self.top = self.top.saturating_sub(PAGE),
            _ => {}
        }
        let chosen = chosen.min(last);
        if chosen != self.chosen {
            (self.chosen, self.top) = (chosen, 0);
        }
    }

    /// What is told of the chosen rung: its message, or a reason.
    fn message(&self) -> String {
        let call = self.call.as_ref();
        let Some((call, rung)) = call.and_then(|call| Some((call, call.rungs.get(self.chosen)?)))
        else {
            return String::new();
        };
        match &rung.what {
            What::Message {
                party,
                transport,
                came_in,
                text,
                ..
            } => {
                let way = if *came_in { "from" } else { "to" };
                let lines = text.lines().map(printable);
                let lines: Vec<String> = lines.collect();
                format!(
                    "{way} {} by {transport}\n{}",
                    name(call, *party),
                    lines.join("\n")
                )
            }
            What::Why { text } | What::Placed { text, .. } => printable(text),
        }
    }
}

/// Who took part.
fn name(call: &Call, party: usize) -> String {
    let Some(party) = call.parties.get(party) else {
        return String::new();
    };
    let address = party.address.map(|address| address.to_string());
    let words = [Some(printable(&party.role)), address];
    let words: Vec<String> = words.into_iter().flatten().collect();
    words.join(" ").trim().to_owned()
}

fn line(rung: &Rung) -> drawing::Line {
    match &rung.what {
        What::Message {
            party,
            came_in,
            label,
            is_repeated,
            ..
        } => {
            let (from, to) = if *came_in { (*party, 0) } else { (0, *party) };
            drawing::Line::Arrow {
                from,
                to,
                label: printable(label),
                is_repeated: *is_repeated,
            }
        }
        What::Why { text } | What::Placed { text, .. } => drawing::Line::Words(printable(text)),
    }
}

/// The lines of the ladder, the parties' names first.
fn lines(call: &Call) -> Vec<String> {
    let names: Vec<String> = (0..call.parties.len()).map(|it| name(call, it)).collect();
    let rungs: Vec<_> = call
        .rungs
        .iter()
        .map(|it| (it.at * 1e3, line(it)))
        .collect();
    drawing::draw(&names, &rungs, GAP)
}

/// Draws the call.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, ladder: &mut Ladder, now: f64) {
    let [title, gist, body] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
    ])
    .areas(area);
    frame.render_widget(
        Line::from(format!("Call {}", printable(&ladder.call_id))),
        title,
    );
    let Some(call) = &ladder.call else {
        return;
    };
    frame.render_widget(told(call, now), gist);
    let halves = [Constraint::Percentage(55), Constraint::Percentage(45)];
    let [rungs, message] = match area.width >= WIDE {
        true => Layout::horizontal(halves).spacing(1).areas(body),
        false => Layout::vertical(halves).areas(body),
    };
    let left = ladder.left;
    let lines = lines(call);
    let cut = |line: &String| line.chars().skip(left).collect::<String>();
    let [head, rungs] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(rungs);
    frame.render_widget(
        Line::from(lines.first().map(cut).unwrap_or_default()).style(HEADING),
        head,
    );
    let items = lines.iter().skip(1).map(|line| ListItem::new(cut(line)));
    let list = List::new(items.collect::<Vec<_>>()).highlight_style(CHOSEN);
    ladder.rows.select(Some(ladder.chosen));
    frame.render_stateful_widget(list, rungs, &mut ladder.rows);
    let [edge, text] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(message);
    let rule = "\u{2500}".repeat(edge.width.into());
    frame.render_widget(Line::from(rule).dim(), edge);
    let shown = ladder.message();
    // The last line stays in sight.
    let last = u16::try_from(shown.lines().count()).unwrap_or(u16::MAX);
    ladder.top = ladder.top.min(last.saturating_sub(1));
    let paragraph = Paragraph::new(shown).wrap(Wrap { trim: false });
    frame.render_widget(paragraph.scroll((ladder.top, 0)), text);
}

/// The call in a line.
fn told(call: &Call, now: f64) -> Line<'static> {
    let cells = call_row(&call.row, now);
    let [state, status, method, from, to, ..] = &cells[..] else {
        return Line::default();
    };
    let mut told = vec![
        Span::styled(state.clone(), state_style(state)),
        format!(" {status}: {method} from {from} to {to}, {}", cells[7]).into(),
    ];
    if call.left_out > 0 {
        told.push(format!("; {} before were left out", call.left_out).into());
    }
    Line::from(told)
}
