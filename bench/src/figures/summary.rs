//! What the runs amount to.

use report::Table;

use crate::{
    balance::{Load, Run},
    memory::Memory,
    range::Range,
    spread::Spread,
    subject::Subject,
};

const BARS: [&str; 4] = ["figure", "bar", "measured", "held"];

/// The runs of one subject under one load.
pub(super) fn runs_of(runs: &[Run], subject: Subject, load: Load) -> impl Iterator<Item = &Run> {
    runs.iter()
        .filter(move |run| run.subject == subject && run.load == load)
}

/// How many times one subject's figure is another's, taken within each round.
fn ratio(
    runs: &[Run],
    load: Load,
    subject: Subject,
    base: Subject,
    figure: impl Fn(&Run) -> f64,
) -> Option<Range> {
    let of_round = |run: &Run| {
        let base = runs_of(runs, base, load).find(|base| base.round == run.round)?;
        Some(figure(run) / figure(base))
    };
    Range::over(runs_of(runs, subject, load).filter_map(of_round))
}

pub(super) fn balance(runs: &[Run]) -> Table {
    let mut rows = Vec::new();
    for load in Load::ALL {
        rows.extend(
            Subject::ALL
                .into_iter()
                .filter_map(|subject| row(runs, subject, load)),
        );
    }
    let columns = [
        "program",
        "load",
        "CPU us per call",
        "x floor",
        "INVITE to 200, p50 us",
        "x floor",
        "p99 us",
        "calls/s",
        "core busy",
        "failed",
        "retransmissions",
    ];
    table(columns, rows)
}

fn row(runs: &[Run], subject: Subject, load: Load) -> Option<Vec<String>> {
    let range = |figure: fn(&Run) -> f64| Range::over(runs_of(runs, subject, load).map(figure));
    let times_floor = |figure: fn(&Run) -> f64| {
        let range = ratio(runs, load, subject, Subject::Floor, figure);
        range.map_or_else(String::new, |range| format!("{:.2}", range.median))
    };
    let sum = |count: fn(&Run) -> u64| {
        runs_of(runs, subject, load)
            .map(count)
            .sum::<u64>()
            .to_string()
    };
    Some(vec![
        subject.title().to_owned(),
        load.title().to_owned(),
        range(|run| run.cpu_us_per_call)?.text(),
        times_floor(|run| run.cpu_us_per_call),
        range(|run| run.answer_us_p50)?.text(),
        times_floor(|run| run.answer_us_p50),
        range(|run| run.answer_us_p99)?.text(),
        format!("{:.0}", range(|run| run.calls_per_s)?.median),
        format!("{:.0} %", range(|run| run.busy)?.median * 100.0),
        sum(|run| run.failed.values().sum()),
        sum(|run| run.retransmissions),
    ])
}

/// The bars that Sipyard is to reach.
pub(super) fn bars(runs: &[Run]) -> Table {
    use Load::{Paced, Saturated};
    use Subject::{Floor, KamailioCallLoad, KamailioStateless, Sipyard};
    let cpu = |run: &Run| run.cpu_us_per_call;
    let answer = |run: &Run| run.answer_us_p50;
    let at_most = |figure: &str, bar: f64, range: Option<Range>| {
        bar_row(figure, format!("at most {bar} x"), range, |median| {
            median <= bar
        })
    };
    let at_least = |figure: &str, bar: f64, range: Option<Range>| {
        bar_row(figure, format!("at least {bar} x"), range, |median| {
            median >= bar
        })
    };
    let rows = [
        at_most(
            "CPU per call, saturated, over the floor",
            1.5,
            ratio(runs, Saturated, Sipyard, Floor, cpu),
        ),
        at_least(
            "CPU per call, saturated, Kamailio stateless over Sipyard",
            4.0,
            ratio(runs, Saturated, KamailioStateless, Sipyard, cpu),
        ),
        at_least(
            "CPU per call, saturated, Kamailio by call load over Sipyard",
            8.0,
            ratio(runs, Saturated, KamailioCallLoad, Sipyard, cpu),
        ),
        at_most(
            "CPU per call at 1000 calls/s, over the floor",
            1.5,
            ratio(runs, Paced, Sipyard, Floor, cpu),
        ),
        at_most(
            "median INVITE-to-200 at 1000 calls/s, over the floor",
            1.5,
            ratio(runs, Paced, Sipyard, Floor, answer),
        ),
    ];
    table(BARS, rows.into_iter().flatten())
}

fn bar_row(
    figure: &str,
    bar: String,
    range: Option<Range>,
    holds: impl Fn(f64) -> bool,
) -> Option<Vec<String>> {
    let range = range?;
    let measured = format!("{:.2} x ({:.2}-{:.2})", range.median, range.min, range.max);
    let held = if holds(range.median) { "yes" } else { "no" };
    Some(vec![figure.to_owned(), bar, measured, held.to_owned()])
}

pub(super) fn memory(memory: &Memory) -> Table {
    let info = |times: &[f64]| Range::over(times.iter().copied());
    let ratio = Range::over(
        memory
            .info_us_many
            .iter()
            .zip(&memory.info_us_few)
            .map(|(many, few)| many / few),
    );
    let bytes = memory.bytes_per_call();
    let held = if bytes <= 256.0 { "yes" } else { "no" };
    let mut rows = vec![vec![
        format!("bytes per open call, {} open", memory.open_calls),
        "at most 256".to_owned(),
        format!("{bytes:.0}"),
        held.to_owned(),
    ]];
    rows.extend(bar_row(
        "CPU of an INFO in a random call, over that with 1000 open",
        "at most 2 x".to_owned(),
        ratio,
        |median| median <= 2.0,
    ));
    for (calls, times) in [
        (memory.few_calls, &memory.info_us_few),
        (memory.open_calls, &memory.info_us_many),
    ] {
        let text = info(times).map_or_else(String::new, |range| range.text());
        let figure = format!("CPU us of an INFO and its 200, {calls} open");
        rows.push(vec![figure, String::new(), text, String::new()]);
    }
    table(BARS, rows)
}

pub(super) fn spread(spreads: &[Spread]) -> Table {
    let row = |spread: &Spread| {
        vec![
            spread.window.to_string(),
            spread
                .placed
                .iter()
                .map(u64::to_string)
                .collect::<Vec<_>>()
                .join(", "),
            format!("{:.2} %", spread.deviation() * 100.0),
            spread.failed.to_string(),
        ]
    };
    let columns = [
        "calls at a time",
        "calls at each server",
        "farthest from the mean",
        "failed",
    ];
    table(columns, spreads.iter().map(row))
}

fn table<const N: usize>(columns: [&str; N], rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    rows.into_iter().fold(Table::new("", columns), Table::row)
}
