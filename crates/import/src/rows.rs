//! Reads lists and tables: dispatcher.list, what database clients print, dumps in SQL, and db_text.

use std::collections::BTreeMap;

use csv::ReaderBuilder;

use crate::notes::{At, Kind, Notes};

/// Tables that an import knows, each by columns that no other has, and the order of its columns in
/// dumps that don't name them.
const TABLES: [(Table, &[&str], &str); 6] = [
    (
        Table::Subscriber,
        &["username", "ha1"],
        "id username domain password",
    ),
    (Table::Location, &["username", "contact", "expires"], ""),
    (
        Table::LoadBalancer,
        &["dst_uri", "resources"],
        "id group_id dst_uri resources probe_mode attrs description",
    ),
    (
        Table::Gateways,
        &["gwid", "address"],
        "id gwid type address strip pri_prefix attrs probe_mode state socket description",
    ),
    (
        Table::Rules,
        &["gwlist", "prefix"],
        "ruleid groupid prefix timerec priority routeid gwlist sort_alg sort_profile attrs description",
    ),
    (
        Table::Dispatcher,
        &["setid", "destination"],
        "id setid destination flags priority attrs description",
    ),
];

/// A table of either program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Dispatcher,
    LoadBalancer,
    Gateways,
    Rules,
    Subscriber,
    Location,
}

/// A row of a table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) at: At,
    pub(crate) table: Table,
    cells: BTreeMap<String, String>,
}

impl Row {
    /// A cell's text; empty if there is none.
    pub(crate) fn get(&self, column: &str) -> &str {
        self.cells.get(column).map_or("", String::as_str)
    }

    fn new(at: At, table: Table, columns: &[String], cells: Vec<String>) -> Self {
        // A NULL is what is absent.
        let present = |cell: &String| !cell.eq_ignore_ascii_case("null") && cell != "\\N";
        let pairs = columns.iter().cloned().zip(cells);
        Self {
            at,
            table,
            cells: pairs.filter(|(_, cell)| present(cell)).collect(),
        }
    }
}

impl Table {
    fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "dispatcher" => Self::Dispatcher,
            "load_balancer" => Self::LoadBalancer,
            "dr_gateways" => Self::Gateways,
            "dr_rules" => Self::Rules,
            "subscriber" => Self::Subscriber,
            "location" => Self::Location,
            _ => return None,
        })
    }

    fn of_columns(columns: &[String]) -> Option<Self> {
        let has = |name: &&str| columns.iter().any(|column| column == name);
        let known = TABLES.iter().find(|(_, needs, _)| needs.iter().all(has));
        known.map(|(table, ..)| *table)
    }

    fn usual_columns(self) -> Vec<String> {
        let known = TABLES.iter().find(|(table, ..)| *table == self);
        let names = known.map_or("", |(_, _, names)| names);
        names.split_whitespace().map(str::to_owned).collect()
    }
}

/// The rows of a list or a table; none if the text is neither.
pub(crate) fn rows(file: usize, text: &str, notes: &mut Notes) -> Option<Vec<Row>> {
    let upper = text.to_ascii_uppercase();
    if upper.contains("INSERT INTO") {
        return Some(sql(file, text, notes));
    }
    let first = text.lines().find(|line| !line.trim().is_empty())?;
    if first.contains("(int") || first.contains("(string") || first.contains("(str,") {
        return db_text(file, text);
    }
    printed(file, text).or_else(|| list(file, text, notes))
}

/// `setid destination flags priority attrs`, as dispatcher.list has it.
fn list(file: usize, text: &str, notes: &mut Notes) -> Option<Vec<Row>> {
    let mut rows = Vec::new();
    let mut is_list = true;
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let at = At {
            file,
            line: index + 1,
        };
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_row = fields[0].parse::<u32>().is_ok() && fields.len() >= 2;
        if !is_row {
            is_list &= !rows.is_empty();
            notes.add(at, Kind::ToDo, line, "this line is no destination");
            continue;
        }
        // What stands behind the fourth field may have blanks in quotes.
        let columns = ["setid", "destination", "flags", "priority", "attrs"];
        let columns = columns.map(str::to_owned);
        let mut cells: Vec<String> = fields.iter().take(4).map(|it| (*it).to_owned()).collect();
        let attrs = fields.get(4..).unwrap_or_default().join(" ");
        cells.push(attrs.trim_matches('"').to_owned());
        cells.resize(columns.len(), String::new());
        rows.push(Row::new(at, Table::Dispatcher, &columns, cells));
    }
    is_list.then_some(rows)
}

/// A first line that names the columns, and a separator: a tab, a comma, a semicolon or a bar.
fn printed(file: usize, text: &str) -> Option<Vec<Row>> {
    let head = text.lines().next()?;
    let by = [b'\t', b'|', b';', b',']
        .into_iter()
        .find(|by| head.as_bytes().contains(by))?;
    let mut reader = ReaderBuilder::new()
        .delimiter(by)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let columns: Vec<String> = reader
        .headers()
        .ok()?
        .iter()
        .map(str::to_lowercase)
        .collect();
    let table = Table::of_columns(&columns)?;
    let rows = reader.records().filter_map(|record| {
        let record = record.ok().filter(|record| record.len() > 1)?;
        let line = record.position().map_or(0, csv::Position::line) as usize;
        let cells = record.iter().map(str::to_owned).collect();
        Some(Row::new(At { file, line }, table, &columns, cells))
    });
    Some(rows.collect())
}

/// `id(int,auto) setid(int) ...`, then rows with colons; a colon within a cell is written `\:`.
fn db_text(file: usize, text: &str) -> Option<Vec<Row>> {
    let mut lines = text.lines().enumerate();
    let (_, head) = lines.find(|(_, line)| !line.trim().is_empty())?;
    let columns: Vec<String> = head
        .split_whitespace()
        .filter_map(|column| Some(column.split_once('(')?.0.to_owned()))
        .collect();
    let table = Table::of_columns(&columns)?;
    let rows = lines.filter(|(_, line)| !line.trim().is_empty());
    let rows = rows.map(|(index, line)| {
        let at = At {
            file,
            line: index + 1,
        };
        Row::new(at, table, &columns, split_escaped(line, ':'))
    });
    Some(rows.collect())
}

fn split_escaped(line: &str, by: char) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let cell = cells.last_mut().expect("never empty");
        match c {
            '\\' => cell.extend(chars.next()),
            _ if c == by => cells.push(String::new()),
            _ => cell.push(c),
        }
    }
    cells
}

/// `CREATE TABLE`, which names the columns, and `INSERT INTO`, of each table that is known.
fn sql(file: usize, text: &str, notes: &mut Notes) -> Vec<Row> {
    let mut made: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut rows = Vec::new();
    for (line, statement) in sql_statements(text) {
        let words: Vec<&str> = statement.split_whitespace().take(8).collect();
        let at = At { file, line };
        let begins = |first: &str, second: &str| {
            words.len() > 2
                && words[0].eq_ignore_ascii_case(first)
                && words[1].eq_ignore_ascii_case(second)
        };
        if begins("create", "table") {
            if let Some((head, body)) = statement.split_once('(') {
                let name = bare(head.split_whitespace().last().unwrap_or_default());
                made.insert(name, columns_of(body));
            }
        } else if begins("insert", "into") {
            insert(statement, at, &made, &mut rows, notes);
        }
    }
    rows
}

fn insert(
    statement: &str,
    at: At,
    made: &BTreeMap<String, Vec<String>>,
    rows: &mut Vec<Row>,
    notes: &mut Notes,
) {
    let upper = statement.to_ascii_uppercase();
    let Some(values) = upper.find("VALUES") else {
        return;
    };
    let into = upper.find("INTO").map_or(0, |at| at + 4);
    let head = statement[into..values].trim();
    let (name, named) = head.split_once('(').unwrap_or((head, ""));
    let name = bare(name.trim().rsplit('.').next().unwrap_or_default());
    let Some(table) = Table::of_name(&name) else {
        return;
    };
    let columns: Vec<String> = match named.trim_end_matches([')', ' ']) {
        "" => made
            .get(&name)
            .cloned()
            .unwrap_or_else(|| table.usual_columns()),
        named => named.split(',').map(|it| bare(it.trim())).collect(),
    };
    let offset = at.line + statement[..values].matches('\n').count();
    for (line, cells) in tuples(&statement[values + 6..]) {
        let at = At {
            line: offset + line,
            ..at
        };
        if cells.len() > columns.len() {
            let text =
                "the row has more values than the table has columns: dump it with their names";
            notes.add(at, Kind::ToDo, &name, text);
            continue;
        }
        rows.push(Row::new(at, table, &columns, cells));
    }
}

/// A name without its quotes.
fn bare(name: &str) -> String {
    name.trim_matches(['`', '"', '[', ']', ';', '('])
        .to_lowercase()
}

/// The names in the body of a `CREATE TABLE`.
fn columns_of(body: &str) -> Vec<String> {
    let mut depth = 0;
    let parts = body.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    let names = parts.filter_map(|part| part.split_whitespace().next());
    let is_key = |name: &&str| {
        let upper = name.to_ascii_uppercase();
        !["PRIMARY", "KEY", "UNIQUE", "CONSTRAINT", "INDEX"].contains(&upper.as_str())
    };
    names.filter(is_key).map(bare).collect()
}

/// The statements of a dump, each with its first line.
fn sql_statements(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let (mut start, mut quoted, mut escaped) = (0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '\'' => quoted = !quoted,
            ';' if !quoted => {
                found.push((start, &text[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push((start, &text[start..]));
    let trimmed = found.into_iter().map(|(start, statement)| {
        let mut begin = start;
        let mut rest = statement;
        loop {
            let cut = rest.trim_start();
            begin += rest.len() - cut.len();
            rest = cut;
            if !rest.starts_with("--") {
                break;
            }
            let end = rest.find('\n').unwrap_or(rest.len());
            begin += end;
            rest = &rest[end..];
        }
        (begin, rest)
    });
    let mut line = 1;
    let mut counted = 0;
    trimmed
        .filter(|(_, rest)| !rest.is_empty())
        .map(|(begin, rest)| {
            line += text[counted..begin].matches('\n').count();
            counted = begin;
            (line, rest)
        })
        .collect()
}

/// The values in parentheses, each with how many lines it is below the first.
fn tuples(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    let mut cells: Option<(usize, Vec<String>)> = None;
    let (mut cell, mut quoted, mut line) = (String::new(), false, 0);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        line += usize::from(c == '\n');
        let Some((_, open)) = &mut cells else {
            if c == '(' {
                cells = Some((line, Vec::new()));
            }
            continue;
        };
        match c {
            '\\' if quoted => cell.extend(chars.next()),
            '\'' if quoted && chars.peek() == Some(&'\'') => cell.extend(chars.next()),
            '\'' => quoted = !quoted,
            _ if quoted => cell.push(c),
            ',' | ')' => {
                open.push(std::mem::take(&mut cell).trim().to_owned());
                if c == ')' {
                    found.extend(cells.take());
                }
            }
            _ => cell.push(c),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_table_is_read_with_its_lines() {
        let cases = [
            "# sets\n\n1 sip:10.0.0.1:5060 0 5 weight=50",
            "id\tsetid\tdestination\tflags\tpriority\tattrs\n\
             1\t2\tsip:10.0.0.9:5060\t0\t0\tNULL\n7\t1\tsip:10.0.0.1:5060\t0\t5\tweight=50",
            "CREATE TABLE `dispatcher` (\n`id` int(10) DEFAULT (1),\n`setid` int, `destination` varchar(9),\
             `flags` int, `priority` int, `attrs` x, PRIMARY KEY (`id`));\n-- rows\n\
             INSERT INTO `dispatcher` VALUES\n(1,1,'sip:10.0.0.1:5060',0,5,'weight=50');",
            "id(int,auto) setid(int) destination(string) flags(int) priority(int) attrs(string)\n\
             1:1:sip\\:10.0.0.1\\:5060:0:5:weight=50",
        ];
        for (case, line) in cases.into_iter().zip([3, 3, 6, 2]) {
            let rows = rows(0, case, &mut Notes::default()).expect("a table");
            let row = rows.last().expect("rows");
            let cells = ["setid", "destination", "priority", "attrs"].map(|name| row.get(name));
            assert_eq!(
                cells,
                ["1", "sip:10.0.0.1:5060", "5", "weight=50"],
                "{case}"
            );
            assert_eq!(row.at.line, line, "{case}");
        }
    }

    #[test]
    fn other_texts_are_no_tables() {
        for text in ["", "hello", "a,b,c\n1,2,3"] {
            assert!(rows(0, text, &mut Notes::default()).is_none(), "{text}");
        }
    }
}
