//! Who holds the state of a request on its path of nodes.
//!
//! A request passes several nodes, and one of them has to remember it until it is answered. The idea is
//! SERvartuka's (Balasubramaniyan et al., "Enhancing SIP server scalability with dynamic state
//! management"): a node holds what comes until it is busy, and leaves more to the nodes behind it then.
//! So a farm carries more than with any fixed assignment, because no node is idle while another is full.
//!
//! The paper's nodes tell each other by one bit that they are full, and only ever reduce. Here each node
//! tells the one before it a number, its *room*: how many requests per second it may leave open. The
//! room lasts for a second. When nobody renews it, the node before holds everything itself.
//!
//! A [`Custody`] is one worker's part. Its driver tells how long the worker was busy. From that it learns what
//! it costs to pass a request on and to hold it, and so how many it can hold at
//! 97 % of its time. All is in requests per second.
//!
//! The crate knows nothing of SIP, reads no clock and does no I/O: time is a [`Duration`] since a zero
//! that the driver chose. What happens for each request takes no lock and allocates nothing.
//!
//! ```
//! use std::time::Duration;
//! use custody::{Custody, Decision, Request};
//!
//! let mut node = Custody::new(Duration::ZERO);
//! let request = Request { from: None, to: Some(7), is_held: false, is_unchecked: false, draw: 0 };
//! // Nobody has told of room: the node holds the request itself.
//! assert_eq!(node.decide(Duration::ZERO, &request), Decision::Hold);
//! ```
//!
//! [`Duration`]: std::time::Duration

mod costs;
mod custody;
mod division;
mod peers;

pub use custody::{Custody, Decision, Figures, INTERVAL, Request, Room};
