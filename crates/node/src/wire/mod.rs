//! Messages as they come and as they leave, and what this cluster writes into them.

pub(crate) mod branch;
pub(crate) mod gruu;
mod identity;
pub(crate) mod kept;
pub(crate) mod keys;
pub(crate) mod mark;
pub(crate) mod nat;
pub(crate) mod outbound;
pub(crate) mod quote;
pub(crate) mod relay;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod response;
mod seal;
pub(crate) mod token;
pub(crate) mod way;
