//! The results as a page.

use report::{Axis, Page, Plot, Series, Table};

use super::measure::{Measured, Shape};

impl Measured {
    pub(super) fn page(&self) -> Page {
        Page::new("Dynamic state along a path of nodes")
            .text(
                "Nodes of 5700 calls/s without state and 4700 with, in the simulator. The optimum is that of the \
                 linear program of section 2.3, path by path.",
            )
            .plot(self.figure_2())
            .plot(self.figure_4())
            .table(self.figure_4_table())
            .table(self.shapes_table())
            .table(self.changes_table())
            .table(self.underload_table())
    }

    fn figure_2(&self) -> Plot {
        let percent = |points: &[(f64, f64)]| {
            let points = points.iter().map(|&(rate, busy)| (rate, 100.0 * busy));
            points.collect::<Vec<_>>()
        };
        let plot = Plot::new(
            "Figure 2: busy, one node",
            Axis::linear("calls/s offered"),
            Axis::linear("busy, %"),
        );
        plot.with(Series::line("stateless", percent(&self.busy[0])))
            .with(Series::line("stateful", percent(&self.busy[1])))
    }

    fn figure_4(&self) -> Plot {
        let [both, first, dynamic] = &self.goodput;
        let best: Vec<(f64, f64)> = (dynamic.iter())
            .map(|&(rate, _)| (rate, rate.min(self.shapes[0].best_per_s)))
            .collect();
        let plot = Plot::new(
            "Figure 4: carried by two nodes in series",
            Axis::linear("calls/s offered"),
            Axis::linear("calls/s carried"),
        );
        plot.with(Series::line("both stateful", both.clone()))
            .with(Series::line("the first stateful", first.clone()))
            .with(Series::line("dynamic", dynamic.clone()))
            .with(Series::line("optimum", best))
    }

    fn figure_4_table(&self) -> Table {
        let columns = [
            "offered, calls/s",
            "both stateful",
            "the first stateful",
            "dynamic",
        ];
        let mut table = Table::new("Figure 4: carried by two nodes in series, calls/s", columns);
        let [both, first, dynamic] = &self.goodput;
        for ((both, first), dynamic) in both.iter().zip(first).zip(dynamic) {
            let cells = [both.0, both.1, first.1, dynamic.1];
            table.push(cells.map(|number| format!("{number:.0}")));
        }
        table
    }

    fn shapes_table(&self) -> Table {
        let columns = [
            "nodes",
            "optimum, calls/s",
            "best fixed",
            "carried of 1 x",
            "% of optimum",
            "carried of 2 x",
            "% of optimum",
        ];
        let mut table = Table::new("Carried when as much and twice as much is offered", columns);
        for shape in &self.shapes {
            let Shape {
                name,
                best_per_s,
                fixed_per_s,
                carried_per_s,
                carried_of_twice_per_s,
            } = shape;
            let percent = |carried: &f64| format!("{:.1}", 100.0 * carried / best_per_s);
            table.push([
                (*name).to_owned(),
                format!("{best_per_s:.0}"),
                format!("{fixed_per_s:.0}"),
                format!("{carried_per_s:.0}"),
                percent(carried_per_s),
                format!("{carried_of_twice_per_s:.0}"),
                percent(carried_of_twice_per_s),
            ]);
        }
        table
    }

    fn changes_table(&self) -> Table {
        let columns = [
            "change",
            "who sets the shares",
            "carried, % of what is offered",
            "settled after, s",
            "worst second after 2 s, % short",
        ];
        let mut table = Table::new("Two in series when something changes", columns);
        for change in &self.changes {
            for run in &change.runs {
                let settled = run.settled_s();
                table.push([
                    change.name.to_owned(),
                    run.by.to_owned(),
                    format!("{:.1}", 100.0 * run.mean()),
                    settled.map_or_else(|| "never".to_owned(), |s| format!("{s:.1}")),
                    format!("{:.1}", 100.0 * run.worst().max(0.0)),
                ]);
            }
        }
        table
    }

    fn underload_table(&self) -> Table {
        let columns = [
            "three in series, 2000 calls/s",
            "held",
            "p99, ms",
            "datagrams",
        ];
        let mut table = Table::new("With little to do", columns);
        for (name, calm) in ["dynamic", "the first stateful"]
            .iter()
            .zip(&self.underload)
        {
            let held: Vec<String> = calm.held.iter().map(ToString::to_string).collect();
            table.push([
                (*name).to_owned(),
                held.join(" "),
                format!("{:.2}", calm.p99_ms),
                calm.datagrams.to_string(),
            ]);
        }
        table
    }
}
