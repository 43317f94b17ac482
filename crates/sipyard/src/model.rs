//! `sipyard model`: queueing models of SIP servers.

mod from_pcap;

use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Make a queueing model of SIP servers from a packet capture
#[derive(Args)]
#[command(after_help = "Example:
  sipyard model from-pcap edge.pcap --out edge.lqn")]
pub(crate) struct Model {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    FromPcap(from_pcap::FromPcap),
}

impl Model {
    pub(crate) fn run(&self) -> ExitCode {
        match &self.command {
            Command::FromPcap(command) => command.run(),
        }
    }
}
