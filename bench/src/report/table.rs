//! One table, printed in two ways.

use std::fmt::Write as _;

pub(super) struct Table {
    pub columns: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn markdown(&self) -> String {
        let line = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
        let mut text = line(&self.columns) + &"|---".repeat(self.columns.len()) + "|\n";
        for row in &self.rows {
            text += &line(&row.iter().map(String::as_str).collect::<Vec<_>>());
        }
        text
    }

    pub(super) fn html(&self) -> String {
        let mut text = String::from("<table>\n<tr>");
        for column in &self.columns {
            _ = write!(text, "<th>{}</th>", escaped(column));
        }
        for row in &self.rows {
            text += "</tr>\n<tr>";
            for cell in row {
                _ = write!(text, "<td>{}</td>", escaped(cell));
            }
        }
        text + "</tr>\n</table>\n"
    }
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
