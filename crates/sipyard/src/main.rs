//! The `sipyard` command: a SIP signalling cluster in one binary.
//!
//! `check` reads a configuration file and tells every mistake in it. See [`config`].

mod check;
mod config;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A SIP signalling cluster in one binary
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(check::Check),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Check(command) => command.run(),
    }
}

/// Wrong configuration or arguments; nothing was started or changed.
fn refused() -> ExitCode {
    ExitCode::from(2)
}
