//! The node on virtual time: whole calls, failures and limits, then random ones.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod affinity;
mod calls;
mod dialogs;
mod failover;
mod harness;
mod health;
mod leaks;
mod limits;
mod message;
mod network;
mod originated;
mod refusals;
mod reload;
mod routes;
mod script;
mod workers;
