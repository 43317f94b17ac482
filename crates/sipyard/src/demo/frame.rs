//! Draws the scene as lines of a screen.

use std::time::Duration;

use report::figures::{count, ms_or_dash};

use super::{
    scene::{Act, PolicyScene, ResponseTimes, Scene, ServerScene},
    schedule::POLICIES,
    user_agents::{Moment, SAMPLE},
};
use crate::view::ServerState;

/// SGR codes (ECMA-48 §8.3.117).
const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// One color for each of [`POLICIES`].
const POLICY_COLORS: [&str; POLICIES.len()] = ["32", "33", "35", "36"];

/// A bar is full at this many open calls or this much work, or at the largest value of any server.
const CALLS_FULL: u64 = 600;
const WORK_FULL: f64 = 40.0;

/// The marks of the chart, from top to bottom.
const CHART_MARKS: [&str; 4] = ["  1 s", "100ms", " 10ms", " 1 ms"];
const CHART_TOP_MS: f64 = 1_000.0;
const CHART_BOTTOM_MS: f64 = 1.0;
const CHART_ROWS_MAX: usize = 13;

/// Adds colors to text, or leaves it plain.
#[derive(Clone, Copy)]
struct Paint {
    has_colors: bool,
}

impl Paint {
    fn paint(self, style: &str, text: &str) -> String {
        if self.has_colors {
            format!("\x1b[{style}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Returns at most `rows` lines; 80 `columns` or more look best.
pub(super) fn frame(scene: &Scene, columns: usize, rows: usize, has_colors: bool) -> Vec<String> {
    let paint = Paint { has_colors };
    let mut lines = heading(scene, paint);
    lines.push(String::new());
    lines.extend(servers(scene, columns, paint));
    lines.push(String::new());
    lines.push(totals(scene, paint));
    lines.push(String::new());
    lines.extend(policies(scene, paint));
    lines.push(String::new());
    let left = rows.saturating_sub(lines.len());
    lines.extend(chart(scene, columns, left, paint));
    lines.truncate(rows);
    lines
}

fn heading(scene: &Scene, paint: Paint) -> Vec<String> {
    let title = format!(
        "sipyard demo: callers -> edge {} -> {} servers",
        scene.edge,
        scene.servers.len()
    );
    let act = match scene.act {
        Act::Calling { policy, next, left } => calling(policy, next, left, paint),
        Act::Ending => "no new calls start; the calls in progress end".to_owned(),
    };
    let clock = format!("{:>4} s  ", scene.elapsed.as_secs());
    let keys = paint.paint(DIM, "  (Ctrl-C stops)");
    let ask = format!(
        "status: sipyard ctl --admin {} status",
        scene.admin.display()
    );
    vec![
        paint.paint(BOLD, &title) + &keys,
        paint.paint(DIM, &ask),
        paint.paint(DIM, &clock) + &act,
    ]
}

fn calling(policy: usize, next: Option<usize>, left: Duration, paint: Paint) -> String {
    let seconds = left.as_secs_f64().ceil();
    let next = match next {
        Some(next) => format!(
            "a reload changes it to {} in {seconds} s",
            POLICIES[next].name()
        ),
        None => format!("the demo ends in {seconds} s"),
    };
    let name = paint.paint(POLICY_COLORS[policy], POLICIES[policy].name());
    format!("the policy is {name}; {next}")
}

fn servers(scene: &Scene, columns: usize, paint: Paint) -> Vec<String> {
    const FIXED: usize = 17 + 11 + 7 + 7 + 2 + 7 + 8 + 1;
    let width = (columns.saturating_sub(FIXED) / 2).clamp(4, 40);
    let header = format!(
        "{:<17}{:<11}{:<width$}{:>7}{:>7}  {:<width$}{:>7}{:>8}",
        "SERVER", "STATE", "OPEN CALLS", "", "TRANS", "WORK LEFT", "", "CALLS/S"
    );
    let servers = &scene.servers;
    let calls_full = servers.iter().map(|s| s.calls).fold(CALLS_FULL, u64::max);
    let work_full = servers.iter().map(|s| s.work).fold(WORK_FULL, f64::max);
    let line = |server: &ServerScene| {
        let (state, color) = state(server);
        let calls = bar(server.calls as f64 / calls_full as f64, width);
        let work = bar(server.work / work_full, width);
        format!(
            "{:<17}{}{}{:>7}{:>7}  {}{:>7.1}{:>8.0}",
            server.address.to_string(),
            paint.paint(color, &format!("{state:<11}")),
            paint.paint(color, &format!("{calls:<width$}")),
            count(server.calls),
            count(server.transactions),
            paint.paint(color, &format!("{work:<width$}")),
            server.work,
            server.calls_per_s
        )
    };
    let mut lines = vec![paint.paint(DIM, &header)];
    lines.extend(servers.iter().map(line));
    lines
}

fn state(server: &ServerScene) -> (&'static str, &'static str) {
    match server.state {
        ServerState::Up if server.is_stalled => ("stalled", RED),
        ServerState::Up => ("up", GREEN),
        state => (state.label(), YELLOW),
    }
}

fn totals(scene: &Scene, paint: Paint) -> String {
    let (offered, carried, failed) = scene.totals();
    let text = format!(
        "{:.0} calls/s, {} begun, {} in progress, {} carried, ",
        scene.calls_per_s,
        count(offered),
        count(scene.open as u64),
        count(carried)
    );
    let failed_text = format!("{} failed", count(failed));
    text + &paint.paint(if failed == 0 { BOLD } else { RED }, &failed_text)
}

fn policies(scene: &Scene, paint: Paint) -> Vec<String> {
    let row = |cells: [String; 7]| cells.map(|cell| format!("{cell:>9}")).concat();
    let header = ["CALLS", "FAILED", "STALLS", "MEAN ms", "P50", "P99", "MAX"];
    let header = format!("{:<15}{}", "RESPONSE TIME", row(header.map(str::to_owned)));
    let mut lines = vec![paint.paint(DIM, &header)];
    for (policy, color) in scene.policies.iter().zip(POLICY_COLORS) {
        let name = paint.paint(color, &format!("{:<15}", policy.name));
        lines.push(name + &row(policy_cells(policy)));
    }
    lines
}

fn policy_cells(policy: &PolicyScene) -> [String; 7] {
    let time =
        |pick: fn(&ResponseTimes) -> Duration| ms_or_dash(policy.response.as_ref().map(pick));
    [
        count(policy.offered),
        count(policy.failed),
        count(policy.stalls),
        time(|t| t.mean),
        time(|t| t.p50),
        time(|t| t.p99),
        time(|t| t.max),
    ]
}

/// Draws mean response times on a logarithmic scale, the newest at the right.
fn chart(scene: &Scene, columns: usize, rows: usize, paint: Paint) -> Vec<String> {
    let Some(height) = rows.checked_sub(1).filter(|&height| height > 1) else {
        return Vec::new();
    };
    let height = height.min(CHART_ROWS_MAX);
    let title = format!("MEAN RESPONSE TIME of every {} ms", SAMPLE.as_millis());
    let width = columns.saturating_sub(CHART_MARKS[0].len() + 2);
    let skipped = scene.moments.len().saturating_sub(width);
    let row = |row: usize| {
        let bars = scene.moments.iter().skip(skipped);
        let bars = bars.map(|moment| chart_cell(moment, row, height, paint));
        let mark = paint.paint(DIM, &format!("{} │", mark(row, height)));
        mark + &bars.collect::<String>()
    };
    let mut lines = vec![paint.paint(DIM, &title)];
    lines.extend((0..height).map(row));
    lines
}

/// The label at the left of a chart row: a mark, if one falls on this row.
fn mark(row: usize, height: usize) -> &'static str {
    let steps = CHART_MARKS.len() - 1;
    let falls_on = |place: &usize| (place * (height - 1) + steps / 2) / steps == row;
    let place = (0..CHART_MARKS.len()).find(falls_on);
    place.map_or("     ", |place| CHART_MARKS[place])
}

/// One column of one row of the chart.
fn chart_cell(moment: &Moment, row: usize, height: usize, paint: Paint) -> String {
    const LEVELS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let Some(response) = moment.response else {
        return " ".to_owned();
    };
    let ms = response.as_secs_f64() * 1e3;
    let part = (ms / CHART_BOTTOM_MS).ln() / (CHART_TOP_MS / CHART_BOTTOM_MS).ln();
    let eighths = (part.clamp(0.0, 1.0) * (height * 8) as f64) as usize;
    let level = eighths.max(1).saturating_sub((height - 1 - row) * 8).min(8);
    paint.paint(POLICY_COLORS[moment.policy], LEVELS[level])
}

/// A bar of at most `width` characters, drawn in eighths of a character.
fn bar(part: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_exact_to_an_eighth() {
        let check = |part, expected: &str| assert_eq!(bar(part, 4), expected, "{part}");
        check(0.0, "");
        check(1.0 / 32.0, "▏");
        check(0.5, "██");
        check(0.625, "██▌");
        check(1.0, "████");
        check(2.0, "████");
    }

    #[test]
    fn the_chart_is_marked_from_top_to_bottom() {
        check_marks(4, "  1 s 100ms  10ms  1 ms");
        check_marks(7, "  1 s       100ms        10ms        1 ms");
        for height in 4..=CHART_ROWS_MAX {
            let marks = (0..height).filter(|&row| mark(row, height) != "     ");
            assert_eq!(marks.count(), CHART_MARKS.len(), "{height}");
        }
    }

    fn check_marks(height: usize, expected: &str) {
        let marks: Vec<_> = (0..height).map(|row| mark(row, height)).collect();
        assert_eq!(marks.join(" "), expected);
    }
}
