//! `sipyard plan`: calculates how many nodes a demand and an availability target need, where state is held
//! best, and what users in several sites need.

mod arguments;
mod availability;
mod capacity;
mod crashes;
mod forms;
mod keep;
mod queue;
mod scale;
mod serve;
mod solved;
mod stages;
mod state;
#[cfg(test)]
mod trials;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use settings::refuse;

/// Plan a farm: the nodes for a demand, the spare nodes for availability, where state is held
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard plan capacity --busy-hour-calls 1000000 --stage edge:call-ms=0.1,cores=4 --stage app:call-ms=2.6,cores=4
  sipyard plan availability --first-stage 99.9% --second-stage 99.5% --clusters 3
  sipyard plan state experiments/003/two.toml
  sipyard plan scale experiments/scale/hundred-million.toml")]
pub struct Plan {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Capacity(serve::Capacity),
    Availability(keep::Availability),
    State(state::State),
    Scale(scale::Scale),
}

impl Plan {
    /// Prints the plan and returns the exit code.
    #[must_use]
    pub fn run(&self) -> ExitCode {
        let answered = match &self.command {
            Command::Capacity(command) => command.answer(),
            Command::Availability(command) => command.answer(),
            Command::State(command) => command.answer(),
            Command::Scale(command) => command.answer(),
        };
        match answered {
            Ok(text) => {
                // A reader that has gone away wants no more lines.
                let _ = write!(io::stdout(), "{text}");
                ExitCode::SUCCESS
            }
            Err(problems) => refuse(problems),
        }
    }
}
