//! Drawings in the colours of the page that they are on, light or dark.

use plotters::style::RGBColor;

use crate::escape;

/// Colours that differ clearly on white, also for most people with colour blindness. page.css has those for dark pages.
const COLOURS: [RGBColor; 11] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(96, 96, 96),
    RGBColor(120, 60, 160),
    RGBColor(150, 75, 20),
    RGBColor(170, 170, 0),
    RGBColor(20, 60, 90),
];

/// The colour of what failed.
pub(crate) const OF_FAILURES: RGBColor = RGBColor(200, 20, 60);

/// The colour of a series by its place.
pub(crate) fn colour(place: usize) -> RGBColor {
    COLOURS[place % COLOURS.len()]
}

/// Gives a drawing on white its name, and the colours of the page that it will be on.
pub(crate) fn themed(svg: &str, title: &str) -> String {
    let colours = COLOURS.iter().chain([&OF_FAILURES]).enumerate();
    let named = format!("<svg role=\"img\" aria-label=\"{}\" ", escape(title));
    let plain = svg
        .replacen("<svg ", &named, 1)
        .replace("\"#FFFFFF\"", "\"none\"")
        .replace("\"#000000\"", "\"currentColor\"");
    colours.fold(plain, |svg, (place, RGBColor(red, green, blue))| {
        let fixed = format!("#{red:02X}{green:02X}{blue:02X}");
        svg.replace(
            &format!("\"{fixed}\""),
            &format!("\"var(--c{place}, {fixed})\""),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Plot, Series};

    #[test]
    fn a_drawing_has_the_colours_of_its_page_and_a_name() {
        let points = [(1.0, 1.0), (2.0, 2.0)];
        let plot = Plot::new("A & B", Axis::linear("x"), Axis::linear("y"))
            .with(Series::line("offered", points))
            .with(Series::line("failed", points).of_failures());
        let svg = plot.svg();
        assert!(
            svg.starts_with("<svg role=\"img\" aria-label=\"A &amp; B\""),
            "{svg}"
        );
        for fixed in ["=\"#", "black", "white"] {
            assert!(!svg.contains(fixed), "{fixed}: {svg}");
        }
        for colour in ["var(--c0, #0072B2)", "var(--c11, #C8143C)", "currentColor"] {
            assert!(svg.contains(colour), "{colour}: {svg}");
        }
        let css = include_str!("page.css");
        for place in 0..=COLOURS.len() {
            assert!(css.contains(&format!("--c{place}:")), "{place}");
        }
    }
}
