//! The list of calls.

use ratatui::{
    Frame,
    crossterm::event::KeyCode,
    layout::{Constraint, Layout, Rect},
    style::Stylize,
    text::Line,
    widgets::{Cell, Row, Table, TableState},
};

use super::{
    question::Question,
    style::{CHOSEN, HEADING, state_style},
};
use crate::{
    calls::Calls,
    ctl::table::{call_row, printable},
};

/// Rows that a page key moves by.
const PAGE: usize = 10;
/// Letters of a filter.
const FILTER_MAX: usize = 100;
/// Below this width some columns are left out.
const WIDE: u16 = 130;

/// Calls, the chosen one, and what they are searched for.
#[derive(Default)]
pub(super) struct List {
    pub(super) search: String,
    pub(super) is_typing: bool,
    pub(super) is_newest: bool,
    found: Option<Calls>,
    chosen: usize,
    table: TableState,
}

impl List {
    pub(super) fn question(&self) -> Question {
        Question::Calls {
            search: self.search.clone(),
            is_newest: self.is_newest,
        }
    }

    /// Takes the calls as they are now. The chosen one stays chosen, wherever it went.
    pub(super) fn take(&mut self, calls: Calls) {
        let chosen = self.chosen().map(str::to_owned);
        let place = chosen.and_then(|id| calls.calls.iter().position(|it| it.call_id == id));
        self.chosen = place.unwrap_or(self.chosen);
        self.chosen = self.chosen.min(calls.calls.len().saturating_sub(1));
        self.found = Some(calls);
    }

    /// The Call-ID of the chosen call.
    pub(super) fn chosen(&self) -> Option<&str> {
        let calls = &self.found.as_ref()?.calls;
        calls.get(self.chosen).map(|call| call.call_id.as_str())
    }

    /// A key of the filter's line; whether something else is searched for.
    pub(super) fn edit(&mut self, code: KeyCode) -> bool {
        match code {
            KeyCode::Char(letter) if self.search.chars().count() < FILTER_MAX => {
                self.search.push(letter);
                true
            }
            KeyCode::Backspace => self.search.pop().is_some(),
            KeyCode::Esc => {
                self.is_typing = false;
                self.search.clear();
                true
            }
            KeyCode::Enter => {
                self.is_typing = false;
                false
            }
            _ => false,
        }
    }

    /// Another call is chosen.
    pub(super) fn step(&mut self, code: KeyCode) {
        let last = self.found.as_ref().map_or(0, |it| it.calls.len());
        let last = last.saturating_sub(1);
        self.chosen = match code {
            KeyCode::Down => self.chosen + 1,
            KeyCode::Up => self.chosen.saturating_sub(1),
            KeyCode::PageDown => self.chosen + PAGE,
            KeyCode::PageUp => self.chosen.saturating_sub(PAGE),
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => self.chosen,
        }
        .min(last);
    }

    fn title(&self) -> String {
        let order = match self.is_newest {
            true => "the newest first",
            false => "lost, refused and ringing first",
        };
        match &self.found {
            None => "Calls: the node is asked".to_owned(),
            Some(calls) if !calls.is_recording => {
                "The node records no calls: calls.record is false in its configuration".to_owned()
            }
            Some(calls) => {
                let (shown, matching) = (calls.calls.len(), calls.matching);
                let left_out = match calls.one_in {
                    0 | 1 => format!("{} were forgotten to make room", calls.forgotten),
                    one_in => format!("one call in {one_in} is recorded"),
                };
                format!("{shown} of {matching} calls, {order}; {left_out}")
            }
        }
    }

    fn filter(&self) -> String {
        let search = printable(&self.search);
        match (self.is_typing, search.is_empty()) {
            (true, _) => format!("/{search}\u{2588}"),
            (false, true) => String::new(),
            (false, false) => format!("/{search}"),
        }
    }
}

/// Columns of [`call_row`] by place, with heading and width; 0: what is left.
const COLUMNS: [(usize, &str, u16, bool); 10] = [
    (0, "STATE", 9, true),
    (1, "STATUS", 6, true),
    (2, "METHOD", 9, false),
    (3, "FROM", 0, true),
    (4, "TO", 0, true),
    (5, "SERVER", 21, true),
    (7, "BEGAN", 11, true),
    (8, "RING S", 7, false),
    (9, "TALK S", 8, false),
    (6, "CALL-ID", 0, false),
];

/// Draws the list.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, list: &mut List, now: f64) {
    let [title, filter, table] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
    ])
    .areas(area);
    frame.render_widget(Line::from(list.title()), title);
    frame.render_widget(Line::from(list.filter()).yellow(), filter);
    let is_wide = area.width >= WIDE;
    let columns: Vec<_> = COLUMNS.iter().filter(|it| it.3 || is_wide).collect();
    let widths = columns.iter().map(|(_, _, width, _)| match width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(*width),
    });
    let calls = list.found.iter().flat_map(|calls| &calls.calls);
    let rows = calls.map(|call| {
        let cells = call_row(call, now);
        let style = state_style(&cells[0]);
        let cells = columns.iter().map(|(place, ..)| cells[*place].clone());
        let cells = cells.enumerate().map(|(place, text)| match place {
            0 => Cell::from(text).style(style),
            _ => Cell::from(text),
        });
        Row::new(cells.collect::<Vec<_>>())
    });
    let headings = columns.iter().map(|(_, heading, ..)| *heading);
    let shown = Table::new(rows.collect::<Vec<_>>(), widths.collect::<Vec<_>>())
        .header(Row::new(headings.collect::<Vec<_>>()).style(HEADING))
        .row_highlight_style(CHOSEN);
    list.table.select(Some(list.chosen));
    frame.render_stateful_widget(shown, table, &mut list.table);
}
