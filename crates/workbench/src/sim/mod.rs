//! `sipyard sim`: runs experiments on a virtual clock and network.

mod digests;
mod explore;
mod metrics;
mod read;
mod results;
mod runs;
mod scenario;
mod show;
mod state;

use std::{
    fs,
    io::{self, Write},
    num::NonZero,
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Subcommand};
use report::Page;
use serde_json::json;
use settings::{Problem, refuse};
use sim::{Cluster, Trace};

use self::{scenario::Scenario, show::Shown};
use crate::{finished, output, parallel::cores};

/// The longest time of a trace.
const TRACED_MAX: Duration = Duration::from_secs(3600);

/// Run experiments on a virtual clock and network: real nodes, callers and emulated servers
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard sim experiments/first.toml                    one small experiment, results as text
  sipyard sim experiments/000/*.toml --quick            see that they work
  sipyard sim experiments/000/*.toml --out docs/results --name paper-000
  sipyard sim experiments/first.toml --trace 40         the first messages, one a line
  sipyard sim explore                                   random worlds and faults, for a minute

With --out, the command writes NAME.json, NAME.csv, NAME.md, and NAME.html, which has plots.
docs/simulation.md explains the files. Runs with the same seed are identical bit for bit.

A bar is open if its bound lies within the interval of what was measured: more seeds or calls say
more. It counts by its mean.
Exit code: 0 if all bars hold, 1 if a bar of a scenario does not hold, 2 if a file has a mistake.")]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Sim {
    #[command(subcommand)]
    other: Option<Other>,
    /// The scenarios to run
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the results into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The beginning of the results' file names
    #[arg(long, default_value = "results", requires = "out")]
    name: String,
    /// The heading of the results
    #[arg(long, default_value = "Simulated", requires = "out")]
    title: String,
    /// Number of seeds for each experiment, in place of the file's number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: Option<u32>,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run two seeds, with a tenth of the measured time and a quarter of the warm-up
    #[arg(long)]
    quick: bool,
    /// Number of cores to use [default: all]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// Print the first N events of the first experiment
    #[arg(long, value_name = "N", conflicts_with_all = ["out", "seeds", "quick", "threads"])]
    trace: Option<usize>,
}

/// The subcommands, which take no scenario.
#[derive(Subcommand)]
enum Other {
    Digests(digests::Digests),
    Explore(explore::Explore),
    State(state::State),
}

impl Sim {
    /// Reads all files, runs them, shows and writes the results, and returns the exit code.
    #[must_use]
    pub fn run(&self) -> ExitCode {
        match &self.other {
            Some(Other::Digests(digests)) => return digests.run(),
            Some(Other::Explore(explore)) => return explore.run(),
            Some(Other::State(state)) => return state.run(),
            None => {}
        }
        let scenarios = match self.load() {
            Ok(scenarios) => scenarios,
            Err(problems) => return refuse(problems),
        };
        let done = match self.trace {
            Some(lines) => self.print_trace(&scenarios[0], lines).map(|()| true),
            None => self.run_all(scenarios),
        };
        match done {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(message) => refuse([format!("sipyard sim: {message}")]),
        }
    }

    /// The scenarios of all files, or every problem of any file.
    fn load(&self) -> Result<Vec<Scenario>, Vec<Problem>> {
        let (mut scenarios, mut problems) = (Vec::new(), Vec::new());
        for file in &self.files {
            match read::load(file) {
                Ok(scenario) => scenarios.push(scenario),
                Err(found) => problems.extend(found),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        for scenario in &mut scenarios {
            if self.quick {
                scenario.hurry();
            }
            if let Some(seeds) = self.seeds {
                scenario.seeds = seeds as usize;
            }
        }
        Ok(scenarios)
    }

    /// Whether every bar holds.
    fn run_all(&self, scenarios: Vec<Scenario>) -> Result<bool, String> {
        if let Some(folder) = &self.out {
            let made = fs::create_dir_all(folder);
            made.map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let threads = self.threads.map_or_else(cores, NonZero::get);
        let mut all = Vec::new();
        for scenario in scenarios {
            let results = runs::run(&scenario, self.seed, threads)?;
            let shown = Shown { scenario, results };
            // A reader that has gone away wants no more lines.
            let _ = writeln!(io::stdout(), "{}", shown.text());
            all.push(shown);
        }
        self.write(&all)?;
        let bars = all.iter().flat_map(|shown| {
            let bars = shown.scenario.bars.iter();
            bars.map(|bar| shown.results.judge(bar))
        });
        Ok(bars.into_iter().all(|bar| bar.is_some_and(|bar| bar.holds)))
    }

    fn write(&self, all: &[Shown]) -> Result<(), String> {
        let Some(folder) = &self.out else {
            return Ok(());
        };
        let made = self.made_by();
        let mut page = Page::new(&*self.title);
        let mut markdown = format!(
            "# {}\n\nMade by `{made}`; `{name}.html`, which it makes too, has the plots.\n",
            self.title,
            name = self.name
        );
        let mut csv = String::new();
        for shown in all {
            page = shown.page(page);
            markdown += &format!("\n{}", shown.markdown());
            csv += &format!("{}\r\n", shown.csv());
        }
        let json = json!({
            "made_by": made,
            "scenarios": all.iter().map(Shown::json).collect::<Vec<_>>(),
        });
        let files = [
            ("html", finished::html(&page)),
            ("md", markdown),
            ("csv", csv),
            ("json", format!("{json:#}\n")),
        ];
        for (ending, text) in files {
            let path = folder.join(format!("{}.{ending}", self.name));
            output::write(&path, &text)?;
        }
        Ok(())
    }

    /// The command that repeats the run.
    fn made_by(&self) -> String {
        let mut words = vec!["sipyard sim".to_owned()];
        words.extend(self.files.iter().map(|file| file.display().to_string()));
        if self.quick {
            words.push("--quick".to_owned());
        }
        words.extend(self.seeds.map(|seeds| format!("--seeds {seeds}")));
        words.push(format!("--seed {}", self.seed));
        words.join(" ")
    }

    fn print_trace(&self, scenario: &Scenario, lines: usize) -> Result<(), String> {
        let experiment = scenario.experiment(&scenario.places()[0]);
        let mut cluster = Cluster::new(&experiment.setup, self.seed).map_err(|e| e.to_string())?;
        let mut trace = Trace::new(cluster.world.names(), lines);
        while !trace.is_full() && cluster.world.now() < TRACED_MAX {
            let next = cluster.world.now() + Duration::from_millis(10);
            cluster.world.run_until(next, &mut trace);
        }
        let _ = write!(io::stdout(), "{}", trace.text());
        Ok(())
    }
}
