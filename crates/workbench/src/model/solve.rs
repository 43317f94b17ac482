//! `sipyard model solve`: calculates the steady state of a model.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;

use super::{
    arguments::{Source, print, write},
    json, page, tables,
};
use crate::{finished, output};

/// Calculate the throughputs, utilisations and times of a model
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard model solve cluster.lqn
  sipyard model solve cluster.lqnx --json
  sipyard model solve cluster.lqn --html cluster.html

The JSON has {tasks, processors, entries, converged, iterations}. Times and rates are in the unit of
the file. \"utilization\" counts threads or servers, \"service_time\" includes all phases, and
\"waiting\" is the wait for a thread.")]
pub(super) struct Solve {
    #[command(flatten)]
    source: Source,
    /// Print JSON, in the unit of the file
    #[arg(long)]
    json: bool,
    /// Also write a page with the diagram, tables and plots to this file
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    html: Option<PathBuf>,
}

impl Solve {
    pub(super) fn run(&self) -> ExitCode {
        self.answer().unwrap_or_else(|refusal| refusal)
    }

    fn answer(&self) -> Result<ExitCode, ExitCode> {
        let model = self.source.model()?;
        let results = lqn::solve(&model);
        if let Some(file) = &self.html {
            let page = page::page(&self.source.name(), &model, &results, self.source.unit);
            write(file, &finished::html(&page))?;
        }
        Ok(print(&if self.json {
            json::json(&model, &results)
        } else {
            tables::text(&model, &results, self.source.unit)
        }))
    }
}
