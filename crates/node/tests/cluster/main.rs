//! The node on virtual time: whole calls, failures and limits, then random ones.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod affinity;
mod callees;
mod calls;
mod checks;
mod control;
mod corpus;
mod dialogs;
mod dynamic;
mod elsewhere;
mod exchange;
mod failover;
mod forking;
mod harness;
mod health;
mod hostile;
mod icmp;
mod impostors;
mod large;
mod leaks;
mod learn;
mod limits;
mod message;
mod names;
mod nat;
mod neighbours;
mod network;
mod originated;
mod orphans;
mod overload;
#[path = "../../../../fuzz/fuzz_targets/play.rs"]
#[allow(unreachable_pub, reason = "the fuzz target shares it")]
mod play;
mod refusals;
mod registrar;
mod reload;
mod repeats;
mod routes;
mod script;
mod sips;
mod stateful;
mod strangers;
mod streams;
mod tap;
mod trust;
mod workers;
