//! The commands that need no configuration file and run no node of their own. [`Load`] makes calls,
//! registers phones and emulates servers. [`Model`] solves and simulates queueing models. [`Plan`]
//! calculates the size of a farm. [`Sim`] runs experiments on a virtual clock.
//!
//! Each type holds the arguments of a command, which clap parses. Its `run` prints to standard
//! output and returns the exit code. The binary adds these commands to its own.

mod finished;
mod load;
mod model;
mod output;
mod parallel;
mod plan;
mod progress;
mod sim;

pub use self::{load::Load, model::Model, plan::Plan, sim::Sim};
