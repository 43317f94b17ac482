//! Connections between parties: what the systems below them do, and what they do themselves.

mod end;
mod endpoint;
mod packet;
mod tcp;

pub use end::Buffers;
pub(crate) use end::EndId;
pub use endpoint::Conduct;
pub(crate) use endpoint::{Endpoint, IDLE_MAX, Missed};
pub(crate) use tcp::{Line, Read, Tcp, Told, What};
