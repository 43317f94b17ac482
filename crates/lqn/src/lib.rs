//! Layered queueing networks: model, read, write, solve, simulate.
//!
//! Nothing here knows of SIP, does I/O, reads a clock or owns a generator. Times are in the unit
//! of whoever wrote the model.
//!
//! Read [`Model`] and [`Builder`] first.

mod builder;
mod check;
mod model;
mod parameter;
mod results;
mod simulate;
mod solve;
mod text;
mod xml;

pub use builder::{Builder, EntryDraft, PHASES_MAX, Problem, ProcessorDraft, TaskDraft};
pub use model::{
    Call, CallKind, CallOrder, Entry, EntryId, Forward, Model, Multiplicity, Phase, Processor,
    ProcessorId, Role, Scheduling, Task, TaskId,
};
pub use parameter::Parameter;
pub use results::{
    Bottleneck, EntryResult, Figure, Method, ProcessorResult, Results, TaskResult, depths,
};
pub use simulate::{SimulationSettings, simulate};
pub use solve::solve;

/// Requests in wait for a thread that nobody waits for, where the model says nothing: more are
/// lost, for they would never get a turn.
pub const QUEUE_MAX: usize = 10_000;
