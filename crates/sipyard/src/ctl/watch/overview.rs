//! Is it well? The first view: figures, what needs a look, and all servers.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style, Stylize},
    text::{Line, Span},
    widgets::{Cell, Paragraph, Row, Table},
};

use super::{
    health::{Grade, Rates, problems, servers},
    state::Watch,
    style::{CHOSEN, HEADING, state_style},
};
use crate::{
    ctl::table::{age, details, printable},
    view::{Server, Status},
};

/// Problems that are shown line by line.
const PROBLEMS_MAX: usize = 5;

/// Draws the overview.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, watch: &mut Watch) {
    let Some(status) = &watch.status else {
        return;
    };
    let verdict = verdict(&problems(status, &watch.rates));
    let count = servers(status).count();
    let rows = u16::try_from(count + 1).unwrap_or(u16::MAX);
    let [told, _, figures, _, table, rest] = Layout::vertical([
        Constraint::Length(verdict.len() as u16),
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Length(1),
        Constraint::Max(rows),
        Constraint::Min(0),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(verdict), told);
    frame.render_widget(Paragraph::new(counted(status, watch).to_vec()), figures);
    let seen: Vec<&Server> = servers(status).collect();
    let drawn = table_of(&seen, &watch.rates, area.width).row_highlight_style(CHOSEN);
    watch
        .servers
        .select(Some(watch.server.min(count.saturating_sub(1))));
    frame.render_stateful_widget(drawn, table, &mut watch.servers);
    let lines = details(status);
    let lines = lines.lines().map(|line| Line::from(printable(line)));
    let lines: Vec<Line<'_>> = std::iter::once(Line::default()).chain(lines).collect();
    frame.render_widget(Paragraph::new(lines).dim(), rest);
}

fn verdict(problems: &[(Grade, String)]) -> Vec<Line<'static>> {
    let worst = problems.iter().map(|(grade, _)| *grade).max();
    let style = |grade| match grade {
        Grade::Good => Style::new().fg(Color::Green),
        Grade::Warning => Style::new().fg(Color::Yellow),
        Grade::Bad => Style::new().fg(Color::Red),
    };
    let said = match problems.len() {
        0 => "All is well: every server takes calls, nothing is refused or lost".to_owned(),
        1 => "One thing needs a look".to_owned(),
        count => format!("{count} things need a look"),
    };
    let said_in = style(worst.unwrap_or(Grade::Good)).add_modifier(Modifier::BOLD);
    let mut lines = vec![Line::from(said).style(said_in)];
    let told = problems.iter().take(PROBLEMS_MAX);
    lines.extend(told.map(|(grade, problem)| {
        Line::from(format!("  {}", printable(problem))).style(style(*grade))
    }));
    if let Some(more) = problems
        .len()
        .checked_sub(PROBLEMS_MAX)
        .filter(|it| *it > 0)
    {
        lines.push(Line::from(format!("  and {more} more")));
    }
    lines
}

fn counted(status: &Status, watch: &Watch) -> [Line<'static>; 2] {
    let rates = &watch.rates;
    let calls: f64 = servers(status)
        .filter_map(|it| it.figures.get("calls"))
        .sum();
    let bans = status.figures.get("bans").unwrap_or_default();
    let line = |shown: &[(&'static str, String)]| {
        let spans = shown
            .iter()
            .flat_map(|(name, value)| [value.clone().bold(), format!(" {name}   ").into()]);
        Line::from(spans.collect::<Vec<Span<'static>>>())
    };
    [
        line(&[
            ("open calls", format!("{calls:.0}")),
            ("calls/s", rate(rates.calls)),
            ("messages/s", rate(rates.received)),
            ("bans", format!("{bans:.0}")),
        ]),
        line(&[
            ("refused/s", rate(rates.refused)),
            ("dropped/s", rate(rates.dropped)),
            ("failed/s", rate(rates.failed)),
        ]),
    ]
}

/// Columns: heading, width, whether it is there on narrow terminals. The first three are as wide as what they have.
const COLUMNS: [(&str, u16, bool); 8] = [
    ("POOL", 16, true),
    ("SERVER", 47, true),
    ("STATE", 11, true),
    ("CALLS", 6, true),
    ("CALLS/S", 7, true),
    ("FAILED", 7, false),
    ("FIRST MS", 8, false),
    ("SINCE, WHY", 0, true),
];
/// From this width all columns are there.
const WIDE: u16 = 100;

fn table_of(servers: &[&Server], rates: &Rates, width: u16) -> Table<'static> {
    let rows: Vec<[String; 8]> = servers
        .iter()
        .map(|server| cells(server, rates.placed_at(server)))
        .collect();
    let needed = |place: usize| {
        let cells = rows.iter().map(|row| row[place].chars().count());
        let widest = cells.max().unwrap_or(0).max(COLUMNS[place].0.len());
        u16::try_from(widest).unwrap_or(u16::MAX)
    };
    let is_shown = |place: &usize| COLUMNS[*place].2 || width >= WIDE;
    let places: Vec<usize> = (0..COLUMNS.len()).filter(is_shown).collect();
    let widths = places.iter().map(|&place| match (place, COLUMNS[place].1) {
        (_, 0) => Constraint::Fill(1),
        (0..=2, most) => Constraint::Length(needed(place).min(most)),
        (_, width) => Constraint::Length(width),
    });
    let shown = rows.iter().map(|row| {
        Row::new(places.iter().map(|&place| match place {
            2 => Cell::from(row[place].clone()).style(state_style(&row[place])),
            _ => Cell::from(row[place].clone()),
        }))
    });
    let headings = places.iter().map(|&place| COLUMNS[place].0);
    Table::new(shown.collect::<Vec<_>>(), widths.collect::<Vec<_>>())
        .header(Row::new(headings.collect::<Vec<_>>()).style(HEADING))
}

fn cells(server: &Server, placed: Option<f64>) -> [String; 8] {
    let figure = |name: &str| server.figures.get(name);
    let count = |name: &str| figure(name).map_or_else(|| "-".to_owned(), |it| format!("{it:.0}"));
    let first = figure("first_response_seconds");
    let first = first.map_or_else(|| "-".to_owned(), |it| format!("{:.2}", it * 1e3));
    let since = server.since_seconds.map(|seconds| age(seconds as f64));
    let why = server.why.as_deref().map(printable);
    let why: Vec<String> = [since, why].into_iter().flatten().collect();
    [
        printable(&server.pool),
        server.address.to_string(),
        server.state.label().to_owned(),
        count("calls"),
        rate(placed),
        count("failed"),
        first,
        why.join(": "),
    ]
}

fn rate(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
}
