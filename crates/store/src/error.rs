//! Why a store does not do what it is asked for.

use std::{fmt, io, path::PathBuf, sync::Arc};

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Too many requests wait. Try again later.
    Busy,
    /// There is no room for another entry.
    Full,
    /// The key or the value is too long.
    TooLong,
    /// The disk or the server fails; why. A change may have been made all the same.
    Unavailable(Arc<str>),
}

impl Error {
    pub(crate) fn unavailable(why: impl AsRef<str>) -> Self {
        Self::Unavailable(why.as_ref().into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("too many requests wait for the store"),
            Self::Full => f.write_str("the store is full"),
            Self::TooLong => f.write_str("the key or the value is too long for the store"),
            Self::Unavailable(why) => write!(f, "the store is unavailable: {why}"),
        }
    }
}

impl std::error::Error for Error {}

/// Why a store can't be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The file can't be read or written.
    Io(PathBuf, io::Error),
    /// The store's thread can't be started.
    Thread(io::Error),
    /// Another process has the file open.
    InUse(PathBuf),
    /// The file is no store.
    Foreign(PathBuf),
    /// A group or others may use the file; its mode.
    Exposed(PathBuf, u32),
    /// The file is damaged in its middle.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first bad byte's offset.
        from: u64,
        /// The offset from which all may be good again.
        to: u64,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Thread(error) => write!(f, "the store's thread can't be started: {error}"),
            Self::InUse(path) => write!(
                f,
                "{}: another process has it open, such as a running node",
                path.display()
            ),
            Self::Foreign(path) => write!(
                f,
                "{}: not a store's file: name another path, or move it away to begin anew",
                path.display()
            ),
            Self::Exposed(path, mode) => {
                let path = path.display();
                write!(
                    f,
                    "{path}: others than its owner may use it (mode {mode:03o}): run `chmod 600 {path}`"
                )
            }
            Self::Damaged { path, from, to } => write!(
                f,
                "{}: damaged between bytes {from} and {to}, so entries are lost: put a backup in its \
                 place, or move it away to begin anew",
                path.display()
            ),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(_, error) | Self::Thread(error) => Some(error),
            Self::InUse(_) | Self::Foreign(_) | Self::Exposed(..) | Self::Damaged { .. } => None,
        }
    }
}
