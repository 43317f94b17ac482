use crate::escape;

/// Rows of cells under named columns. Columns of numbers are right-aligned.
#[derive(Clone, Debug)]
pub struct Table {
    caption: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table without rows. Put units into the columns' names: `"mean, ms"`.
    #[must_use]
    pub fn new<C: Into<String>>(
        caption: impl Into<String>,
        columns: impl IntoIterator<Item = C>,
    ) -> Self {
        Self {
            caption: caption.into(),
            columns: columns.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row and returns the table.
    #[must_use]
    pub fn row<C: Into<String>>(mut self, cells: impl IntoIterator<Item = C>) -> Self {
        self.push(cells);
        self
    }

    /// Adds a row. Missing cells are empty; cells past the last column are left out.
    pub fn push<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// Whether the table has no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes the table for a terminal: the caption, if there is one, then aligned columns.
    #[must_use]
    pub fn text(&self) -> String {
        let widths = self.widths();
        let numeric = self.numeric();
        let mut text = String::new();
        if !self.caption.is_empty() {
            text += &format!("{}\n", self.caption);
        }
        for row in std::iter::once(&self.columns).chain(&self.rows) {
            let cells = row.iter().zip(widths.iter().zip(&numeric));
            let padded = cells.map(|(cell, (&width, &numeric))| pad(cell, width, numeric));
            text += padded.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
        text
    }

    /// Writes the table for a Markdown document, without the caption.
    #[must_use]
    pub fn markdown(&self) -> String {
        let numeric = self.numeric();
        let rules = numeric
            .iter()
            .map(|&numeric| if numeric { "---:" } else { "---" });
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.columns.iter().map(|cell| cell_of(cell)).collect());
        text += &line(rules.map(str::to_owned).collect());
        for row in &self.rows {
            text += &line(row.iter().map(|cell| cell_of(cell)).collect());
        }
        text
    }

    /// Writes the table for spreadsheets (RFC 4180), with the columns' names first.
    #[must_use]
    pub fn csv(&self) -> String {
        let rows = std::iter::once(&self.columns).chain(&self.rows);
        let line = |row: &Vec<String>| {
            let cells: Vec<_> = row.iter().map(|cell| quoted(cell)).collect();
            cells.join(",") + "\r\n"
        };
        rows.map(line).collect()
    }

    pub(crate) fn html(&self) -> String {
        let numeric = self.numeric();
        let line = |tag: &str, row: &Vec<String>| {
            let cell = |(cell, &numeric): (&String, &bool)| {
                let class = if numeric { " class=\"number\"" } else { "" };
                let tag = if cell.is_empty() { "td" } else { tag };
                format!("<{tag}{class}>{}</{tag}>", escape(cell))
            };
            let cells: String = row.iter().zip(&numeric).map(cell).collect();
            format!("<tr>{cells}</tr>\n")
        };
        let head = line("th", &self.columns);
        let body: String = self.rows.iter().map(|row| line("td", row)).collect();
        let caption = match self.caption.as_str() {
            "" => String::new(),
            caption => format!("<caption>{}</caption>\n", escape(caption)),
        };
        format!(
            "<div class=\"table\" tabindex=\"0\"><table>\n{caption}\
             <thead>\n{head}</thead>\n<tbody>\n{body}</tbody>\n</table></div>\n"
        )
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = std::iter::once(&self.columns).chain(&self.rows);
            cells.map(|row| row[column].chars().count()).max()
        };
        let columns = 0..self.columns.len();
        columns.map(|column| width(column).unwrap_or(0)).collect()
    }

    /// The columns of numbers: every cell that isn't empty is a number, perhaps with a unit or an
    /// interval.
    fn numeric(&self) -> Vec<bool> {
        let column = |column: usize| {
            let mut cells = self.rows.iter().map(|row| &row[column]);
            cells.all(|cell| is_number(cell)) && !self.rows.is_empty()
        };
        (0..self.columns.len()).map(column).collect()
    }
}

fn is_number(cell: &str) -> bool {
    let digits = cell.trim_start_matches(['-', '+', '<', '>', '±', ' ']);
    cell.is_empty() || cell == "-" || digits.starts_with(|first: char| first.is_ascii_digit())
}

fn pad(cell: &str, width: usize, numeric: bool) -> String {
    if numeric {
        format!("{cell:>width$}")
    } else {
        format!("{cell:<width$}")
    }
}

fn cell_of(cell: &str) -> String {
    cell.replace('|', "\\|")
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table::new("Means", ["policy", "mean, ms"])
            .row(["tlwl", "2.9"])
            .row(["a|b, \"c\" <d>", "19.95"])
            .row(["none"])
    }

    #[test]
    fn a_terminal_gets_aligned_columns() {
        let expected = "Means\n\
                        policy        mean, ms\n\
                        tlwl               2.9\n\
                        a|b, \"c\" <d>     19.95\n\
                        none\n";
        assert_eq!(table().text(), expected);
    }

    #[test]
    fn markdown_keeps_its_bars_apart_from_the_cells() {
        let expected = "| policy | mean, ms |\n\
                        | --- | ---: |\n\
                        | tlwl | 2.9 |\n\
                        | a\\|b, \"c\" <d> | 19.95 |\n\
                        | none |  |\n";
        assert_eq!(table().markdown(), expected);
    }

    #[test]
    fn spreadsheets_get_quoted_cells() {
        let expected = "policy,\"mean, ms\"\r\n\
                        tlwl,2.9\r\n\
                        \"a|b, \"\"c\"\" <d>\",19.95\r\n\
                        none,\r\n";
        assert_eq!(table().csv(), expected);
    }

    #[test]
    fn the_page_gets_escaped_cells() {
        let html = table().html();
        assert!(
            html.contains("<td>a|b, &quot;c&quot; &lt;d&gt;</td>"),
            "{html}"
        );
        assert!(html.contains("<td class=\"number\">19.95</td>"), "{html}");
    }
}
