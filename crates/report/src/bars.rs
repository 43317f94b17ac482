use plotters::prelude::*;

use crate::{
    plot::{Drawn, FONT},
    theme::{colour, themed},
};

const WIDTH: i32 = 600;
const ROW: i32 = 34;
const LABELS: i32 = 230;
const VALUES: i32 = 80;

/// Horizontal bars, each with its value and the range of possible values.
#[derive(Clone, Debug)]
pub struct Bars {
    title: String,
    bars: Vec<Bar>,
}

#[derive(Clone, Debug)]
struct Bar {
    label: String,
    value: f64,
    range: (f64, f64),
}

impl Bars {
    /// Makes a chart without bars; the title names the unit.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            bars: Vec::new(),
        }
    }

    /// Adds a bar below: a finite value of zero or more, between the ends of its range.
    #[must_use]
    pub fn with(mut self, label: impl Into<String>, value: f64, range: (f64, f64)) -> Self {
        self.bars.push(Bar {
            label: label.into(),
            value,
            range,
        });
        self
    }

    /// Draws the bars as an SVG element.
    #[must_use]
    pub fn svg(&self) -> String {
        let mut svg = String::new();
        self.draw(&mut svg)
            .expect("writing to a string does not fail");
        themed(&svg, &self.title)
    }

    fn draw(&self, svg: &mut String) -> Drawn {
        let rows = u32::try_from(self.bars.len() + 1).expect("bars fit on a page");
        let size = (WIDTH.unsigned_abs(), rows * ROW.unsigned_abs());
        let area = SVGBackend::with_string(svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        area.draw(&Text::new(self.title.as_str(), (0, 6), (FONT, 17)))?;
        let greatest = self.bars.iter().map(|bar| bar.range.1);
        let greatest = greatest.fold(f64::MIN_POSITIVE, f64::max);
        let x =
            |value: f64| LABELS + (value / greatest * f64::from(WIDTH - LABELS - VALUES)) as i32;
        for (bar, y) in self.bars.iter().zip((ROW..).step_by(ROW as usize)) {
            let (low, high) = (x(bar.range.0), x(bar.range.1));
            let rectangle = [(LABELS, y + 4), (x(bar.value), y + ROW - 6)];
            area.draw(&Rectangle::new(rectangle, colour(0).mix(0.6).filled()))?;
            let middle = y + ROW / 2 - 1;
            area.draw(&PathElement::new([(low, middle), (high, middle)], BLACK))?;
            area.draw(&Text::new(bar.label.as_str(), (0, y + 9), (FONT, 14)))?;
            let value = format!("{:.1}", bar.value);
            area.draw(&Text::new(value, (high + 8, y + 9), (FONT, 14)))?;
        }
        area.present()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bar_has_its_label_and_its_value() {
        let svg = Bars::new("CPU, us")
            .with("floor", 20.0, (19.0, 21.0))
            .with("nothing", 0.0, (0.0, 0.0))
            .svg();
        for text in ["CPU, us", "floor", "20.0", "nothing", "0.0"] {
            assert!(svg.contains(text), "{svg}");
        }
    }
}
