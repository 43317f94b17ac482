use crate::{Plot, Table, escape};

const STYLE: &str = "\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }
h1, h2 { line-height: 1.2 }
.table { overflow-x: auto }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem }
th, td { padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #ddd; text-align: left }
.number { text-align: right }
svg { max-width: 100%; height: auto }
pre { background: #f5f5f5; padding: .8rem; overflow-x: auto }
";

/// One HTML page with its style and its plots inside.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// A page without content.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            body: String::new(),
        }
    }

    /// A heading below the title.
    #[must_use]
    pub fn heading(self, text: &str) -> Self {
        self.with(format!("<h2>{}</h2>\n", escape(text)))
    }

    /// A paragraph of plain text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.with(format!("<p>{}</p>\n", escape(text)))
    }

    /// Plain text as it is: a command, a ladder of messages.
    #[must_use]
    pub fn verbatim(self, text: &str) -> Self {
        self.with(format!("<pre>{}</pre>\n", escape(text)))
    }

    /// A table.
    #[must_use]
    pub fn table(self, table: Table) -> Self {
        self.with(table.html())
    }

    /// A plot.
    #[must_use]
    pub fn plot(self, plot: Plot) -> Self {
        self.svg(&plot.svg())
    }

    /// A drawing that is SVG already, such as [`Bars`](crate::Bars).
    #[must_use]
    pub fn svg(self, svg: &str) -> Self {
        self.with(format!("<figure>\n{svg}</figure>\n"))
    }

    /// The whole page.
    #[must_use]
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{}</body>\n</html>\n",
            self.body
        )
    }

    fn with(mut self, part: String) -> Self {
        self.body += &part;
        self
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
            .html();
        let parts = [
            "<title>A &amp; B</title>",
            "<h2>first</h2>",
            "<p>1 &lt; 2</p>",
            "<pre>a\n b</pre>",
            "<td class=\"number\">1</td>",
            "<svg",
            "</html>",
        ];
        let places: Vec<_> = parts.iter().map(|part| html.find(part).unwrap()).collect();
        assert!(places.is_sorted(), "{html}");
    }
}
