//! What was measured, as a page.

use report::{Page, Table};

use super::{Done, OnDisk, Program, QUEUE, Results, Run, USERS, WINDOW, Work};
use crate::{
    figures::Stamped,
    range::{Range, median, verdict},
};

/// What Kamailio's CPU time is to be over ours, at least.
const BARS: [(Program, Work, f64); 4] = [
    (Program::Memory, Work::Queued, 3.0),
    (Program::File, Work::Queued, 1.0),
    (Program::Memory, Work::Saturated, 5.0),
    (Program::Memory, Work::Paced, 5.0),
];

/// REGISTERs acknowledged in a second with each on disk, at least.
const ON_DISK_BAR: f64 = 20_000.0;

/// The page about it.
pub(crate) fn page(results: &Stamped<Results>) -> Page {
    let Results { runs, on_disk } = &results.results;
    Page::new("The registrar and the stateful proxy: figures")
        .text(&format!(
            "{USERS} users register without digest, and again, at a steady rate and with {QUEUE} of them at once; then calls go to \
             registered users ({WINDOW} at once, and 1000 a second) through the stateful proxy with look-up. The program has one \
             core, load and callees the other. Figures are medians over rounds in which the programs took turns. {}",
            results.note()
        ))
        .table(table(runs))
        .heading("Bars")
        .table(bars(runs))
        .heading("Every answer on disk")
        .text("REGISTERs of new users at several rates; each is answered when its binding is on disk.")
        .table(rates(on_disk))
}

fn table(runs: &[Run]) -> Table {
    let columns = [
        "work",
        "program",
        "CPU, us",
        "least to greatest",
        "per second",
        "p50, ms",
        "p99, ms",
        "failed",
        "sent again",
    ];
    let mut table = Table::new("", columns);
    for work in Work::ALL {
        for program in Program::ALL {
            let runs = chosen(runs, program, work);
            let sum = |figure: fn(&Run) -> u64| runs.iter().map(|run| figure(run)).sum::<u64>();
            let Some(cpu) = Range::over(runs.iter().map(|run| run.cpu_us)) else {
                continue;
            };
            table.push([
                work.title(),
                program.title().to_owned(),
                format!("{:.1}", cpu.median),
                format!("{:.1} to {:.1}", cpu.min, cpu.max),
                format!("{:.0}", median(runs.iter().map(|run| run.done.per_s))),
                ms(&runs, |done| done.p50_ms),
                ms(&runs, |done| done.p99_ms),
                sum(|run| run.done.failed).to_string(),
                sum(|run| run.done.retransmissions).to_string(),
            ]);
        }
    }
    table
}

fn bars(runs: &[Run]) -> Table {
    let columns = ["work", "program", "Kamailio's CPU over its own", "bar", ""];
    let mut table = Table::new("", columns);
    for (program, work, bar) in BARS {
        let cpu = |program| {
            median(
                chosen(runs, program, work)
                    .into_iter()
                    .map(|run| run.cpu_us),
            )
        };
        let ratio = cpu(Program::Kamailio) / cpu(program);
        if ratio.is_nan() {
            continue;
        }
        table.push([
            work.title(),
            program.title().to_owned(),
            format!("{ratio:.2} x"),
            format!("at least {bar} x"),
            verdict(ratio >= bar).to_owned(),
        ]);
    }
    table
}

fn rates(on_disk: &[OnDisk]) -> Table {
    let columns = [
        "offered, a second",
        "acknowledged, a second",
        "bar",
        "failed",
        "sent again",
        "busy, %",
        "p50, ms",
        "p99, ms",
    ];
    let mut table = Table::new("", columns);
    for rate in super::RATES {
        let runs: Vec<_> = on_disk.iter().filter(|run| run.rate == rate).collect();
        let middle = |figure: fn(&OnDisk) -> f64| median(runs.iter().map(|run| figure(run)));
        let acknowledged = middle(|run| run.acknowledged_per_s);
        let bar = match f64::from(rate) > ON_DISK_BAR {
            true => verdict(acknowledged >= ON_DISK_BAR),
            false => "",
        };
        table.push([
            rate.to_string(),
            format!("{acknowledged:.0}"),
            bar.to_owned(),
            runs.iter().map(|run| run.failed).sum::<u64>().to_string(),
            runs.iter()
                .map(|run| run.retransmissions)
                .sum::<u64>()
                .to_string(),
            format!("{:.0}", 100.0 * middle(|run| run.busy)),
            format!("{:.2}", middle(|run| run.p50_ms)),
            format!("{:.2}", middle(|run| run.p99_ms)),
        ]);
    }
    table
}

/// The median of latencies, where they were measured.
fn ms(runs: &[&Run], latency: fn(&Done) -> Option<f64>) -> String {
    let latencies = runs.iter().filter_map(|run| latency(&run.done));
    Range::over(latencies).map_or_else(String::new, |range| format!("{:.3}", range.median))
}

fn chosen(runs: &[Run], program: Program, work: Work) -> Vec<&Run> {
    let is_meant = |run: &&Run| run.program == program && run.work == work;
    runs.iter().filter(is_meant).collect()
}
