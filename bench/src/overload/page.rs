//! The page about overload.

use report::{Axis, Page, Plot, Series, Table};

use super::{
    At, Outcome, Round, SHARE,
    run::Point,
    step::{Bin, HIGH, LOW},
    subject::Work,
};
use crate::{
    figures::Stamped,
    range::{Range, median, verdict},
};

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
            "A node has {:.0} % of a core that never sleeps (CFS quota, period 10 ms). Strangers offer it a multiple of its capacity as a Poisson \
             stream, whatever becomes of their calls (INVITE, 200, ACK, 1 s, BYE) or REGISTERs, and send again by the timers of \
             RFC 3261. The capacity is what it carries in a closed loop without a holding time, measured before each \
             point. It is multiplied by what another node beside it, in such a loop, carries in the point, of what that one \
             carried before. The capacity for REGISTERs, and that with pipelimit, is measured before and after each point. \
             Figures are medians over {} rounds, with the least and the greatest in brackets. {}",
            100.0 * SHARE,
            outcomes.first().map_or(0, |outcome| outcome.rounds.len()),
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

/// What is offered as a multiple of the capacity, and what came of it in each round, with the capacity around it.
struct Measured<'a> {
    multiple: f64,
    points: Vec<&'a At>,
}

impl Measured<'_> {
    fn all(outcome: &Outcome) -> Vec<Measured<'_>> {
        let mut all: Vec<Measured<'_>> = Vec::new();
        for at in outcome.rounds.iter().flat_map(|round| &round.points) {
            match all.iter_mut().find(|it| it.multiple == at.point.multiple) {
                Some(measured) => measured.points.push(at),
                None => all.push(Measured {
                    multiple: at.point.multiple,
                    points: vec![at],
                }),
            }
        }
        all
    }

    /// A figure over the rounds.
    fn range(&self, figure: impl Fn(&Point) -> f64) -> Option<Range> {
        Range::over(self.points.iter().map(|at| figure(&at.point)))
    }

    /// Goodput over capacity, in percent.
    fn kept(&self) -> Option<Range> {
        let kept = |at: &&At| 100.0 * at.point.goodput_per_s() / at.capacity_per_s;
        Range::over(self.points.iter().map(kept))
    }

    /// What is carried of what is offered, in percent.
    fn carried(&self) -> Option<Range> {
        self.range(|point| of_offered(point, point.carried))
    }

    /// Without an answer it is never.
    fn p99_ms(&self) -> Option<Range> {
        self.range(|point| point.answer_ms_p99.unwrap_or(f64::INFINITY))
    }
}

fn of_offered(point: &Point, count: u64) -> f64 {
    100.0 * count as f64 / point.offered as f64
}

/// Goodput over what is offered, both as multiples of the capacity.
fn goodput(outcomes: &[Outcome]) -> Plot {
    let plot = Plot::new(
        "Goodput",
        Axis::linear("offered / capacity"),
        Axis::linear("completed / capacity"),
    );
    let curve = |outcome: &Outcome| {
        let points = Measured::all(outcome).into_iter().filter_map(|measured| {
            let kept = measured.kept()?.median / 100.0;
            Some((measured.multiple, kept))
        });
        Series::line(outcome.subject.title(), points)
    };
    outcomes.iter().map(curve).fold(plot, Plot::with)
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
        for measured in Measured::all(outcome) {
            table.push(row(outcome, &measured));
        }
    }
    table
}

fn row(outcome: &Outcome, measured: &Measured<'_>) -> [String; 15] {
    let middle =
        |figure: &dyn Fn(&Point) -> f64| median(measured.points.iter().map(|at| figure(&at.point)));
    let whole = |figure: &dyn Fn(&Point) -> f64| format!("{:.0}", middle(figure));
    [
        outcome.subject.title().to_owned(),
        measured.multiple.to_string(),
        whole(&|point| point.offered as f64 / point.seconds),
        whole(&|point| point.repeated_per_s),
        whole(&Point::goodput_per_s),
        text(measured.kept()),
        text(measured.carried()),
        text(measured.range(|point| of_offered(point, point.refused))),
        whole(&|point| point.failed.values().sum::<u64>() as f64),
        text(measured.range(|point| of_offered(point, point.pending))),
        whole(&|point| point.answer_ms_p50.unwrap_or(f64::INFINITY)),
        text(measured.p99_ms()),
        whole(&|point| 100.0 * point.busy),
        format!("{:.1}", middle(&|point| point.late_ms_p99)),
        whole(&|point| point.lost as f64),
    ]
}

fn text(range: Option<Range>) -> String {
    let text = |range: Range| range.text().replace("inf", "never");
    range.map_or_else(|| "-".to_owned(), text)
}

fn capacities(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new("", ["subject", "per s", "CPU, us each", "of which"]);
    for outcome in outcomes {
        let all = || outcome.rounds.iter().flat_map(|round| &round.capacities);
        let what = match outcome.subject.work() {
            Work::Calls | Work::CallsToUsers => "calls",
            Work::Registers => "REGISTERs",
        };
        table.push([
            outcome.subject.title().to_owned(),
            text(Range::over(all().map(|capacity| capacity.per_s))),
            text(Range::over(all().map(|capacity| capacity.cpu_us))),
            what.to_owned(),
        ]);
    }
    table
}

/// What our subjects are to hold, each at its worst multiple.
fn bars(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new("", ["subject", "bar", "at worst", "verdict"]);
    for outcome in outcomes.iter().filter(|it| it.subject.is_ours()) {
        let mut push =
            |bar: String, worst: Option<Range>, unit: &str, is_held: &dyn Fn(f64) -> bool| {
                let subject = outcome.subject.title().to_owned();
                let holds = worst.is_some_and(|range| is_held(range.median));
                let worst = format!("{} {unit}", text(worst));
                table.push([subject, bar, worst, verdict(holds).to_owned()]);
            };
        let all = Measured::all(outcome);
        let (over, under): (Vec<_>, Vec<_>) = all.iter().partition(|it| it.multiple > 1.0);
        let part = least(under.iter().filter_map(|it| it.carried()));
        let bar = format!(
            "up to the capacity, {:.1} % of the offered",
            100.0 * UNDERLOAD_BAR
        );
        push(bar, part, "%", &|part| part >= 100.0 * UNDERLOAD_BAR);
        let part = least(over.iter().filter_map(|it| it.kept()));
        let bar = format!("beyond it, {:.0} % of the capacity", 100.0 * GOODPUT_BAR);
        push(bar, part, "%", &|part| part >= 100.0 * GOODPUT_BAR);
        let times = over.iter().filter_map(|it| it.p99_ms());
        let time = times.max_by(|one, other| one.median.total_cmp(&other.median));
        let bar = format!("beyond it, p99 under {ANSWER_BAR_MS:.0} ms");
        push(bar, time, "ms", &|ms| ms < ANSWER_BAR_MS);
        let bar = format!("after a step, {:.0} % of the capacity", 100.0 * GOODPUT_BAR);
        push(bar, held(outcome), "%", &|part| part >= 100.0 * GOODPUT_BAR);
        let [rise, recovery] = step_times(outcome);
        for (what, time) in [
            ("nearly all of it after a step", rise),
            ("all calls after its end", recovery),
        ] {
            let bar = format!("{what}, within {STEP_BAR_S:.0} s");
            push(bar, time, "s", &|seconds| seconds <= STEP_BAR_S);
        }
    }
    table
}

fn least(ranges: impl Iterator<Item = Range>) -> Option<Range> {
    ranges.min_by(|one, other| one.median.total_cmp(&other.median))
}

/// What is carried from the second second after the step on, in percent of the capacity.
fn held(outcome: &Outcome) -> Option<Range> {
    let held = outcome.rounds.iter().map(|round| 100.0 * round.step.held());
    Range::over(held)
}

/// Until nearly the capacity is carried after the step, and until all calls are after its end; never is infinite.
fn step_times(outcome: &Outcome) -> [Option<Range>; 2] {
    let over = |time: fn(&Round) -> Option<f64>| {
        let times = outcome.rounds.iter().map(time);
        Range::over(times.map(|time| time.unwrap_or(f64::INFINITY)))
    };
    [
        over(|round| round.step.rise_s()),
        over(|round| round.step.recovery_s()),
    ]
}

fn steps(outcomes: &[Outcome]) -> Table {
    let columns = [
        "subject",
        "95 % of the capacity after, s",
        "carried from the second second on, % of the capacity",
        "all carried after the step down, s",
    ];
    let mut table = Table::new("", columns);
    for outcome in outcomes {
        let [rise, recovery] = step_times(outcome).map(text);
        table.push([
            outcome.subject.title().to_owned(),
            rise,
            text(held(outcome)),
            recovery,
        ]);
    }
    table
}

/// The mean of the rounds.
fn step_plot(outcome: &Outcome) -> Plot {
    let mean = |figure: fn(&Bin) -> u64| {
        let mut sums: Vec<(f64, f64)> = Vec::new();
        for round in &outcome.rounds {
            for (place, (at, per_s)) in round.step.curve(figure).enumerate() {
                match sums.get_mut(place) {
                    Some((_, sum)) => *sum += per_s,
                    None => sums.push((at, per_s)),
                }
            }
        }
        let rounds = outcome.rounds.len() as f64;
        sums.into_iter().map(move |(at, sum)| (at, sum / rounds))
    };
    Plot::new(
        outcome.subject.title(),
        Axis::linear("seconds from the step up"),
        Axis::linear("per second"),
    )
    .with(Series::line("answered then", mean(Bin::answered)))
    .with(Series::line("began then, carried", mean(Bin::carried)))
}
