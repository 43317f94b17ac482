//! The commands that need no configuration and run no node of their own: [`Load`] makes calls,
//! registers phones and emulates servers, [`Model`] solves and simulates queueing models, [`Plan`]
//! sizes a farm, [`Sim`] runs experiments on a virtual clock.
//!
//! Each is the arguments of a command, parsed by clap, with a `run` that prints to standard output
//! and returns the exit code. The binary only mounts them.

mod load;
mod model;
mod plan;
mod progress;
mod sim;

pub use self::{load::Load, model::Model, plan::Plan, sim::Sim};
