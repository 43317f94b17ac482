//! The demo on a terminal.

use std::{io, time::Duration};

use ratatui::{
    DefaultTerminal, Frame,
    crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
    layout::{Alignment, Constraint, Layout, Rect},
    style::{Color, Modifier, Style, Stylize},
    text::{Line, Span},
    widgets::{Cell, Paragraph, Row, Sparkline, SparklineBar, Table},
};

use super::{
    scene::{Act, PolicyScene, Scene, ServerScene},
    schedule::POLICIES,
    text::{count, ms_or_dash},
    user_agents::{Moment, SAMPLE},
};
use crate::view::ServerState;

/// One for each of [`POLICIES`].
const COLORS: [Color; POLICIES.len()] = [Color::Green, Color::Yellow, Color::Magenta, Color::Cyan];

const HEADING: Style = Style::new().add_modifier(Modifier::DIM);

/// Bars are full at this many open calls or this much work, or at the most that a server has.
const CALLS_FULL: u64 = 600;
const WORK_FULL: f64 = 40.0;

/// What the chart's bottom and top stand for; its scale is logarithmic.
const CHART_MS: (f64, f64) = (1.0, 1_000.0);

/// The terminal, taken over until it is dropped.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    /// Takes the terminal over. Keys come here then, Ctrl-C too.
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self {
            terminal: ratatui::try_init()?,
        })
    }

    /// Draws the scene.
    pub(super) fn show(&mut self, scene: &Scene) -> io::Result<()> {
        self.terminal.draw(|frame| draw(frame, scene))?;
        Ok(())
    }

    /// Whether a key was pressed that asks for the end.
    pub(super) fn asks_to_stop(&mut self) -> io::Result<bool> {
        let mut stop = false;
        while event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()? {
                let control = key.modifiers.contains(KeyModifiers::CONTROL);
                let asked = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
                    || control && key.code == KeyCode::Char('c');
                stop |= asked && key.kind == KeyEventKind::Press;
            }
        }
        Ok(stop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn draw(frame: &mut Frame<'_>, scene: &Scene) {
    let rows = [
        Constraint::Length(3),
        Constraint::Length(scene.servers.len() as u16 + 2),
        Constraint::Length(2),
        Constraint::Length(scene.policies.len() as u16 + 3),
        Constraint::Min(3),
        Constraint::Length(1),
    ];
    let [top, servers, totals, policies, chart, bottom] =
        Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Paragraph::new(heading(scene)), top);
    frame.render_widget(server_table(scene, servers.width), servers);
    frame.render_widget(totals_line(scene), totals);
    draw_policies(frame, policies, scene);
    draw_chart(frame, chart, scene);
    frame.render_widget(Line::styled("Ctrl-C or q ends", HEADING), bottom);
}

fn heading(scene: &Scene) -> Vec<Line<'static>> {
    let servers = scene.servers.len();
    let title = format!("sipyard demo: callers, an edge on udp {}, {servers} servers", scene.edge);
    let act = match scene.act {
        Act::Calling { policy, next, left } => calling(policy, next, left),
        Act::Ending => vec![Span::from("No new calls; those in progress go on to their end")],
    };
    let clock = Span::styled(format!("{:>4} s  ", scene.elapsed.as_secs()), HEADING);
    let act = std::iter::once(clock).chain(act).collect::<Vec<_>>();
    vec![Line::from(title).bold(), Line::from(act)]
}

fn calling(policy: usize, next: Option<usize>, left: Duration) -> Vec<Span<'static>> {
    let seconds = left.as_secs_f64().ceil();
    let next = match next {
        Some(next) => format!("; a reload in {seconds} s brings {}", POLICIES[next].name()),
        None => format!("; the end comes in {seconds} s"),
    };
    let name = Span::styled(POLICIES[policy].name(), COLORS[policy]).bold();
    vec![Span::from("Calls are placed by "), name, Span::from(next)]
}

fn server_table(scene: &Scene, width: u16) -> Table<'static> {
    const FIXED: u16 = 16 + 11 + 6 + 7 + 6 + 7 + 6 + 7;
    let bar = usize::from(width.saturating_sub(FIXED) / 2).clamp(4, 40);
    let columns = [16, 11, bar as u16, 6, 6, bar as u16, 7, 7].map(Constraint::Length);
    let header = ["SERVER", "STATE", "OPEN CALLS", "", "TRANS", "WORK LEFT", "", "CALLS/S"];
    let servers = &scene.servers;
    let calls_full = servers.iter().map(|s| s.calls).fold(CALLS_FULL, u64::max);
    let work_full = servers.iter().map(|s| s.work).fold(WORK_FULL, f64::max);
    let row = |server: &ServerScene| {
        let (state, color) = state(server);
        let calls = bar_of(server.calls as f64 / calls_full as f64, bar);
        let work = bar_of(server.work / work_full, bar);
        Row::new([
            Cell::from(server.address.to_string()),
            Cell::from(state).style(color),
            Cell::from(calls).style(color),
            right(count(server.calls)),
            right(count(server.transactions)),
            Cell::from(work).style(color),
            right(format!("{:.1}", server.work)),
            right(format!("{:.0}", server.calls_per_s)),
        ])
    };
    Table::new(servers.iter().map(row), columns).header(Row::new(header).style(HEADING))
}

fn state(server: &ServerScene) -> (&'static str, Color) {
    match server.state {
        ServerState::Up if server.is_stalled => ("stalled", Color::Red),
        ServerState::Up => ("up", Color::Green),
        state => (state.label(), Color::Yellow),
    }
}

fn totals_line(scene: &Scene) -> Line<'static> {
    let (offered, carried, failed) = scene.totals();
    let failed = match failed {
        0 => Span::from("0 failed"),
        failed => Span::styled(format!("{} failed", count(failed)), Color::Red),
    };
    let text = format!(
        "{:.0} calls/s   {} begun   {} in progress   {} carried   ",
        scene.calls_per_s,
        count(offered),
        count(scene.open as u64),
        count(carried)
    );
    Line::from(vec![Span::from(text), failed])
}

fn draw_policies(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let [title, table] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let text = "Response time from INVITE to first response, in ms";
    frame.render_widget(Line::styled(text, HEADING), title);
    let header = ["PLACED BY", "CALLS", "FAILED", "STALLS", "MEAN", "P50", "P99", "MAX"];
    let header = header.iter().enumerate().map(|(place, name)| match place {
        0 => Cell::from(*name),
        _ => right((*name).to_owned()),
    });
    let rows = scene.policies.iter().zip(COLORS);
    let rows = rows.map(|(policy, color)| policy_row(policy, color));
    let columns = [16, 9, 8, 8, 9, 9, 9, 9].map(Constraint::Length);
    let table_widget = Table::new(rows, columns)
        .column_spacing(0)
        .header(Row::new(header).style(HEADING));
    frame.render_widget(table_widget, table);
}

fn policy_row(policy: &PolicyScene, color: Color) -> Row<'static> {
    let times = policy.response;
    Row::new([
        Cell::from(policy.name).style(color),
        right(count(policy.offered)),
        right(count(policy.failed)),
        right(count(policy.stalls)),
        right(ms_or_dash(times.map(|t| t.mean))),
        right(ms_or_dash(times.map(|t| t.p50))),
        right(ms_or_dash(times.map(|t| t.p99))),
        right(ms_or_dash(times.map(|t| t.max))),
    ])
}

fn draw_chart(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let [title, chart] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let (low, high) = CHART_MS;
    let text = format!("Its mean every {} ms: {low} to {high} ms, on a log scale", SAMPLE.as_millis());
    frame.render_widget(Line::styled(text, HEADING), title);
    let full = u64::from(chart.height) * 8;
    let skipped = scene.moments.len().saturating_sub(usize::from(chart.width));
    let bars = scene.moments.iter().skip(skipped).map(|moment| chart_bar(moment, full));
    frame.render_widget(Sparkline::default().max(full).data(bars), chart);
}

/// Its height, of which `full` stands for the top of the chart; never less than a trace.
fn chart_bar(moment: &Moment, full: u64) -> SparklineBar {
    let (low, high) = CHART_MS;
    let height = moment.response.map(|mean| {
        let part = (mean.as_secs_f64() * 1e3 / low).ln() / (high / low).ln();
        1 + (part.clamp(0.0, 1.0) * (full - 1) as f64) as u64
    });
    SparklineBar::from(height).style(COLORS[moment.policy])
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).alignment(Alignment::Right))
}

/// A bar of at most `width` characters, to an eighth of one.
fn bar_of(part: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}
