//! Why nothing was measured.

use std::io;

/// Why nothing was measured.
pub(super) enum Refusal {
    /// The arguments can't be followed here.
    Arguments(String),
    /// A file has these mistakes, each with its place.
    File(Vec<String>),
    /// The system failed on the way.
    System(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}
