//! `sipyard check`: reports every mistake in configuration files.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde::Serialize;
use settings::{Problem, refuse};

use crate::config;

/// Check configuration files: report every mistake, with line and column
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard check /etc/sipyard/sipyard.toml
  sipyard check a.toml b.toml && echo both are good
  sipyard check --json edge.toml | jq '.[].problems'

It warns of what is legal and seldom wise.
Exit code: 0 if all files are good, 1 if --strict is given and there is a warning, 2 if one has a mistake.")]
pub(crate) struct Check {
    /// The configuration files to check
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Report on standard output as JSON, good files and mistakes alike
    #[arg(long)]
    json: bool,
    /// Take warnings for mistakes
    #[arg(long)]
    strict: bool,
}

/// What is told of a file.
#[derive(Serialize)]
struct Checked<'a> {
    file: &'a Path,
    is_good: bool,
    /// What a good file says.
    summary: Option<String>,
    /// What is legal and seldom wise.
    warnings: Vec<String>,
    problems: Vec<Mistake>,
}

#[derive(Serialize)]
struct Mistake {
    file: PathBuf,
    line: Option<usize>,
    column: Option<usize>,
    message: String,
}

impl From<&Problem> for Mistake {
    fn from(problem: &Problem) -> Self {
        let (file, position) = problem.place();
        Self {
            file: file.to_owned(),
            line: position.map(|(line, _)| line),
            column: position.map(|(_, column)| column),
            message: problem.message().to_owned(),
        }
    }
}

impl Check {
    /// Checks each file. It reports good files on standard output and problems on standard error.
    pub(crate) fn run(&self) -> ExitCode {
        if self.json {
            return self.tell_json();
        }
        let mut outcome = ExitCode::SUCCESS;
        for file in &self.files {
            match config::load(file) {
                // A reader that has gone away wants no more lines.
                Ok(configuration) => {
                    let line = format!("{}: ok ({})", file.display(), configuration.summary());
                    let _ = writeln!(io::stdout(), "{line}");
                    let warnings = config::warnings(file, &configuration);
                    if self.strict && !warnings.is_empty() && outcome == ExitCode::SUCCESS {
                        outcome = ExitCode::FAILURE;
                    }
                    for warning in warnings {
                        let _ = writeln!(io::stderr(), "{warning}");
                    }
                }
                Err(problems) => outcome = refuse(problems),
            }
        }
        outcome
    }

    fn tell_json(&self) -> ExitCode {
        let checked = self.files.iter().map(|file| match config::load(file) {
            Ok(configuration) => Checked {
                file,
                is_good: true,
                summary: Some(configuration.summary()),
                warnings: config::warnings(file, &configuration)
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
                problems: Vec::new(),
            },
            Err(problems) => Checked {
                file,
                is_good: false,
                summary: None,
                warnings: Vec::new(),
                problems: problems.iter().map(Mistake::from).collect(),
            },
        });
        let checked: Vec<Checked<'_>> = checked.collect();
        let text = serde_json::to_string_pretty(&checked).unwrap_or_default();
        let _ = writeln!(io::stdout(), "{text}");
        if !checked.iter().all(|checked| checked.is_good) {
            ExitCode::from(2)
        } else if self.strict && checked.iter().any(|checked| !checked.warnings.is_empty()) {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }
}
