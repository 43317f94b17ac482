//! One node, driven over UDP in five ways: the software architectures of Singh and Schulzrinne, "Failover, load sharing
//! and server architecture in SIP telephony", section 6.
//!
//! Only the driving differs: which thread reads a message, which one works on it, and what they share. It runs until it
//! is killed.
#![allow(clippy::disallowed_methods, reason = "it starts threads")]

mod config;
mod event_loop;
mod locations;
mod processes;
mod shared;
mod station;
mod transactions;
mod two_stage;

use std::{convert::Infallible, io, net::SocketAddr, process::ExitCode};

use clap::{Parser, ValueEnum};

use self::{config::Mode, locations::Locations, station::Ground};

/// Drives one node over UDP in one of five ways, until it is killed.
#[derive(Debug, Parser)]
struct Arguments {
    architecture: Architecture,
    /// What the node does.
    #[arg(long)]
    mode: Mode,
    /// Where the node listens.
    #[arg(long)]
    listen: SocketAddr,
    /// Where calls go.
    #[arg(long, value_delimiter = ',')]
    servers: Vec<SocketAddr>,
    /// Workers of `processes` and `two-stage`, threads of `shared`.
    #[arg(long, default_value_t = 1)]
    workers: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Architecture {
    /// One thread does all.
    EventLoop,
    /// Each worker has a socket and a part of the calls.
    Processes,
    /// One thread reads, and passes each message to the worker of its call.
    TwoStage,
    /// All threads read one socket and share the node, behind a lock.
    Shared,
    /// One thread reads. Each transaction has a thread of its own, and all share the node.
    ThreadPerTransaction,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("architectures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<Infallible> {
    let config = config::config(arguments.mode, arguments.listen, &arguments.servers);
    let locations = Locations::default();
    if let Architecture::Processes = arguments.architecture {
        return processes::run(config, arguments.workers, locations);
    }
    let ground = Ground::new(config, locations)?;
    match arguments.architecture {
        Architecture::EventLoop | Architecture::Processes => event_loop::run(&ground),
        Architecture::TwoStage => two_stage::run(&ground, arguments.workers),
        Architecture::Shared => shared::run(&ground, arguments.workers),
        Architecture::ThreadPerTransaction => transactions::run(&ground),
    }
}
