//! Timers of SIP transactions.

mod wheel;

pub use wheel::Wheel;
