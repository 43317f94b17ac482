//! What was measured, as pages: one to read in the repository and one to see.

use std::{fs, io, path::Path};

use report::{Page, Table};

use super::{
    Architecture, Case, Means, OTHERS_MAX, Results, Run, SENDERS, TEAMS, load::Mode, models, paper,
};
use crate::{
    figures::{self, Stamped},
    range::{Range, median},
};

const TITLE: &str = "Server architectures";

/// A page in parts.
struct Sheet(Vec<Part>);

enum Part {
    Heading(String),
    Text(String),
    Table(Table),
}

impl Sheet {
    fn heading(&mut self, text: impl Into<String>) {
        self.0.push(Part::Heading(text.into()));
    }

    fn text(&mut self, text: impl Into<String>) {
        self.0.push(Part::Text(text.into()));
    }

    fn table(&mut self, table: Table) {
        self.0.push(Part::Table(table));
    }

    fn page(self) -> Page {
        let page = Page::new(TITLE);
        self.0.into_iter().fold(page, |page, part| match part {
            Part::Heading(text) => page.heading(&text),
            Part::Text(text) => page.text(&text),
            Part::Table(table) => page.table(table),
        })
    }

    fn markdown(&self) -> String {
        let parts = self.0.iter().map(|part| match part {
            Part::Heading(text) => format!("## {text}\n"),
            Part::Text(text) => wrapped(text),
            Part::Table(table) => table.markdown(),
        });
        let parts: Vec<_> = parts.collect();
        format!("# {TITLE}\n{}", parts.join("\n"))
    }
}

/// The text in lines of 120 columns.
fn wrapped(text: &str) -> String {
    const COLUMNS: usize = 120;
    let mut lines = String::new();
    let mut length = 0;
    for word in text.split(' ') {
        if length > 0 && length + 1 + word.len() > COLUMNS {
            lines.push('\n');
            length = 0;
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += word.len();
    }
    lines + "\n"
}

/// Writes figures and pages. If all was measured, it solves the models, too, and if that is for the record it writes
/// them.
pub(crate) fn write(
    folder: &Path,
    results: &Stamped<Results>,
    is_for_record: bool,
) -> io::Result<()> {
    let sheet = sheet(results);
    let markdown = sheet.markdown();
    let page = sheet.page();
    figures::write(folder, "architectures", results, &page)?;
    fs::write(folder.join("architectures.md"), markdown)?;
    if is_for_record {
        models::write(&results.results.runs)?;
    }
    println!("\n{}\nwritten to {}", page.plain(), folder.display());
    Ok(())
}

/// Writes the pages and models of what was measured for the record.
pub(crate) fn write_again(folder: &Path) -> io::Result<()> {
    let json = fs::read(folder.join("architectures.json"))?;
    write(folder, &serde_json::from_slice(&json)?, true)
}

fn sheet(results: &Stamped<Results>) -> Sheet {
    let runs = &results.results.runs;
    let mut sheet = Sheet(Vec::new());
    sheet.text(about(results));
    sheet.heading("With the cores for itself");
    sheet.text(
        "The program has one core or both for itself, in turns of milliseconds with the load. Measured rates are for \
         a second of its turns; *a second of it* is what a second of CPU time carries, which is what one core \
         carries that nobody else wants. *Used* is the share of both cores that it used: less than all where threads \
         wait for each other, for a message, or for other programs. A turn may begin and end a little later on the \
         first core than it is timed on the other: measured rates may be some percent too high.",
    );
    for mode in Mode::ALL {
        sheet.text(format!("{}:", mode.title()));
        sheet.table(table(runs, mode, Means::Turns));
    }
    beside_paper(&mut sheet, runs);
    sheet.heading("With a tenth of the time, by a quota");
    sheet.text(
        "A quota of a tenth of one core, and of two tenths on both. A quota limits the sum of what threads use. So \
         one thread gets all of two tenths, and threads may wait for each other in time that they would not have had \
         anyway: these rates count what an architecture costs, not how far it scales. 16 calls are in progress; p99 \
         is from the request to its 2xx, and most of it are the pauses of the quota (9 of 10 ms).",
    );
    for mode in Mode::ALL {
        sheet.text(format!("{}:", mode.title()));
        sheet.table(table(runs, mode, Means::Quota));
    }
    if TEAMS
        .iter()
        .all(|&workers| of_senders(runs, workers, 1).next().is_some())
    {
        senders(&mut sheet, runs);
        modelled(&mut sheet, runs);
    }
    sheet
}

fn about(results: &Stamped<Results>) -> String {
    let Results { rounds, runs } = &results.results;
    let others = || runs.iter().map(|run| 100.0 * run.others);
    let disturbed = runs.iter().filter(|run| run.others > OTHERS_MAX).count();
    format!(
        "Section 6 of Singh and Schulzrinne, \"Failover, load sharing and server architecture in SIP telephony\": \
         one node (`node::Node`) is driven over UDP in five ways. `event-loop` is one thread. `processes` are \
         workers with a socket each, the product's own. In `two-stage` one thread reads and passes each message by \
         its Call-ID to a worker with a node of its own. In `shared` twice as many threads as cores read one socket \
         and share one node behind a lock. In `thread-per-transaction` one thread reads and starts a thread for each \
         transaction, and they share one node behind a lock; beyond 1,024 threads the reading one does the work. A \
         call is INVITE, 180, 200, ACK, BYE, 200; the registrar takes REGISTERs into memory. Both come in a closed \
         loop. Figures are medians of {rounds} rounds in which all took turns, with the least and the greatest. \
         Other programs took more than {:.0} % of the machine in {disturbed} of {} runs: {:.0} % at the median, \
         {:.0} % at most. Measured rates are of the other runs; where there is none, ~ marks a rate that is much too \
         low, above all in turns. CPU times are of all runs. {}",
        100.0 * OTHERS_MAX,
        runs.len(),
        median(others()),
        others().fold(0.0, f64::max),
        results.note()
    )
}

fn table(runs: &[Run], mode: Mode, means: Means) -> Table {
    let columns = [
        "architecture",
        "one core, us each",
        "a second of it",
        "measured, /s",
        "two cores, us each",
        "measured, /s",
        match means {
            Means::Quota => "p99 on one, ms",
            Means::Turns => "used of two",
        },
        "failed",
    ];
    let mut table = Table::new("", columns);
    for architecture in Architecture::ALL {
        let of = |cores| chosen(runs, mode, means, architecture, cores);
        let figure = |cores, figure: fn(&Run) -> f64| median(of(cores).map(figure));
        let cpu = |cores| figure(cores, |run| run.cpu_us);
        let failed = [1, 2].map(|cores| of(cores).map(|run| run.failed).sum::<u64>());
        let last = match means {
            Means::Quota => number(figure(1, |run| run.answer_ms_p99), 1),
            Means::Turns => format!("{:.0} %", 100.0 * figure(2, |run| run.busy)),
        };
        table.push([
            architecture.name().to_owned(),
            number(cpu(1), 1),
            number(1e6 / cpu(1), 0),
            rate_text(of(1)),
            number(cpu(2), 1),
            rate_text(of(2)),
            last,
            failed.into_iter().sum::<u64>().to_string(),
        ]);
    }
    table
}

/// Their Tables 1 and 2 beside ours, over the event loop.
fn beside_paper(sheet: &mut Sheet, runs: &[Run]) {
    sheet.heading("Beside the paper's Tables 1 and 2");
    sheet.text(
        "Calls per second over those of the event loop on the same machine. The paper's machines are a Pentium 4 of \
         3 GHz (1xP), four Pentiums of 450 MHz (4xP), and one and two UltraSparcs (1xS, 2xS); ours is one core (by \
         CPU time) or two (measured) of one processor. So 4xP is four processors and ours are two at most. Its \
         threads take one message at a time, ours up to 64, but for a thread of a transaction. Its processes share \
         the database by locks; our workers share only the ledger and the location service. Its stateless proxy has \
         a thread for each message, ours for each transaction. It did not measure a stateful process pool, nor \
         REGISTERs.",
    );
    for mode in [Mode::Stateless, Mode::Stateful] {
        sheet.text(format!("{}:", mode.title()));
        let columns = ["the paper's"].into_iter().chain(paper::MACHINES);
        let columns = columns.chain(["ours", "one core", "two cores"]);
        let mut table = Table::new("", columns);
        let [first, ..] = paper::table(mode) else {
            continue;
        };
        for row in paper::table(mode) {
            let theirs = row.per_s.iter().zip(&first.per_s);
            let theirs =
                theirs.map(|(&one, &base)| format!("{:.2}", f64::from(one) / f64::from(base)));
            let mut cells: Vec<_> = [row.name.to_owned()].into_iter().chain(theirs).collect();
            cells.push(row.ours.map_or("", Architecture::name).to_owned());
            cells.extend([1, 2].map(|cores| match row.ours {
                Some(ours) => number(over_event_loop(runs, mode, ours, cores), 2),
                None => String::new(),
            }));
            table.push(cells);
        }
        let theirs = |ours| paper::table(mode).iter().any(|row| row.ours == Some(ours));
        for ours in Architecture::ALL.into_iter().filter(|&ours| !theirs(ours)) {
            let mut cells = vec![String::new(); 5];
            cells.push(ours.name().to_owned());
            cells.extend([1, 2].map(|cores| number(over_event_loop(runs, mode, ours, cores), 2)));
            table.push(cells);
        }
        sheet.table(table);
    }
}

/// On one core by the CPU time of a call, which other programs hardly change.
fn over_event_loop(runs: &[Run], mode: Mode, architecture: Architecture, cores: usize) -> f64 {
    let of = |of| {
        let runs = chosen(runs, mode, Means::Turns, of, cores);
        match cores {
            1 => 1e6 / median(runs.map(|run| run.cpu_us)),
            _ => rate(runs),
        }
    };
    of(architecture) / of(Architecture::EventLoop)
}

fn senders(sheet: &mut Sheet, runs: &[Run]) {
    sheet.heading("One sender before many workers");
    sheet.text(
        "The stateful proxy as `processes` on both cores, in turns. The kernel chooses a worker's socket by the hash \
         of addresses and ports (SO_REUSEPORT). If all requests come from one port, one worker reads all of them; \
         the four servers' answers still come to several. The call's owner is another worker in (N-1) of N cases, \
         whoever sends, so most messages are handed over anyway. What one sender costs beyond that is that one \
         worker reads and parses all requests: with many cores it is the bottleneck, as the reader of `two-stage` is \
         in the model below. Two cores do not show that. *More* is the CPU time of a call beyond that of one worker \
         on one core, which hands nothing over. A classic BPF program on the sockets that chooses the worker by the \
         Call-ID could save so much at most.",
    );
    let columns = [
        "workers",
        "16 ports, /s",
        "us a call",
        "one port, /s",
        "us a call",
        "one over 16",
        "more, 16 ports, us",
        "more, one port, us",
    ];
    let alone = chosen(
        runs,
        Mode::Stateful,
        Means::Turns,
        Architecture::Processes,
        1,
    );
    let alone = median(alone.map(|run| run.cpu_us));
    let mut table = Table::new("", columns);
    for workers in TEAMS {
        let of = |senders| of_senders(runs, workers, senders);
        let cpu = |senders| median(of(senders).map(|run| run.cpu_us));
        table.push([
            workers.to_string(),
            rate_text(of(SENDERS)),
            number(cpu(SENDERS), 1),
            rate_text(of(1)),
            number(cpu(1), 1),
            number(rate(of(1)) / rate(of(SENDERS)), 2),
            number(cpu(SENDERS) - alone, 1),
            number(cpu(1) - alone, 1),
        ]);
    }
    sheet.table(table);
}

fn modelled(sheet: &mut Sheet, runs: &[Run]) {
    let cores = models::CORES.map(|cores| cores.to_string()).join(",");
    sheet.heading("What a model says of more cores");
    sheet.text(format!(
        "A layered queueing model of each, for the stateful proxy: `{}/*.lqn`. Its demands are the CPU times \
         measured above, of one core for the event loop and of two for the others. A lock is a task of one thread on \
         the machine, and takes of each call what the event loop spends outside of the kernel. 64 calls are in \
         progress. `sipyard model what-if FILE --vary machine.multiplicity={cores}` prints the same. The model knows \
         neither a cache that goes from core to core, nor that a wake-up takes time, nor that the hash of addresses \
         gives one worker more: so it is a bound. Calls a second by cores, and what is the bottleneck of 64:",
        models::FOLDER,
    ));
    let columns = ["architecture".to_owned(), "two, measured".to_owned()];
    let columns = columns
        .into_iter()
        .chain(models::CORES.map(|cores| cores.to_string()));
    let mut table = Table::new("", columns.chain(["bottleneck".to_owned()]));
    for architecture in Architecture::ALL {
        let text = models::text(architecture, runs);
        let solve =
            |cores: u32| models::solve(&text, &[("machine.multiplicity", f64::from(cores))]);
        let answers = models::CORES.map(solve);
        let measured = chosen(runs, models::MODE, Means::Turns, architecture, 2);
        let mut row = vec![architecture.name().to_owned(), rate_text(measured)];
        row.extend(answers.iter().map(|answer| match answer {
            Some(answer) => format!("{:.0}", answer.per_s),
            None => String::new(),
        }));
        let last = answers.into_iter().next_back().flatten();
        row.push(last.map_or_else(String::new, |answer| answer.bottleneck));
        table.push(row);
    }
    sheet.table(table);
}

/// The runs about how many ports send. Those of the tables above may be among them.
fn of_senders(runs: &[Run], workers: usize, senders: usize) -> impl Iterator<Item = &Run> {
    let case = Case::of_team(workers, senders);
    runs.iter().filter(move |run| run.case == case)
}

/// The runs of a cell.
fn chosen(
    runs: &[Run],
    mode: Mode,
    means: Means,
    architecture: Architecture,
    cores: usize,
) -> impl Iterator<Item = &Run> {
    let case = Case::new(architecture, mode, means, cores);
    runs.iter().filter(move |run| run.case == case)
}

/// The rates of the runs that other programs left alone; of all if there is none.
fn rates<'a>(runs: impl Iterator<Item = &'a Run>) -> (Vec<f64>, bool) {
    let runs: Vec<_> = runs.collect();
    let fair = runs.iter().filter(|run| run.others <= OTHERS_MAX);
    let fair: Vec<_> = fair.map(|run| run.per_s).collect();
    match fair.is_empty() {
        true => (runs.iter().map(|run| run.per_s).collect(), false),
        false => (fair, true),
    }
}

fn rate<'a>(runs: impl Iterator<Item = &'a Run>) -> f64 {
    median(rates(runs).0)
}

/// The rate with the least and the greatest, marked if other programs disturbed all runs.
fn rate_text<'a>(runs: impl Iterator<Item = &'a Run>) -> String {
    let (rates, is_fair) = rates(runs);
    let mark = if is_fair { "" } else { "~" };
    Range::over(rates).map_or_else(String::new, |it| {
        format!("{mark}{:.0} ({:.0}-{:.0})", it.median, it.min, it.max)
    })
}

/// A figure with so many decimals; nothing if nothing was carried.
fn number(value: f64, decimals: usize) -> String {
    match value.is_finite() {
        true => format!("{value:.decimals$}"),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        let text = "word ".repeat(60);
        let lines = wrapped(text.trim());
        assert!(lines.lines().all(|line| line.len() <= 120));
        assert_eq!(lines.split_whitespace().count(), 60);
        assert_eq!(wrapped("a b"), "a b\n");
    }
}
