//! What was measured, as a page.

use report::{Page, Table};

use super::{EASY, Holder, MULTIPLES, Results, Run, SHARE};
use crate::{
    figures::Stamped,
    range::{Range, median},
};

/// The page about it.
pub(crate) fn page(results: &Stamped<Results>) -> Page {
    let measured = &results.results;
    let runs = &measured.runs;
    Page::new("Two nodes in series: figures")
        .text(&format!(
            "Each of two nodes has {:.0} % of one core, which never sleeps, by a CFS quota; callers and their server have the other core. \
             Calls come by chance; callers have the timers of RFC 3261. The base is what the pair carries in a closed \
             loop with the first as holder: {:.0} calls/s before the runs. A third node, which is held likewise and kept \
             busy, tells how fast the machine is meanwhile, and the base moves with it. Figures are medians, with the \
             least and the greatest. {}",
            100.0 * SHARE,
            measured.base.per_s,
            results.note()
        ))
        .heading("In a closed loop")
        .text("Percent of the base, before each run.")
        .table(in_a_loop(measured))
        .heading("Goodput by holder")
        .text("Calls that began and ended well, in percent of the base.")
        .table(goodput(measured))
        .heading("What a call costs")
        .text(&format!(
            "CPU time of each node, and the share of its quota that it used, at {EASY} of the base."
        ))
        .table(costs(runs))
        .text(&bound(runs))
}

fn in_a_loop(results: &Results) -> Table {
    let mut table = Table::new("", ["holder", "carried", "runs"]);
    for holder in Holder::ALL {
        let of = || results.runs.iter().filter(|run| run.holder == holder);
        let carried = of().map(|run| results.of_base(run.alone.per_s, run.alone.beside_per_s));
        table.push([
            holder.title().to_owned(),
            range(carried),
            of().count().to_string(),
        ]);
    }
    table
}

fn goodput(results: &Results) -> Table {
    let columns = ["offered"].into_iter().map(str::to_owned);
    let titles = Holder::ALL.map(|holder| holder.title().to_owned());
    let mut table = Table::new("", columns.chain(titles).collect::<Vec<_>>());
    for multiple in MULTIPLES {
        let mut row = vec![format!("{:.0} %", 100.0 * multiple)];
        row.extend(Holder::ALL.map(|holder| {
            let of = at(&results.runs, multiple).filter(|run| run.holder == holder);
            range(of.map(|run| results.of_base(run.goodput_per_s, run.beside_per_s)))
        }));
        table.push(row);
    }
    table
}

/// Of parts, in percent.
fn range(parts: impl Iterator<Item = f64>) -> String {
    let range = Range::over(parts.map(|part| 100.0 * part));
    range.map_or_else(String::new, |range| {
        format!("{:.0} ({:.0}-{:.0})", range.median, range.min, range.max)
    })
}

fn costs(runs: &[Run]) -> Table {
    let columns = [
        "holder",
        "first, us a call",
        "second, us a call",
        "first, busy",
        "second, busy",
        "median to the answer, ms",
    ];
    let mut table = Table::new("", columns);
    for holder in Holder::ALL {
        let figure = |figure: fn(&Run) -> f64| easy(runs, holder, figure);
        table.push([
            holder.title().to_owned(),
            format!("{:.1}", figure(|run| run.cpu_us[0])),
            format!("{:.1}", figure(|run| run.cpu_us[1])),
            format!("{:.0} %", 100.0 * figure(|run| run.busy[0])),
            format!("{:.0} %", 100.0 * figure(|run| run.busy[1])),
            format!("{:.1}", figure(|run| run.answer_ms_p50.unwrap_or(f64::NAN))),
        ]);
    }
    table
}

/// What the linear program says of two nodes with these costs.
fn bound(runs: &[Run]) -> String {
    let cost = |holder, place: usize| match place {
        0 => easy(runs, holder, |run| run.cpu_us[0]),
        _ => easy(runs, holder, |run| run.cpu_us[1]),
    };
    let pass = [0, 1].map(|place| cost(Holder::Nobody, place));
    let held = [
        cost(Holder::First, 0) - pass[0],
        cost(Holder::Second, 1) - pass[1],
    ];
    let per_s = |us: f64| 1e6 * SHARE / us;
    // Both are fully used when the first holds what it has time for and the second the rest.
    let us = (1.0 + pass[0] / held[0] + pass[1] / held[1]) / (1.0 / held[0] + 1.0 / held[1]);
    let fixed = [
        (pass[0] + held[0]).max(pass[1]),
        pass[0].max(pass[1] + held[1]),
    ];
    let fixed = fixed.into_iter().fold(f64::INFINITY, f64::min);
    format!(
        "By the linear program and these costs, the best fixed holder carries {:.0} calls/s and the best division {:.0}, \
         {:+.0} %.",
        per_s(fixed),
        per_s(us.max(pass[0]).max(pass[1])),
        100.0 * (fixed / us.max(pass[0]).max(pass[1]) - 1.0)
    )
}

fn at(runs: &[Run], multiple: f64) -> impl Iterator<Item = &Run> {
    runs.iter().filter(move |run| run.multiple == multiple)
}

fn easy(runs: &[Run], holder: Holder, figure: fn(&Run) -> f64) -> f64 {
    let runs = at(runs, EASY).filter(|run| run.holder == holder);
    median(runs.map(figure))
}
