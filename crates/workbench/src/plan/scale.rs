//! `sipyard plan scale`: calculates what very many users in several sites need, and what breaks first when they grow.

mod answer;
mod design;
mod limits;
mod load;
mod loss;
mod read;
mod show;
mod size;
mod words;

use std::path::PathBuf;

use clap::Args;

use super::forms::Forms;
use answer::Answer;

/// Find the nodes, stores and links for users in several sites, any one of which may be lost
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard plan scale experiments/scale/hundred-million.toml
  sipyard plan scale experiments/scale/hundred-million.toml --times 3 --json
  sipyard plan scale experiments/scale/hundred-million.toml --html scale.html

The file has the demand, how phones are connected, the sites and their shares of the users, the
machines, the aims and what things cost. Each cost says where it was measured. The example's comments
explain all keys; docs/scale.md explains what is computed from them.

Exit code: 0 if there is an answer, 2 if the file has a mistake.")]
pub(super) struct Scale {
    /// The file with users, sites, machines and costs
    #[arg(value_name = "DESIGN.toml")]
    file: PathBuf,
    /// The growth of the demand at which to look for what breaks
    #[arg(long, value_name = "FACTOR", default_value = "10", value_parser = growth)]
    times: f64,
    #[command(flatten)]
    forms: Forms,
}

impl Scale {
    pub(super) fn answer(&self) -> Result<String, Vec<String>> {
        let design = read::load(&self.file).map_err(|problems| {
            let lines = problems.iter().map(ToString::to_string);
            lines.collect::<Vec<_>>()
        })?;
        let answer = Answer::new(design, self.times);
        self.forms.give(&answer.page(), &answer)
    }
}

fn growth(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok();
    factor
        .filter(|factor: &f64| (1.0..=1_000.0).contains(factor))
        .ok_or_else(|| format!("`{text}` is no growth: write a number from 1 to 1000"))
}

#[cfg(test)]
mod tests;
