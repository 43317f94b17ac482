//! The page about overload.

use report::{Axis, Page, Plot, Series, Table};

use super::{
    Outcome, SHARE,
    run::Point,
    step::{self, HIGH, LOW},
    subject::Work,
};
use crate::{figures::Stamped, range::verdict};

/// What is to be held: of the capacity, beyond it; of what is offered, below it.
const GOODPUT_BAR: f64 = 0.95;
const UNDERLOAD_BAR: f64 = 0.999;

/// From INVITE to 200 beyond the capacity, 99 % of the calls.
const ANSWER_BAR_MS: f64 = 200.0;

/// From a step until it is done with.
const STEP_BAR_S: f64 = 1.0;

pub(crate) fn page(results: &Stamped<Vec<Outcome>>) -> Page {
    let outcomes = &results.results;
    let mut page = Page::new("Overload: figures")
        .text(&format!(
            "A node has {:.0} % of a core (CFS quota, period 10 ms). Strangers offer it a multiple of its capacity as a Poisson \
             stream, whatever becomes of their calls (INVITE, 200, ACK, 1 s, BYE) or REGISTERs, and send again by the timers of \
             RFC 3261. The capacity is what it carries in a closed loop without a holding time. {}",
            100.0 * SHARE,
            results.note()
        ))
        .plot(goodput(outcomes))
        .table(table(outcomes))
        .text(
            "Goodput: calls that began in the time measured and that were answered and ended by 10 s after it while the load \
             went on, or calls that ended in that time, if these are less. Pending: calls that had neither an end nor a \
             failure by then. p50 and p99: from the first INVITE to the 200 of all that got one. Late: how far the load was \
             behind its own schedule.",
        )
        .heading("Capacities")
        .table(capacities(outcomes))
        .heading("Bars")
        .table(bars(outcomes))
        .heading(&format!(
            "From {LOW} to {HIGH} times the capacity and back"
        ))
        .table(steps(outcomes));
    for outcome in outcomes {
        page = page.plot(step_plot(outcome));
    }
    page
}

/// Goodput over what is offered, both as multiples of the capacity.
fn goodput(outcomes: &[Outcome]) -> Plot {
    let plot = Plot::new(
        "Goodput",
        Axis::linear("offered / capacity"),
        Axis::linear("completed / capacity"),
    );
    let curve = |outcome: &Outcome| {
        let points = outcome.points.iter();
        let points = points.map(|point| (point.multiple, kept(outcome, point)));
        Series::line(outcome.subject.title(), points)
    };
    outcomes.iter().map(curve).fold(plot, Plot::with)
}

/// Goodput over capacity.
fn kept(outcome: &Outcome, point: &Point) -> f64 {
    point.goodput_per_s() / outcome.capacity_per_s()
}

fn table(outcomes: &[Outcome]) -> Table {
    let columns = [
        "subject",
        "offered, x",
        "offered/s",
        "sent again/s",
        "goodput/s",
        "of the capacity, %",
        "of the offered, %",
        "503, %",
        "failed",
        "pending, %",
        "p50, ms",
        "p99, ms",
        "node busy, %",
        "late p99, ms",
        "load lost",
    ];
    let mut table = Table::new("", columns);
    for outcome in outcomes {
        for point in &outcome.points {
            table.push(row(outcome, point));
        }
    }
    table
}

fn row(outcome: &Outcome, point: &Point) -> [String; 15] {
    let ms = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.0}"));
    let of_offered = |count: u64| format!("{:.2}", 100.0 * count as f64 / point.offered as f64);
    [
        outcome.subject.title().to_owned(),
        point.multiple.to_string(),
        format!("{:.0}", point.offered as f64 / point.seconds),
        format!("{:.0}", point.repeated_per_s),
        format!("{:.0}", point.goodput_per_s()),
        format!("{:.1}", 100.0 * kept(outcome, point)),
        of_offered(point.carried),
        of_offered(point.refused),
        point.failed.values().sum::<u64>().to_string(),
        of_offered(point.pending),
        ms(point.answer_ms_p50),
        ms(point.answer_ms_p99),
        format!("{:.0}", 100.0 * point.busy),
        format!("{:.1}", point.late_ms_p99),
        point.lost.to_string(),
    ]
}

fn capacities(outcomes: &[Outcome]) -> Table {
    let columns = [
        "subject",
        "before, per s",
        "after, per s",
        "CPU, us each",
        "of which",
    ];
    let mut table = Table::new("", columns);
    for outcome in outcomes {
        let [before, after] = &outcome.capacities;
        let what = match outcome.subject.work() {
            Work::Calls | Work::CallsToUsers => "calls",
            Work::Registers => "REGISTERs",
        };
        table.push([
            outcome.subject.title().to_owned(),
            format!("{:.0}", before.per_s),
            format!("{:.0}", after.per_s),
            format!("{:.1}", (before.cpu_us + after.cpu_us) / 2.0),
            what.to_owned(),
        ]);
    }
    table
}

/// What our subjects are to hold, each at its worst point.
fn bars(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new("", ["subject", "bar", "at worst", "verdict"]);
    for outcome in outcomes.iter().filter(|it| it.subject.is_ours()) {
        let mut push = |bar: String, worst: String, holds: bool| {
            let subject = outcome.subject.title().to_owned();
            table.push([subject, bar, worst, verdict(holds).to_owned()]);
        };
        let (over, under): (Vec<_>, Vec<_>) =
            outcome.points.iter().partition(|it| it.multiple > 1.0);
        let least = |of: &[&Point], figure: &dyn Fn(&Point) -> f64| {
            of.iter()
                .map(|point| figure(point))
                .fold(f64::INFINITY, f64::min)
        };
        let part = least(&under, &|point| point.carried as f64 / point.offered as f64);
        push(
            format!(
                "up to the capacity, {:.1} % of the offered",
                100.0 * UNDERLOAD_BAR
            ),
            format!("{:.2} %", 100.0 * part),
            part >= UNDERLOAD_BAR,
        );
        let part = least(&over, &|point| kept(outcome, point));
        push(
            format!("beyond it, {:.0} % of the capacity", 100.0 * GOODPUT_BAR),
            format!("{:.1} %", 100.0 * part),
            part >= GOODPUT_BAR,
        );
        let unanswered = f64::INFINITY;
        let ms = -least(&over, &|point| -point.answer_ms_p99.unwrap_or(unanswered));
        push(
            format!("beyond it, p99 under {ANSWER_BAR_MS:.0} ms"),
            format!("{ms:.0} ms"),
            ms < ANSWER_BAR_MS,
        );
        let part = outcome.step.held_per_s() / outcome.capacity_per_s();
        push(
            format!("after a step, {:.0} % of the capacity", 100.0 * GOODPUT_BAR),
            format!("{:.1} %", 100.0 * part),
            part >= GOODPUT_BAR,
        );
        let [rise, recovery] = step_times(outcome);
        for (what, time) in [
            ("nearly all of it after a step", rise),
            ("all calls after its end", recovery),
        ] {
            push(
                format!("{what}, within {STEP_BAR_S:.0} s"),
                seconds(time),
                time.is_some_and(|time| time <= STEP_BAR_S),
            );
        }
    }
    table
}

fn step_times(outcome: &Outcome) -> [Option<f64>; 2] {
    let step = &outcome.step;
    [step.rise_s(outcome.capacity_per_s()), step.recovery_s()]
}

fn seconds(time: Option<f64>) -> String {
    time.map_or_else(|| "never".to_owned(), |time| format!("{time:.1} s"))
}

fn steps(outcomes: &[Outcome]) -> Table {
    let columns = [
        "subject",
        "95 % of the capacity after",
        "carried from the second second on, % of the capacity",
        "all carried after the step down",
    ];
    let mut table = Table::new("", columns);
    for outcome in outcomes {
        let [rise, recovery] = step_times(outcome).map(seconds);
        let held = outcome.step.held_per_s() / outcome.capacity_per_s();
        let held = format!("{:.1}", 100.0 * held);
        table.push([outcome.subject.title().to_owned(), rise, held, recovery]);
    }
    table
}

fn step_plot(outcome: &Outcome) -> Plot {
    let step: &step::Step = &outcome.step;
    Plot::new(
        outcome.subject.title(),
        Axis::linear("seconds from the step up"),
        Axis::linear("per second"),
    )
    .with(Series::line("answered then", step.answered()))
    .with(Series::line("began then, carried", step.carried()))
}
