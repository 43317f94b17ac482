//! `sipyard model simulate`: simulates a model on virtual time.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;

use super::{
    arguments::{Simulation, Source, print, write},
    json, page, tables,
};
use crate::{finished, output};

/// Simulate a model, with 95 % confidence intervals
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard model simulate cluster.lqn
  sipyard model simulate cluster.lqn --json --seed 7
  sipyard model simulate cluster.lqn --events 20000000

The JSON has the form of `solve`. Each task, processor and entry also has \"ci95\", which contains
the half-widths of the 95 % intervals of its figures, under the same names.")]
pub(super) struct Simulate {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    simulation: Simulation,
    /// Print JSON, in the unit of the file
    #[arg(long)]
    json: bool,
    /// Also write a page with the diagram, tables and plots to this file
    #[arg(long, value_name = "FILE", value_parser = output::file)]
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
            write(file, &finished::html(&page))?;
        }
        Ok(print(&if self.json {
            json::json(&model, &results)
        } else {
            tables::text(&model, &results, self.source.unit)
        }))
    }
}
