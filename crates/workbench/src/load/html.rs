//! Makes the page about one load.

use report::{Axis, Page, Plot, Series, Table};

use super::{
    drive::{Record, Sample},
    outcome::{kinds, quantile_ms},
};
use crate::finished;

/// Makes a page with the tables, and with plots over time and by percentile.
pub(super) fn page(title: &str, record: &Record, tables: [Table; 2]) -> String {
    let [counts, latencies] = tables;
    let page = Page::new(title)
        .heading("Results")
        .table(counts)
        .plot(rates(&record.samples))
        .plot(in_progress(&record.samples))
        .heading("Times")
        .table(latencies)
        .plot(over_time(&record.samples))
        .plot(by_percentile(record));
    finished::html(&page)
}

fn line(name: &str, samples: &[Sample], value: impl Fn(&Sample) -> Option<f64>) -> Series {
    let points = samples
        .iter()
        .filter_map(|sample| Some((sample.at_s, value(sample)?)));
    Series::line(name, points)
}

fn seconds() -> Axis {
    Axis::linear("seconds since the start")
}

fn rates(samples: &[Sample]) -> Plot {
    Plot::new("Rates", seconds(), Axis::linear("per second"))
        .with(line("offered", samples, |s| Some(s.offered_per_s)))
        .with(line("succeeded", samples, |s| Some(s.succeeded_per_s)))
        .with(line("failed", samples, |s| Some(s.failed_per_s)).of_failures())
        .with(line("retransmitted", samples, |s| {
            Some(s.retransmissions_per_s)
        }))
}

fn in_progress(samples: &[Sample]) -> Plot {
    Plot::new("In progress", seconds(), Axis::linear("number")).with(line(
        "in progress",
        samples,
        |s| Some(s.in_progress as f64),
    ))
}

fn over_time(samples: &[Sample]) -> Plot {
    Plot::new("Time to the answer", seconds(), Axis::log("milliseconds"))
        .with(line("max", samples, |s| s.max_ms))
        .with(line("p99", samples, |s| s.p99_ms))
        .with(line("p50", samples, |s| s.p50_ms))
}

/// Plots times by percentile. The axis is the inverse of the share that takes longer, so that the
/// tail gets enough room.
fn by_percentile(record: &Record) -> Plot {
    const STEPS: i32 = 40;
    let axis = Axis::log("1 / share that takes longer: 10 is p90, 100 is p99");
    let mut plot = Plot::new("Times by percentile", axis, Axis::log("milliseconds"));
    for (name, _, histogram) in kinds(&record.stats) {
        let steps = (0..=STEPS).map(|step| 10f64.powf(4.0 * f64::from(step) / f64::from(STEPS)));
        let seen = steps.take_while(|inverse| *inverse <= histogram.len() as f64);
        let points = seen.map(|inverse| (inverse, quantile_ms(histogram, 1.0 - 1.0 / inverse)));
        plot = plot.with(Series::line(name, points));
    }
    plot
}
