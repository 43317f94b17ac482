//! What was measured, as a page.

use report::{Page, Table};

use super::{Architecture, Case, Means, Results, Run, SENDERS, TEAMS, load::Mode};
use crate::{
    figures::Stamped,
    range::{Range, median},
};

/// The page about it.
pub(crate) fn page(results: &Stamped<Results>) -> Page {
    let Results { rounds, runs } = &results.results;
    let others = runs.iter().map(|run| run.others).fold(0.0, f64::max);
    let page = Page::new("Server architectures: figures")
        .text(&format!(
            "One node is driven in five ways. Calls and REGISTERs come in a closed loop. Figures are medians of {rounds} \
             rounds in which all took turns, with the least and the greatest. Other programs took {:.0} % of the \
             machine's time at the median of the runs, and {:.0} % at most. {}",
            100.0 * median(runs.iter().map(|run| run.others)),
            100.0 * others,
            results.note()
        ))
        .heading("With the cores, in turns")
        .text(
            "The program has one core or both for itself, in turns with the load. Figures are for a second of its turns.",
        );
    let page = Mode::ALL.into_iter().fold(page, |page, mode| {
        page.table(table(runs, mode, Means::Turns))
    });
    let page = page
        .heading("With a tenth of their time, by a quota")
        .text(
            "A quota of a tenth of a core, and of two tenths on either core. A quota limits the sum of what threads use, so \
             one thread has all of two tenths, and threads wait for each other while they would have to pause anyway.",
        );
    let page = Mode::ALL.into_iter().fold(page, |page, mode| {
        page.table(table(runs, mode, Means::Quota))
    });
    if !TEAMS.iter().any(|&workers| has_senders(runs, workers)) {
        return page;
    }
    page.heading("One sender before many workers")
        .text("The stateful proxy as processes on both cores, in turns. Requests come from one port, or from many.")
        .table(senders(runs))
}

fn table(runs: &[Run], mode: Mode, means: Means) -> Table {
    let columns = [
        "architecture",
        "one core, a second",
        "over event loop",
        "us each",
        "p99, ms",
        "two cores, a second",
        "over event loop",
        "over one core",
        "us each",
        "used of both",
        "failed",
    ];
    let mut table = Table::new(mode.name(), columns);
    for architecture in Architecture::ALL {
        let of = |architecture, cores| chosen(runs, mode, means, architecture, cores);
        let rate = |architecture, cores| median(of(architecture, cores).map(|run| run.per_s));
        let over = |cores| rate(architecture, cores) / rate(Architecture::EventLoop, cores);
        let cpu = |cores| median(of(architecture, cores).map(|run| run.cpu_us));
        let failed = [1, 2].map(|cores| of(architecture, cores).map(|run| run.failed).sum::<u64>());
        table.push([
            architecture.name().to_owned(),
            rates(of(architecture, 1)),
            format!("{:.2}", over(1)),
            format!("{:.1}", cpu(1)),
            format!(
                "{:.1}",
                median(of(architecture, 1).map(|run| run.answer_ms_p99))
            ),
            rates(of(architecture, 2)),
            format!("{:.2}", over(2)),
            format!("{:.2}", rate(architecture, 2) / rate(architecture, 1)),
            format!("{:.1}", cpu(2)),
            format!(
                "{:.0} %",
                100.0 * median(of(architecture, 2).map(|run| run.busy))
            ),
            failed.into_iter().sum::<u64>().to_string(),
        ]);
    }
    table
}

fn senders(runs: &[Run]) -> Table {
    let columns = [
        "workers",
        "16 ports, calls a second",
        "us a call",
        "one port, calls a second",
        "us a call",
        "one over 16",
    ];
    let mut table = Table::new("", columns);
    for workers in TEAMS {
        let of = |senders| of_senders(runs, workers, senders);
        let rate = |senders| median(of(senders).map(|run| run.per_s));
        let cpu = |senders| format!("{:.1}", median(of(senders).map(|run| run.cpu_us)));
        table.push([
            workers.to_string(),
            rates(of(SENDERS)),
            cpu(SENDERS),
            rates(of(1)),
            cpu(1),
            format!("{:.2}", rate(1) / rate(SENDERS)),
        ]);
    }
    table
}

fn has_senders(runs: &[Run], workers: usize) -> bool {
    of_senders(runs, workers, 1).next().is_some()
}

/// The runs about how many ports send. Those of the tables above may be among them.
fn of_senders(runs: &[Run], workers: usize, senders: usize) -> impl Iterator<Item = &Run> {
    let is_of = move |case: &Case| {
        case.architecture == Architecture::Processes
            && (case.mode, case.means, case.cores) == (Mode::Stateful, Means::Turns, 2)
            && (case.workers, case.senders) == (workers, senders)
    };
    runs.iter().filter(move |run| is_of(&run.case))
}

/// The runs of a cell, with a worker for each core.
fn chosen(
    runs: &[Run],
    mode: Mode,
    means: Means,
    architecture: Architecture,
    cores: usize,
) -> impl Iterator<Item = &Run> {
    let case = Case {
        architecture,
        mode,
        means,
        cores,
        workers: architecture.workers(cores),
        senders: SENDERS,
    };
    runs.iter().filter(move |run| run.case == case)
}

fn rates<'a>(runs: impl Iterator<Item = &'a Run>) -> String {
    let range = Range::over(runs.map(|run| run.per_s));
    range.map_or_else(String::new, |it| {
        format!("{:.0} ({:.0}-{:.0})", it.median, it.min, it.max)
    })
}
