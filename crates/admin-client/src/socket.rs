//! HTTP on a Unix socket: where a node's socket is, and how ureq speaks on it.

use std::{
    env, fmt, fs,
    io::{self, Read, Write},
    os::unix::{fs::MetadataExt, net::UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::geteuid;
use ureq::{
    Error, Timeout,
    unversioned::transport::{
        Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
    },
};

/// Where root's nodes have their sockets, and those of a service that owns the folder.
const SYSTEM_FOLDER: &str = "/run/sipyard";

/// Returns the default path of a node's Unix socket. `port` is that of its `admin.address`, so the
/// nodes of one machine have a socket each.
///
/// The folder is `/run/sipyard` for root and for its owner. For others it is `sipyard` in
/// `$XDG_RUNTIME_DIR`, or else `sipyard-UID` in the temporary folder.
#[must_use]
pub fn default_socket(port: u16) -> PathBuf {
    let user = geteuid();
    let owns = |path: &Path| fs::metadata(path).is_ok_and(|it| it.uid() == user.as_raw());
    let folder = if user.is_root() || owns(Path::new(SYSTEM_FOLDER)) {
        SYSTEM_FOLDER.into()
    } else if let Some(folder) = env::var_os("XDG_RUNTIME_DIR") {
        PathBuf::from(folder).join("sipyard")
    } else {
        env::temp_dir().join(format!("sipyard-{}", user.as_raw()))
    };
    folder.join(format!("{port}.sock"))
}

/// Connects to one path, whatever the URL says.
#[derive(Debug)]
pub(crate) struct SocketConnector(pub(crate) PathBuf);

impl Connector for SocketConnector {
    type Out = SocketTransport;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<SocketTransport>, Error> {
        let stream = connect(&self.0)?;
        let (input, output) = (
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        Ok(Some(SocketTransport {
            stream,
            buffers: LazyBuffers::new(input, output),
        }))
    }
}

/// Connects to a socket that root or this user made: another user could have put one in its place,
/// to be told passwords.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let (user, owner) = (geteuid(), fs::metadata(path)?.uid());
    if !user.is_root() && ![0, user.as_raw()].contains(&owner) {
        let why = format!("the socket belongs to another user (id {owner})");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    UnixStream::connect(path)
}

/// A connection, which serves one request.
pub(crate) struct SocketTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl fmt::Debug for SocketTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}

impl Transport for SocketTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.set_write_timeout(limit(timeout))?;
        let written = self.stream.write_all(&self.buffers.output()[..amount]);
        written.map_err(|error| as_timeout(error, timeout.reason))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.set_read_timeout(limit(timeout))?;
        let read = self.stream.read(self.buffers.input_append_buf());
        let amount = read.map_err(|error| as_timeout(error, timeout.reason))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        false
    }
}

fn limit(timeout: NextTimeout) -> Option<Duration> {
    timeout.not_zero().map(|left| *left)
}

fn as_timeout(error: io::Error, reason: Timeout) -> Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout(reason),
        _ => error.into(),
    }
}
