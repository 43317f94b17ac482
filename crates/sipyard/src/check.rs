//! `sipyard check`: reports every mistake in configuration files.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use settings::refuse;

use crate::config;

/// Check configuration files: report every mistake, with line and column
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard check /etc/sipyard/sipyard.toml
  sipyard check a.toml b.toml && echo both are good

It warns of what is legal and seldom wise.
Exit code: 0 if all files are good, 1 if --strict is given and there is a warning, 2 if one has a mistake.")]
pub(crate) struct Check {
    /// The configuration files to check
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Take warnings for mistakes
    #[arg(long)]
    strict: bool,
}

impl Check {
    /// Checks each file. It reports good files on standard output and problems on standard error.
    pub(crate) fn run(&self) -> ExitCode {
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
}
