//! The Unix socket of the admin API. Only the user who runs the node can open it.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::{
        fs::{DirBuilderExt, FileTypeExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

use rustix::{fs::Mode, process::umask};

/// A bound socket. Its drop removes the file.
pub(crate) struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl UnixSocket {
    /// Binds the socket at `path`, in place of one whose process is gone. It sets the umask for a
    /// moment, so it is to be called before other threads make files.
    ///
    /// # Errors
    /// What to do about it, too.
    pub(crate) fn bind(path: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| error.to_string();
        if let Some(folder) = path.parent() {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700);
            builder.create(folder).map_err(failed)?;
        }
        remove_stale(path)?;
        let before = umask(Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(path);
        umask(before);
        let listener = bound.map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The socket, to be called once within a runtime.
    pub(crate) fn listener(&self) -> io::Result<tokio::net::UnixListener> {
        tokio::net::UnixListener::from_std(self.listener.try_clone()?)
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // The next node removes what stays.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes a socket that no process listens on any more.
fn remove_stale(path: &Path) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.to_string()),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err("there is a file that is not a socket: choose another path".into());
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| error.to_string())
        }
        _ => Err("another node uses it: stop that node, or choose another path".into()),
    }
}
