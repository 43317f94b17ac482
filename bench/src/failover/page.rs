//! The page about fail-overs.

use std::collections::BTreeMap;

use report::{Page, Table};

use super::{
    ROUNDS, Results, Way,
    fate::Fate,
    hang::Hang,
    run::{AFTER, BEFORE, PER_S, Run},
};
use crate::{figures::Stamped, range::Range};

pub(crate) fn page(results: &Stamped<Results>) -> Page {
    let Results {
        ways,
        hangs,
        left_out,
    } = &results.results;
    let mut page = Page::new("Fail-overs").text(&format!(
        "Each way of failing over of paper 001 §3, {ROUNDS} times: {PER_S:.0} calls a second (INVITE, 200, ACK, exponentially \
         distributed 1 s, BYE), and with a registrar as many REGISTERs of new users, for {} s before something fails and {} s \
         after it. Counts are sums, seconds the median and the worst of the rounds. {}",
        BEFORE.as_secs(),
        AFTER.as_secs(),
        results.note()
    ));
    if !ways.is_empty() {
        page = page.table(outages(ways)).text(
            "Lost: refused, or without an answer after 64*T1. BYE lost: calls that were answered and whose BYE was refused or \
             never answered. First good: from the failure to the first 200 to what began after it. All good: from the failure \
             until the last began that was lost or waited for longer than T1 (500 ms), so had to be sent more than once. \
             Longest wait: of what was granted. Gone: registrations that were acknowledged and that the store had no more at \
             the end.",
        );
        page = page.heading("What was running").table(programs(ways));
    }
    for hang in hangs {
        page = page
            .heading(&format!("Calls beside {}", hang.name))
            .table(waits(hang));
    }
    if !left_out.is_empty() {
        page = page.heading("Left out").text(&left_out.join("; "));
    }
    page
}

fn outages(ways: &[Way]) -> Table {
    let columns = [
        "way",
        "what",
        "offered",
        "lost",
        "BYE lost",
        "first good, s",
        "all good, s",
        "longest wait, s",
        "registrations gone",
    ];
    let mut table = Table::new("", columns);
    for way in ways {
        table.push(row(&way.name, "calls", way, |run| Some(&run.calls), "-"));
        let users = || way.runs.iter().filter_map(|run| run.users.as_ref());
        if users().next().is_some() {
            let gone: u64 = users().map(|users| users.gone).sum();
            let acknowledged: u64 = users().map(|users| users.acknowledged).sum();
            let gone = format!("{gone} of {acknowledged}");
            table.push(row(&way.name, "REGISTERs", way, users_registers, &gone));
        }
    }
    table
}

fn users_registers(run: &Run) -> Option<&Fate> {
    run.users.as_ref().map(|users| &users.registers)
}

fn row(
    name: &str,
    what: &str,
    way: &Way,
    fate: impl Fn(&Run) -> Option<&Fate>,
    gone: &str,
) -> [String; 9] {
    let fates: Vec<&Fate> = way.runs.iter().filter_map(fate).collect();
    let sum = |count: fn(&Fate) -> u64| fates.iter().map(|fate| count(fate)).sum::<u64>();
    let seconds = |value: fn(&Fate) -> f64| spread(fates.iter().map(|fate| value(fate)));
    [
        name.to_owned(),
        what.to_owned(),
        sum(|fate| fate.offered).to_string(),
        sum(|fate| fate.lost).to_string(),
        sum(|fate| fate.cut).to_string(),
        seconds(|fate| fate.first_good_s.unwrap_or(f64::INFINITY)),
        seconds(|fate| fate.all_good_s),
        seconds(|fate| fate.longest_wait_s),
        gone.to_owned(),
    ]
}

/// The median and the worst.
fn spread(values: impl Iterator<Item = f64>) -> String {
    Range::over(values).map_or_else(
        || "-".to_owned(),
        |range| format!("{:.2} ({:.2})", range.median, range.max),
    )
}

fn programs(ways: &[Way]) -> Table {
    let mut table = Table::new("", ["way", "programs, and what failed", "seen besides"]);
    for way in ways {
        let mut seen = BTreeMap::new();
        for run in &way.runs {
            let fates = users_registers(run).into_iter().chain([&run.calls]);
            for (reason, count) in fates.flat_map(|fate| &fate.reasons) {
                *seen.entry(reason).or_default() += count;
            }
        }
        let counted = seen
            .iter()
            .map(|(reason, count): (_, &u64)| format!("{count} x {reason}"));
        let notes = way.runs.iter().map(|run| run.note.clone());
        let besides: Vec<_> = counted
            .chain(notes.filter(|note| !note.is_empty()))
            .collect();
        table.push([way.name.clone(), way.what.clone(), besides.join("; ")]);
    }
    table
}

fn waits(hang: &Hang) -> Table {
    let columns = [
        "node", "phase", "calls", "lost", "p50, ms", "p99, ms", "max, ms",
    ];
    let mut table = Table::new("", columns);
    for row in &hang.rows {
        table.push([
            row.node.clone(),
            row.phase.clone(),
            row.calls.to_string(),
            row.lost.to_string(),
            format!("{:.2}", row.p50_ms),
            format!("{:.2}", row.p99_ms),
            format!("{:.2}", row.max_ms),
        ]);
    }
    table
}
