//! The report: what was measured last of each kind, as JSON, as a page to read, as a page to see.

mod chart;
mod summary;

use std::{fmt::Write as _, fs, io, path::Path};

use report::{Bars, Page, Table};
use serde::{Deserialize, Serialize};

use crate::{
    balance::{Load, Run},
    machine::Stamp,
    memory::Memory,
    spread::Spread,
};

const TITLE: &str = "Balancing: figures";

/// Everything that was measured, each with where and when.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub balance: Option<Stamped<Vec<Run>>>,
    pub spread: Option<Stamped<Vec<Spread>>>,
    pub memory: Option<Stamped<Memory>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stamped<T> {
    #[serde(flatten)]
    stamp: Stamp,
    pub results: T,
}

/// A table with where and when it was measured, and its pictures.
struct Section {
    title: &'static str,
    note: String,
    tables: Vec<Table>,
    charts: Vec<Bars>,
}

pub(crate) fn stamped<T>(results: T) -> io::Result<Stamped<T>> {
    Ok(Stamped {
        stamp: Stamp::take()?,
        results,
    })
}

impl<T> Stamped<T> {
    /// Where and when it was measured, and how to do so again.
    pub(crate) fn note(&self) -> String {
        note(&self.stamp)
    }
}

/// Writes what was measured as NAME.json and the page about it as NAME.html.
pub(crate) fn write<T: Serialize>(
    folder: &Path,
    name: &str,
    results: &Stamped<T>,
    page: &Page,
) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let json = serde_json::to_vec_pretty(results)?;
    fs::write(folder.join(format!("{name}.json")), json)?;
    let Stamp { command, date, .. } = &results.stamp;
    let page = page.clone().made(command, date);
    fs::write(folder.join(format!("{name}.html")), page.html())
}

impl Report {
    /// The report in a folder; a new one if there is none.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join("balance.json");
        let json = match fs::read(&path) {
            Ok(json) => json,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        serde_json::from_slice(&json).map_err(|error| {
            io::Error::other(format!(
                "{}: {error}; without the file all begins anew",
                path.display()
            ))
        })
    }

    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(
            folder.join("balance.json"),
            serde_json::to_vec_pretty(self)?,
        )?;
        fs::write(folder.join("balance.md"), self.markdown())?;
        fs::write(folder.join("balance.html"), self.html())
    }

    pub(crate) fn markdown(&self) -> String {
        let mut page = format!("# {TITLE}\n");
        for section in self.sections() {
            let tables: Vec<_> = section.tables.iter().map(Table::markdown).collect();
            let tables = tables.join("\n");
            _ = write!(page, "\n## {}\n{}\n\n{tables}", section.title, section.note);
        }
        page
    }

    fn html(&self) -> String {
        let mut page = Page::new(TITLE);
        for section in self.sections() {
            page = page.heading(section.title).text(&section.note);
            page = section.tables.into_iter().fold(page, Page::table);
            page = section
                .charts
                .iter()
                .fold(page, |page, chart| page.svg(&chart.svg()));
        }
        page.html()
    }

    fn sections(&self) -> Vec<Section> {
        let mut sections = Vec::new();
        if let Some(Stamped { stamp, results }) = &self.balance {
            sections.push(Section {
                title: "CPU per call and latency",
                note: format!(
                    "A call is INVITE, 180, 200, ACK, BYE, 200 over UDP on loopback, with four callees; \
                     the program runs on one core, the load on another. Figures are medians over \
                     rounds in which all programs took turns, with the least and the greatest. {}",
                    note(stamp)
                ),
                tables: vec![summary::balance(results), summary::bars(results)],
                charts: Load::ALL.map(|load| chart::cpu(results, load)).to_vec(),
            });
        }
        if let Some(Stamped { stamp, results }) = &self.spread {
            sections.push(Section {
                title: "Spread over four equal servers",
                note: note(stamp),
                tables: vec![summary::spread(results)],
                charts: Vec::new(),
            });
        }
        if let Some(Stamped { stamp, results }) = &self.memory {
            sections.push(Section {
                title: "A million open calls",
                note: note(stamp),
                tables: vec![summary::memory(results)],
                charts: Vec::new(),
            });
        }
        sections
    }
}

fn note(stamp: &Stamp) -> String {
    format!(
        "{}, commit {}, {}, {} cores, {}, {}. `{}`",
        stamp.date,
        stamp.commit,
        stamp.cpu,
        stamp.cores,
        stamp.kernel,
        stamp.kamailio,
        stamp.command
    )
}
