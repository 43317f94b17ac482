//! A service manager of tests: notifications, and the sockets that it keeps between two processes.

use std::{
    io::IoSliceMut,
    mem::MaybeUninit,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::UnixDatagram,
    },
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
};

use rustix::{
    io::fcntl_setfd,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
};

use super::{PATIENCE, Settings, load};

/// Plays the service manager: it hears a service, and keeps its sockets.
pub struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
    /// The sockets that it keeps.
    pub kept: Vec<OwnedFd>,
    /// What the service has said.
    pub heard: Vec<String>,
}

impl Manager {
    /// Of the node with these settings.
    pub fn new(settings: &Settings) -> Self {
        let path = settings.path().with_file_name("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            socket,
            path,
            kept: Vec::new(),
            heard: Vec::new(),
        }
    }

    /// Starts a node, with the sockets that were kept.
    pub fn start(&self, settings: &Settings, watchdog: &str) -> Running {
        let sockets = self.kept.iter().enumerate();
        let sockets: Vec<String> = sockets
            .map(|(place, fd)| {
                // The shell inherits it, as the node does.
                fcntl_setfd(fd, rustix::io::FdFlags::empty()).unwrap();
                format!("{}<&{}", place + 3, fd.as_raw_fd())
            })
            .collect();
        let script = format!(
            "LISTEN_PID=$$ exec \"$0\" serve --config \"$1\" {}",
            sockets.join(" ")
        );
        let child = Command::new("bash")
            .args(["-c", &script, env!("CARGO_BIN_EXE_sipyard")])
            .arg(settings.path())
            .env("NOTIFY_SOCKET", &self.path)
            .env("LISTEN_FDS", self.kept.len().to_string())
            .env("WATCHDOG_USEC", watchdog)
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Running(child)
    }

    /// Hears the node until it says this.
    pub fn wait_for(&mut self, words: &str) {
        while !self.heard.iter().any(|it| it.contains(words)) {
            self.hear();
        }
    }

    /// Lets go of what it keeps, as of a service that was stopped.
    pub fn forget(&mut self) {
        self.socket.set_nonblocking(true).unwrap();
        let mut bytes = [0; 4096];
        // What was on its way is let go with the message.
        while self.socket.recv(&mut bytes).is_ok() {}
        self.socket.set_nonblocking(false).unwrap();
        self.kept.clear();
        self.heard.clear();
    }

    /// Hears the node once.
    pub fn hear(&mut self) {
        let mut bytes = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let got = recvmsg(&self.socket, &mut slices, &mut control, RecvFlags::empty()).unwrap();
        let text = String::from_utf8_lossy(&bytes[..got.bytes]).into_owned();
        if text.contains("FDSTOREREMOVE=1") {
            self.kept.clear();
        }
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.kept.extend(fds);
            }
        }
        self.heard.push(text);
    }
}

/// A node; killed when it is dropped.
pub struct Running(Child);

impl Running {
    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        load::signal(self.0.id(), name);
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended can't be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
