//! The `sipyard` command: a SIP signalling cluster in one binary.
//!
//! All crates meet here. [`config`] turns a file into what a node takes, [`serve`] runs it, [`admin`]
//! answers questions about it, [`ctl`] asks them. [`store`] and [`user`] change what the location
//! service keeps. The commands that work offline are mounted from [`workbench`]. No call passes
//! through here: the workers' threads belong to `net`.

mod admin;
mod check;
mod config;
mod ctl;
mod demo;
mod explain;
mod members;
mod resolver;
mod serve;
mod store;
mod user;
mod view;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A SIP signalling cluster in one binary
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
#[command(after_help = "Examples:
  sipyard check edge.toml             find every mistake of a configuration
  sipyard serve --config edge.toml    run a node
  sipyard ctl status                  see what it does
  sipyard load call --to ADDRESS      make calls to it and measure
  sipyard model from-pcap edge.pcap   make a queueing model of what was captured
  sipyard user add -c FILE USER       let a user register")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    Check(check::Check),
    Ctl(ctl::Ctl),
    Demo(demo::Demo),
    Load(workbench::Load),
    Model(workbench::Model),
    Plan(workbench::Plan),
    Sim(workbench::Sim),
    Store(store::Store),
    User(user::User),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Ctl(command) => command.run(),
        Command::Demo(command) => command.run(),
        Command::Load(command) => command.run(),
        Command::Model(command) => command.run(),
        Command::Plan(command) => command.run(),
        Command::Sim(command) => command.run(),
        Command::Store(command) => command.run(),
        Command::User(command) => command.run(),
    }
}
