//! Pictures for the page: horizontal bars, drawn as SVG.

use plotters::prelude::*;

use super::summary::{Range, runs_of};
use crate::{
    balance::{Load, Run},
    subject::Subject,
};

const WIDTH: u32 = 800;
const ROW: i32 = 34;
const LABELS: i32 = 270;
const VALUES: i32 = 110;

/// CPU per call of each subject, with the range over the rounds.
pub(super) fn cpu(runs: &[Run], load: Load) -> String {
    let bars: Vec<_> = Subject::ALL
        .into_iter()
        .filter_map(|subject| {
            let range = Range::over(runs_of(runs, subject, load).map(|run| run.cpu_us_per_call))?;
            Some((subject, range))
        })
        .collect();
    let mut svg = String::new();
    draw(
        &bars,
        &format!("CPU microseconds per call, {}", load.title()),
        &mut svg,
    )
    .expect("a string takes every drawing");
    svg
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw(bars: &[(Subject, Range)], title: &str, svg: &mut String) -> Drawn {
    let rows = i32::try_from(bars.len() + 1)?;
    let area =
        SVGBackend::with_string(svg, (WIDTH, (rows * ROW).unsigned_abs())).into_drawing_area();
    let greatest = bars.iter().map(|(_, range)| range.max).fold(0.0, f64::max);
    let scale = f64::from(WIDTH as i32 - LABELS - VALUES) / greatest;
    let x = |value: f64| LABELS + (value * scale) as i32;
    area.draw(&Text::new(title.to_owned(), (0, 6), ("sans-serif", 22)))?;
    for (number, (subject, range)) in (1..).zip(bars) {
        let y = number * ROW;
        let color = if *subject == Subject::Sipyard {
            RGBColor(20, 120, 90)
        } else {
            RGBColor(140, 150, 165)
        };
        let bar = [(LABELS, y + 4), (x(range.median), y + ROW - 6)];
        area.draw(&Text::new(subject.title(), (0, y + 9), ("sans-serif", 18)))?;
        area.draw(&Rectangle::new(bar, color.filled()))?;
        let middle = y + ROW / 2 - 1;
        area.draw(&PathElement::new(
            [(x(range.min), middle), (x(range.max), middle)],
            BLACK,
        ))?;
        let value = format!("{:.1}", range.median);
        area.draw(&Text::new(
            value,
            (x(range.max) + 8, y + 9),
            ("sans-serif", 18),
        ))?;
    }
    area.present()?;
    Ok(())
}
