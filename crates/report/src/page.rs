use crate::{Plot, Table, escape};

const STYLE: &str = include_str!("page.css");

/// Results in reading order: one HTML page that contains its style and its plots, or plain text for
/// a terminal.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    parts: Vec<Part>,
    /// The command that made it, and the date.
    made: Option<(String, String)>,
}

#[derive(Clone, Debug)]
enum Part {
    Heading(String),
    Text(String),
    Verbatim(String),
    Table(Table),
    Svg(String),
}

impl Page {
    /// Makes a page without content.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            parts: Vec::new(),
            made: None,
        }
    }

    /// Tells below all parts which command made the page, and when.
    #[must_use]
    pub fn made(self, command: impl Into<String>, date: impl Into<String>) -> Self {
        Self {
            made: Some((command.into(), date.into())),
            ..self
        }
    }

    /// Adds a heading below the title.
    #[must_use]
    pub fn heading(self, text: &str) -> Self {
        self.with(Part::Heading(text.to_owned()))
    }

    /// Adds a paragraph of plain text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.with(Part::Text(text.to_owned()))
    }

    /// Adds preformatted text: a command, or a ladder of messages.
    #[must_use]
    pub fn verbatim(self, text: &str) -> Self {
        self.with(Part::Verbatim(text.to_owned()))
    }

    /// Adds a table.
    #[must_use]
    pub fn table(self, table: Table) -> Self {
        self.with(Part::Table(table))
    }

    /// Adds a plot.
    #[must_use]
    pub fn plot(self, plot: Plot) -> Self {
        self.svg(&plot.svg())
    }

    /// Adds a drawing that is already SVG.
    #[must_use]
    pub fn svg(self, svg: &str) -> Self {
        self.with(Part::Svg(svg.to_owned()))
    }

    /// Writes the whole page as HTML.
    #[must_use]
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        let body: String = self.parts.iter().map(Part::html).collect();
        let footer = self.made.as_ref().map_or_else(String::new, |made| {
            let (command, date) = (escape(&made.0), escape(&made.1));
            format!("<footer>Made by <code>{command}</code> on {date}.</footer>\n")
        });
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n{footer}</body>\n</html>\n",
        )
    }

    /// Writes the page for a terminal, without its title and drawings.
    #[must_use]
    pub fn plain(&self) -> String {
        let parts: Vec<String> = self.parts.iter().filter_map(Part::plain).collect();
        parts.join("\n")
    }

    fn with(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }
}

impl Part {
    fn html(&self) -> String {
        match self {
            Self::Heading(text) => format!("<h2>{}</h2>\n", escape(text)),
            Self::Text(text) => format!("<p>{}</p>\n", escape(text)),
            Self::Verbatim(text) => format!("<pre>{}</pre>\n", escape(text)),
            Self::Table(table) => table.html(),
            // Who has no mouse scrolls what the keyboard can reach.
            Self::Svg(svg) => format!("<figure tabindex=\"0\">\n{svg}</figure>\n"),
        }
    }

    fn plain(&self) -> Option<String> {
        match self {
            Self::Heading(text) | Self::Text(text) | Self::Verbatim(text) => {
                Some(format!("{}\n", text.trim_end()))
            }
            Self::Table(table) => Some(table.text()),
            Self::Svg(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Series};

    #[test]
    fn a_page_holds_its_parts_in_order_and_escapes_text() {
        let plot = Plot::new("p", Axis::linear("x"), Axis::linear("y"))
            .with(Series::line("s", [(1.0, 2.0), (2.0, 3.0)]));
        let html = Page::new("A & B")
            .heading("first")
            .text("1 < 2")
            .verbatim("a\n b")
            .table(Table::new("t", ["c"]).row(["1"]))
            .plot(plot)
            .made("sipyard <x>", "2026-11-23")
            .html();
        let parts = [
            "<title>A &amp; B</title>",
            "<h2>first</h2>",
            "<p>1 &lt; 2</p>",
            "<pre>a\n b</pre>",
            "<td class=\"number\">1</td>",
            "<svg",
            "</main>",
            "<footer>Made by <code>sipyard &lt;x&gt;</code> on 2026-11-23.</footer>",
            "</html>",
        ];
        let places: Vec<_> = parts.iter().map(|part| html.find(part).unwrap()).collect();
        assert!(places.is_sorted(), "{html}");
    }
    #[test]
    fn a_terminal_gets_the_parts_with_lines_between() {
        let page = Page::new("title")
            .heading("first")
            .table(Table::new("t", ["c"]).row(["1"]))
            .svg("<svg/>")
            .verbatim("a\n b\n");
        assert_eq!(page.plain(), "first\n\nt\nc\n1\n\na\n b\n");
    }
}
