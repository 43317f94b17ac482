//! The `sipyard` command: a SIP signalling cluster in one binary.
//!
//! This crate connects all others. [`config`] turns a file into a node's configuration, and
//! [`serve`] runs the node. [`admin`] answers questions about the node, and [`ctl`] asks them.
//! [`store`] and [`user`] change the records of the location service. [`workbench`] provides the
//! commands that work offline. Calls never pass through this crate: the threads of `net` carry
//! them.

mod admin;
mod calls;
mod check;
mod config;
mod connections;
mod ctl;
mod dashboard;
mod demo;
mod explain;
mod members;
mod resolver;
mod serve;
mod store;
mod token;
mod user;
mod view;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A SIP signalling cluster in one binary
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
#[command(after_help = "Examples:
  sipyard check edge.toml             report every mistake in a configuration
  sipyard serve --config edge.toml    run a node
  sipyard ctl status                  show what the node does
  sipyard load call --to ADDRESS      make calls to a node and measure them
  sipyard model from-pcap edge.pcap   make a queueing model from captured traffic
  sipyard user add -c FILE USER       add a user who may register")]
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
    Token(token::MakeToken),
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
        Command::Token(command) => command.run(),
        Command::User(command) => command.run(),
    }
}
