//! Draws what is shown: a title, a view, the keys.

use ratatui::{
    Frame,
    layout::{Alignment, Constraint, Layout},
    style::Stylize,
    text::Line,
};

use super::{
    calls, ladder, overview,
    state::{View, Watch},
    style::HEADING,
};
use crate::{
    ctl::table::{age, printable},
    view::NodeState,
};

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, watch: &mut Watch) {
    let [title, body, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(heading(watch), title);
    let place = match watch.view {
        View::Overview => "overview",
        View::Calls => "calls",
        View::Call => "call",
    };
    let place = Line::from(place).alignment(Alignment::Right);
    frame.render_widget(place.style(HEADING), title);
    let now = watch.now();
    match watch.view {
        View::Overview => overview::draw(frame, body, watch),
        View::Calls => calls::draw(frame, body, &mut watch.list, now),
        View::Call => {
            if let Some(ladder) = &mut watch.ladder {
                ladder::draw(frame, body, ladder, now);
            }
        }
    }
    frame.render_widget(last_line(watch), keys);
}

/// Who the node is, and how it goes.
fn heading(watch: &Watch) -> Line<'static> {
    let Some(status) = &watch.status else {
        return Line::from("the node is asked").style(HEADING);
    };
    let state = match status.state {
        NodeState::Serving => "serving",
        NodeState::Draining => "draining",
    };
    let up = status.figures.get("uptime_seconds").unwrap_or_default();
    let (name, version) = (printable(&status.name), printable(&status.version));
    Line::from(format!("{name} {version}: {state}, up {}", age(up))).style(HEADING)
}

/// What went wrong, what was done, or else the keys.
fn last_line(watch: &Watch) -> Line<'static> {
    if let Some(stale) = watch.staleness() {
        return Line::from(printable(&stale)).red();
    }
    if let Some(note) = watch.note() {
        return Line::from(printable(note)).yellow();
    }
    let keys = match watch.view {
        View::Overview => "Tab calls   arrows choose   Enter the server's calls   q leave",
        View::Calls if watch.list.is_typing => "Enter keep   Esc clear",
        View::Calls => "Enter open   / find   n newest or troubled first   Tab overview   q back",
        View::Call => "Up Down message   Left Right side   PgUp PgDn text   s save   q back",
    };
    Line::from(keys).dim()
}
