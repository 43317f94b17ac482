//! The arguments that the commands on models share: the file, the unit of time, and the outputs.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use lqn::{Model, Results, SimulationSettings};
use settings::refuse;

use crate::{output, progress::Progress};

/// The file of a model.
#[derive(Args)]
pub(super) struct Source {
    /// The model's file, .lqn or .lqnx
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The unit of the times in the file; tables and pages show it
    #[arg(long, value_enum, default_value_t = Unit::Ms)]
    pub(super) unit: Unit,
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Unit {
    /// Milliseconds
    Ms,
    /// Seconds
    S,
}

/// The parameters of a simulation.
#[derive(Args)]
pub(super) struct Simulation {
    /// The seed of the random numbers; the same seed gives the same results
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
    /// Number of events to simulate; four times as many halve the intervals
    #[arg(long, default_value_t = 2_000_000, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1_000..=10_000_000_000))]
    events: u64,
}

impl Source {
    /// Reads the model. On a mistake it reports the problems and returns the exit code.
    pub(super) fn model(&self) -> Result<Model, ExitCode> {
        read(&self.file).map_err(refuse)
    }

    /// The file's name, for titles.
    pub(super) fn name(&self) -> String {
        self.file.display().to_string()
    }
}

impl Unit {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Ms => "ms",
            Self::S => "s",
        }
    }

    /// How many of this unit make a second.
    pub(super) fn per_second(self) -> f64 {
        match self {
            Self::Ms => 1000.0,
            Self::S => 1.0,
        }
    }
}

impl Simulation {
    /// Simulates the model, and shows the progress on a terminal.
    pub(super) fn run(&self, model: &Model) -> Results {
        let settings = SimulationSettings {
            events: self.events,
        };
        let mut rng = fastrand::Rng::with_seed(self.seed);
        let progress = Progress::new();
        lqn::simulate(model, &settings, &mut rng, |done| {
            progress.show_share("simulating", done);
        })
    }
}

/// Prints the result. If the reader has closed its end, nothing more is printed.
pub(super) fn print(text: &str) -> ExitCode {
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

/// Writes a file, and reports this on standard error.
pub(super) fn write(file: &Path, text: &str) -> Result<(), ExitCode> {
    output::write(file, text).map_err(|problem| refuse([problem]))?;
    let _ = writeln!(io::stderr(), "wrote {}", file.display());
    Ok(())
}

/// The format for a file of this name.
pub(super) fn as_model_file(file: &Path) -> Result<fn(&Model) -> String, String> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("lqn") => Ok(Model::to_text),
        Some("lqnx") => Ok(Model::to_xml),
        _ => Err(format!(
            "{}: the file's name must end in .lqn (text) or .lqnx (XML)",
            file.display()
        )),
    }
}

/// Reads a model from its text. Text that begins with an angle bracket is XML. Reports every
/// problem with the file's name and line.
pub(crate) fn read(file: &Path) -> Result<Model, Vec<String>> {
    let name = file.display();
    let text = fs::read_to_string(file).map_err(|error| vec![format!("{name}: {error}")])?;
    let is_xml = text
        .trim_start_matches('\u{feff}')
        .trim_start()
        .starts_with('<');
    let model = if is_xml {
        Model::from_xml(&text)
    } else {
        Model::from_text(&text)
    };
    model.map_err(|problems| {
        let place = |line: Option<u32>| line.map_or(String::new(), |line| format!(":{line}"));
        problems
            .iter()
            .map(|problem| format!("{name}{}: {}", place(problem.line), problem.message))
            .collect()
    })
}
