//! Shows results to people: tables, plots, and an HTML page that contains everything it needs.
//!
//! A [`Table`] prints itself for a terminal, for Markdown, for spreadsheets and for the page. A
//! [`Plot`] draws itself as SVG. A [`Page`] contains tables and plots with text between them.
//! [`figures`] writes single numbers. The crate does not interpret the numbers, and it reads and
//! writes no file.
//!
//! ```
//! use report::{Axis, Page, Plot, Series, Table};
//!
//! let table = Table::new("Response times", ["policy", "mean, ms"])
//!     .row(["tlwl", "2.9"])
//!     .row(["hash", "19.9"]);
//! let plot = Plot::new("Mean response time", Axis::linear("calls/s"), Axis::log("ms"))
//!     .with(Series::line("tlwl", [(200.0, 2.9), (2200.0, 5.2)]))
//!     .with(Series::marks("paper", [(200.0, 2.0)]));
//! let page = Page::new("Balancing").text("Eight servers.").table(table).plot(plot);
//! assert!(page.html().starts_with("<!DOCTYPE html>"));
//! ```

mod axis;
mod bars;
pub mod figures;
mod page;
mod plot;
mod table;
mod theme;

pub use axis::Axis;
pub use bars::Bars;
pub use page::Page;
pub use plot::{Plot, Point, Series};
pub use table::Table;

/// Escapes a text for HTML and SVG.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            char => escaped.push(char),
        }
    }
    escaped
}
