//! Shows results as tables, plots, pages and files.

use report::{Axis, Bars, Page, Plot as Drawing, Point as Mark, Series, Table};
use serde_json::{Map, Value, json};
use sim::Estimate;

use super::{
    metrics::label,
    results::{Point, Results},
    scenario::{AxisName, Bar, Bound, Plot, Scenario},
};

/// A scenario with its results.
pub(crate) struct Shown {
    pub(crate) scenario: Scenario,
    pub(crate) results: Results,
}

/// One curve of a plot.
struct Curve {
    name: String,
    /// The curve that others are compared with.
    is_reference: bool,
    points: Vec<(String, Estimate)>,
}

impl Shown {
    /// The form for programs: every value of every seed.
    pub(crate) fn json(&self) -> Value {
        let points = self.results.points.iter().map(|point| self.json_of(point));
        json!({
            "title": self.scenario.title,
            "seeds": self.scenario.seeds,
            "points": points.collect::<Vec<_>>(),
            "bars": self.scenario.bars.iter().map(|bar| self.json_of_bar(bar)).collect::<Vec<_>>(),
        })
    }

    fn json_of(&self, point: &Point) -> Value {
        let axes = self.results.axes.iter();
        let place: Map<String, Value> = axes
            .map(|axis| {
                (
                    axis.key.to_owned(),
                    json!(self.results.label(point, axis.name)),
                )
            })
            .collect();
        let metrics = self.results.metrics.iter();
        let values: Map<String, Value> = metrics
            .map(|name| {
                (
                    (*name).to_owned(),
                    json_of_estimate(self.results.estimate(point, name)),
                )
            })
            .collect();
        json!({ "at": place, "values": values })
    }

    fn json_of_bar(&self, bar: &Bar) -> Value {
        let verdict = self.results.judge(bar);
        json!({
            "says": bar.says,
            "value": verdict.as_ref().map(|verdict| json_of_estimate(verdict.value)),
            "holds": verdict.as_ref().is_some_and(|verdict| verdict.holds),
            "open": verdict.is_some_and(|verdict| verdict.is_open),
        })
    }

    /// The form for spreadsheets: a row for each point.
    pub(crate) fn csv(&self) -> String {
        let results = &self.results;
        let mut columns: Vec<String> = vec!["scenario".to_owned()];
        columns.extend(results.axes.iter().map(|axis| axis.key.to_owned()));
        for metric in &results.metrics {
            columns.push((*metric).to_owned());
            columns.push(format!("{metric}_half"));
        }
        let mut table = Table::new("", columns);
        for point in &results.points {
            let mut row = vec![self.scenario.title.clone()];
            row.extend(
                results
                    .axes
                    .iter()
                    .map(|axis| results.label(point, axis.name).to_owned()),
            );
            for metric in &results.metrics {
                let estimate = results.estimate(point, metric);
                row.push(estimate.mean.to_string());
                row.push(
                    estimate
                        .half
                        .map_or_else(String::new, |half| half.to_string()),
                );
            }
            table.push(row);
        }
        table.csv()
    }

    /// A section of a Markdown document.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("## {}\n", self.scenario.title);
        for paragraph in &self.scenario.about {
            text += &format!("\n{paragraph}\n");
        }
        for table in self.tables() {
            text += &format!("\n**{}**\n\n{}", table.0, table.1.markdown());
        }
        text
    }

    /// All results, for a terminal.
    pub(crate) fn text(&self) -> String {
        let tables = self.tables().into_iter();
        let mut text = format!("{}\n", self.scenario.title);
        for (_, table) in tables {
            text += &format!("\n{}", table.text());
        }
        text
    }

    /// A section of a page.
    pub(crate) fn page(&self, mut page: Page) -> Page {
        page = page.heading(&self.scenario.title);
        for paragraph in &self.scenario.about {
            page = page.text(paragraph);
        }
        if let Some((_, bars)) = self.bars() {
            page = page.table(bars);
        }
        for plot in &self.scenario.plots {
            page = self.draw(plot, page);
            let (_, table) = self.table(plot);
            page = page.table(table);
            if let Some((_, stated)) = self.stated(plot) {
                page = page.table(stated);
            }
        }
        page
    }

    /// The bars first, then the numbers of each plot and those that the paper states.
    fn tables(&self) -> Vec<(String, Table)> {
        let mut tables: Vec<_> = self.bars().into_iter().collect();
        for plot in &self.scenario.plots {
            tables.push(self.table(plot));
            tables.extend(self.stated(plot));
        }
        tables
    }

    fn bars(&self) -> Option<(String, Table)> {
        let caption = "What is claimed, and what came out";
        let mut table = Table::new(caption, ["claim", "bound", "measured", "holds"]);
        for bar in &self.scenario.bars {
            let bound = match bar.bound {
                Bound::Least(least) => format!("at least {least}"),
                Bound::Most(most) => format!("at most {most}"),
            };
            let verdict = self.results.judge(bar);
            let measured = verdict.as_ref().map_or_else(String::new, |v| show(v.value));
            let holds = match verdict {
                Some(verdict) if verdict.is_open => "open: run more seeds",
                Some(verdict) if verdict.holds => "yes",
                _ => "no",
            };
            table.push([bar.says.clone(), bound, measured, holds.to_owned()]);
        }
        (!table.is_empty()).then(|| (caption.to_owned(), table))
    }

    /// A row for each value of the x axis, a column for each curve.
    fn table(&self, plot: &Plot) -> (String, Table) {
        let curves = self.curves(plot);
        let mut columns = vec![self.x_key(plot).to_owned()];
        columns.extend(curves.iter().map(|curve| curve.name.clone()));
        let caption = format!("{}: {}", plot.title, label(&plot.y[0]));
        let mut table = Table::new(caption.clone(), columns);
        for x in self.shown_places(plot, &curves) {
            let cell = |curve: &Curve| {
                let found = curve.points.iter().find(|(at, _)| *at == x);
                found.map_or_else(String::new, |(_, estimate)| show(*estimate))
            };
            let mut row = vec![x.clone()];
            row.extend(curves.iter().map(cell));
            table.push(row);
        }
        (caption, table)
    }

    fn stated(&self, plot: &Plot) -> Option<(String, Table)> {
        let curves = self.curves(plot);
        let caption = "Stated in the text of the paper";
        let columns = ["curve", self.x_key(plot), "paper", "here"];
        let mut table = Table::new(caption, columns);
        for stated in &plot.stated {
            let measured = curves
                .iter()
                .find(|curve| curve.name == stated.curve)
                .and_then(|curve| curve.points.iter().find(|(x, _)| *x == stated.x));
            let here = measured.map_or_else(String::new, |(_, estimate)| show(*estimate));
            table.push([
                stated.curve.clone(),
                stated.x.clone(),
                stated.y.to_string(),
                here,
            ]);
        }
        (!table.is_empty()).then(|| (caption.to_owned(), table))
    }

    /// Shortens a long axis to a few rows: all of the first ten, then fewer.
    fn shown_places(&self, plot: &Plot, curves: &[Curve]) -> Vec<String> {
        let longest = curves.iter().max_by_key(|curve| curve.points.len());
        let places = longest.map_or_else(Vec::new, |curve| {
            curve.points.iter().map(|(x, _)| x.clone()).collect()
        });
        if plot.x.is_some() {
            return places;
        }
        let is_shown =
            |x: &usize| *x < 10 || (*x < 50 && x.is_multiple_of(10)) || x.is_multiple_of(50);
        let shown = (0..places.len()).filter(is_shown);
        shown.map(|x| places[x].clone()).collect()
    }

    fn draw(&self, plot: &Plot, page: Page) -> Page {
        let curves = self.curves(plot);
        let is_number = |curve: &Curve| curve.points.iter().all(|(x, _)| x.parse::<f64>().is_ok());
        if !curves.iter().all(is_number) {
            return page.svg(&self.draw_bars(plot, &curves));
        }
        let y = if plot.is_log {
            Axis::log(label(&plot.y[0]))
        } else {
            Axis::linear(label(&plot.y[0]))
        };
        let mut drawing = Drawing::new(&*plot.title, Axis::linear(self.x_label(plot)), y);
        for curve in &curves {
            let marks = curve
                .points
                .iter()
                .filter_map(|(x, estimate)| mark(x, *estimate));
            let series = if plot.y.len() == 1 || curve.is_reference {
                Series::line(&*curve.name, marks)
            } else {
                Series::marks(&*curve.name, marks)
            };
            drawing = drawing.with(series);
        }
        for curve in &curves {
            let stated = plot
                .stated
                .iter()
                .filter(|stated| stated.curve == curve.name);
            let marks: Vec<(f64, f64)> = stated
                .filter_map(|stated| Some((stated.x.parse().ok()?, stated.y)))
                .collect();
            if !marks.is_empty() {
                let name = format!("paper: {}", curve.name);
                drawing = drawing.with(Series::marks(name, marks));
            }
        }
        page.plot(drawing)
    }

    fn draw_bars(&self, plot: &Plot, curves: &[Curve]) -> String {
        let mut bars = Bars::new(format!("{}: {}", plot.title, label(&plot.y[0])));
        for curve in curves {
            for (x, Estimate { mean, half }) in &curve.points {
                let name = if curves.len() == 1 {
                    x.clone()
                } else {
                    format!("{}, {x}", curve.name)
                };
                let half = half.unwrap_or(0.0);
                bars = bars.with(name, *mean, ((mean - half).max(0.0), mean + half));
                let stated = plot
                    .stated
                    .iter()
                    .find(|s| s.curve == curve.name && s.x == *x);
                if let Some(stated) = stated {
                    bars = bars.with(format!("paper: {x}"), stated.y, (stated.y, stated.y));
                }
            }
        }
        bars.svg()
    }

    /// One curve for each metric and each combination of the values on the axes that the plot
    /// shows.
    fn curves(&self, plot: &Plot) -> Vec<Curve> {
        let of = |(number, metric): (usize, &String)| {
            let mut curves = self.curves_of(plot, metric);
            for curve in curves.iter_mut().filter(|_| number > 0) {
                let separator = if curve.name.is_empty() { "" } else { ", " };
                curve.name = format!("{}{separator}{}", curve.name, label(metric));
                curve.is_reference = true;
            }
            curves
        };
        plot.y.iter().enumerate().flat_map(of).collect()
    }

    fn curves_of(&self, plot: &Plot, metric: &str) -> Vec<Curve> {
        let mut curves: Vec<Curve> = Vec::new();
        for point in self.results.select(&plot.only) {
            let name = self.curve_name(plot, point);
            let place = curves.iter().position(|curve| curve.name == name);
            let place = place.unwrap_or_else(|| {
                curves.push(Curve {
                    name,
                    is_reference: false,
                    points: Vec::new(),
                });
                curves.len() - 1
            });
            match plot.x {
                Some(x) => {
                    let at = self.results.label(point, x).to_owned();
                    let mut estimate = self.results.estimate(point, metric);
                    if plot.is_of_one_run {
                        estimate = estimate.of_one_more(point.runs.len());
                    }
                    curves[place].points.push((at, estimate));
                }
                None => {
                    let curve = self.results.curve(point, metric).into_iter().enumerate();
                    curves[place].points = curve.map(|(x, y)| (x.to_string(), y)).collect();
                }
            }
        }
        curves
    }

    fn curve_name(&self, plot: &Plot, point: &Point) -> String {
        let shown = |axis: AxisName| {
            let named = plot.only.iter().find(|(name, _)| *name == axis);
            named.is_none_or(|(_, labels)| labels.len() > 1)
        };
        let others = self
            .results
            .varied()
            .filter(|axis| Some(axis.name) != plot.x && shown(axis.name));
        let labels: Vec<String> = others
            .map(|axis| {
                let label = self.results.label(point, axis.name);
                match axis.name {
                    AxisName::Policy | AxisName::Servers | AxisName::Arrivals => label.to_owned(),
                    AxisName::Edges if label.parse::<usize>().is_err() => label.to_owned(),
                    AxisName::Edges | AxisName::Exchange | AxisName::Offered => {
                        format!("{} {label}", axis.key)
                    }
                }
            })
            .collect();
        labels.join(", ")
    }

    fn x_key(&self, plot: &Plot) -> &'static str {
        plot.x
            .map_or("requests found", |x| self.results.axes[x as usize].key)
    }

    fn x_label(&self, plot: &Plot) -> &'static str {
        match self.x_key(plot) {
            "rate" => "calls per second",
            "load" => "calls per second over what the servers carry",
            "servers" => "servers",
            other => other,
        }
    }
}

fn mark(x: &str, Estimate { mean, half }: Estimate) -> Option<Mark> {
    Some(Mark {
        x: x.parse().ok()?,
        y: mean,
        interval: half.map(|half| (mean - half, mean + half)),
    })
}

fn json_of_estimate(Estimate { mean, half }: Estimate) -> Value {
    json!({ "mean": mean, "half": half })
}

/// A mean with its interval, in as many digits as the interval allows.
fn show(Estimate { mean, half }: Estimate) -> String {
    let digits = match mean.abs() {
        0.0 => 0,
        size if size < 0.001 => return format!("{mean:.1e}"),
        size if size < 1.0 => 3,
        size if size < 10.0 => 2,
        size if size < 100.0 => 1,
        _ => 0,
    };
    match half {
        Some(half) if half > 0.0 => format!("{mean:.digits$} ± {half:.digits$}"),
        _ => format!("{mean:.digits$}"),
    }
}
