//! `sipyard model simulate`: a model on virtual time.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;

use super::{
    arguments::{Simulation, Source, print, write},
    json, page, tables,
};

/// Simulate a model, with 95 % confidence intervals
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard model simulate cluster.lqn
  sipyard model simulate cluster.lqn --json --seed 7
  sipyard model simulate cluster.lqn --events 20000000

The JSON is that of `solve`; beside the figures of each task, processor and entry, \"ci95\" holds the
half-widths of their 95 % intervals under the same names.")]
pub(super) struct Simulate {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    simulation: Simulation,
    /// Print JSON, in the unit of the file
    #[arg(long)]
    json: bool,
    /// Write a page with the diagram, tables and plots to this file too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Simulate {
    pub(super) fn run(&self) -> ExitCode {
        self.answer().unwrap_or_else(|refusal| refusal)
    }

    fn answer(&self) -> Result<ExitCode, ExitCode> {
        let model = self.source.model()?;
        let results = self.simulation.run(&model);
        if let Some(file) = &self.html {
            let page = page::page(&self.source.name(), &model, &results, self.source.unit);
            write(file, &page.html())?;
        }
        Ok(print(&if self.json {
            json::json(&model, &results)
        } else {
            tables::text(&model, &results, self.source.unit)
        }))
    }
}
