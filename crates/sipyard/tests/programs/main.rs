//! The node among programs that others wrote: SIPp, sipsak, baresip, Kamailio, OpenSSL, stunnel, Chromium and Redis.
//!
//! Each test has its own processes on free ports of the loopback interface, and prints what they
//! wrote if it fails. Tests with much load take turns, so that none takes the other's time.

#![allow(
    clippy::disallowed_methods,
    reason = "tests of processes wait for them on the real clock"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a test ends where its surroundings fail it"
)]

#[path = "../common/mod.rs"]
mod common;

mod aliases;
mod browser;
mod calls;
mod captured;
mod connected;
mod edge;
mod flooded;
mod flows;
mod kamailio;
mod limits;
mod load;
mod loss;
mod nat;
mod network;
mod phones;
mod process;
mod records;
mod registrar;
mod restart;
mod secure;
mod servers;
mod sipp;
mod streams;
