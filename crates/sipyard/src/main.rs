//! The `sipyard` command: a SIP signalling cluster in one binary.
//!
//! This crate connects all others. [`config`] turns a file into a node's configuration, and
//! [`serve`] runs the node. [`admin`] answers questions about the node, and [`ctl`] asks them.
//! [`store`] and [`user`] change the records of the location service. [`workbench`] provides the
//! commands that work offline. Calls never pass through this crate: the threads of `net` carry
//! them.

mod admin;
mod answer;
mod calls;
mod certificates;
mod check;
mod config;
mod connections;
mod ctl;
mod dashboard;
mod demo;
mod explain;
mod hint;
mod import;
mod init;
mod manual;
mod members;
mod resolver;
mod serve;
mod shadow;
mod store;
mod token;
mod user;
mod view;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

/// A SIP signalling cluster in one binary
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
#[command(after_help = "Examples:
  sipyard init                        write a first configuration
  sipyard import kamailio kamailio.cfg dispatcher.list  or one from Kamailio's
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
    Import(import::Import),
    Init(init::Init),
    Load(workbench::Load),
    #[command(hide = true)]
    Manual(manual::Manual),
    Model(workbench::Model),
    Plan(workbench::Plan),
    Shadow(shadow::Shadow),
    Sim(workbench::Sim),
    Store(store::Store),
    Token(token::MakeToken),
    User(user::User),
}

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| hint::hinted(error, &Cli::command()).exit());
    match cli.command {
        Command::Serve(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Ctl(command) => command.run(),
        Command::Demo(command) => command.run(),
        Command::Import(command) => command.run(),
        Command::Init(command) => command.run(),
        Command::Load(command) => command.run(),
        Command::Manual(command) => command.run(),
        Command::Model(command) => command.run(),
        Command::Plan(command) => command.run(),
        Command::Shadow(command) => command.run(),
        Command::Sim(command) => command.run(),
        Command::Store(command) => command.run(),
        Command::Token(command) => command.run(),
        Command::User(command) => command.run(),
    }
}
