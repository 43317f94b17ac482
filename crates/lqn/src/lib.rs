//! Layered queueing networks: build, read, write, solve and simulate them.
//!
//! The crate does not know SIP, does no I/O, reads no clock and has no generator of its own. Times
//! are in the unit of the model's author.
//!
//! Read [`Model`] and [`Builder`] first.

mod builder;
mod check;
mod graph;
mod model;
mod opened;
mod parameter;
mod refused;
mod replicas;
mod results;
mod simulate;
mod solve;
mod text;
mod xml;

pub use builder::{Builder, EntryDraft, PHASES_MAX, Problem, ProcessorDraft, TaskDraft};
pub use model::{
    Call, CallKind, CallOrder, Entry, EntryId, Forward, Locking, Model, Multiplicity, Phase,
    Processor, ProcessorId, Role, Scheduling, Task, TaskId,
};
pub use parameter::Parameter;
pub use results::{
    Bottleneck, EntryResult, Figure, Method, ProcessorResult, Results, TaskResult, depths,
};
pub use simulate::{SimulationSettings, simulate};
pub use solve::solve;

/// The most requests that wait for a thread while no caller waits for them, if the model gives no
/// limit. Further ones are lost, because they would never be served.
pub const QUEUE_MAX: usize = 10_000;
