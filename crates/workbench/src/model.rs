//! `sipyard model`: makes queueing models from captures or a running node, and solves, simulates,
//! compares and varies them.

mod arguments;
mod compare;
mod demand;
mod diagram;
mod from_live;
mod from_pcap;
mod json;
mod page;
mod simulate;
mod solve;
mod tables;
mod what_if;

use std::process::ExitCode;

use clap::{Args, Subcommand};

pub(crate) use arguments::read;

/// Work with layered queueing models: find what limits a system, and what a change would do
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard model from-pcap edge.pcap --out edge.lqn
  sipyard model from-live --out edge.lqn
  sipyard model solve cluster.lqn
  sipyard model simulate cluster.lqn --json
  sipyard model compare cluster.lqn --measured X=290
  sipyard model what-if cluster.lqn --vary 'server.server1.1=1..2:0.1'

A model is a file in a format of LQNS: .lqn text or .lqnx XML.

Exit code: 0 if the command succeeded, 2 if the file or an argument has a mistake.")]
pub struct Model {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    FromPcap(from_pcap::FromPcap),
    FromLive(from_live::FromLive),
    Solve(solve::Solve),
    Simulate(simulate::Simulate),
    Compare(compare::Compare),
    WhatIf(what_if::WhatIf),
}

impl Model {
    /// Makes, solves or varies a model, prints the result, and returns the exit code.
    #[must_use]
    pub fn run(&self) -> ExitCode {
        match &self.command {
            Command::FromPcap(command) => command.run(),
            Command::FromLive(command) => command.run(),
            Command::Solve(command) => command.run(),
            Command::Simulate(command) => command.run(),
            Command::Compare(command) => command.run(),
            Command::WhatIf(command) => command.run(),
        }
    }
}
