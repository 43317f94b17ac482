//! A restart under a service manager: its notifications, and the sockets that it keeps between two processes.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    fs,
    io::IoSliceMut,
    mem::MaybeUninit,
    net::SocketAddr,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::UnixDatagram,
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use common::{
    PATIENCE, Settings,
    load::{self, Serving},
    sipyard,
};
use rustix::{
    io::fcntl_setfd,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
};
use serde_json::Value;

/// Plays the service manager: it hears a service, and keeps its sockets.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
    kept: Vec<OwnedFd>,
    heard: Vec<String>,
}

impl Manager {
    fn new(settings: &Settings) -> Self {
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
    fn start(&self, settings: &Settings, watchdog: &str) -> Running {
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
    fn wait_for(&mut self, words: &str) {
        while !self.heard.iter().any(|it| it.contains(words)) {
            self.hear();
        }
    }

    fn hear(&mut self) {
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
struct Running(Child);

impl Running {
    fn signal(&self, name: &str) {
        load::signal(self.0.id(), name);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended can't be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn settings(servers: &[SocketAddr], workers: usize) -> Settings {
    let settings = Settings::new();
    let list: Vec<String> = servers
        .iter()
        .map(|it| format!("{{ address = \"{it}\" }}"))
        .collect();
    settings.write(&format!("servers = [{}]", list.join(", ")), "");
    let text = fs::read_to_string(settings.path()).unwrap();
    settings.write_whole(&text.replace("workers = 1", &format!("workers = {workers}")));
    settings
}

/// Callers never repeat a request, so each datagram that is lost is a call that fails.
#[test]
fn a_restart_under_load_drops_no_datagram() {
    for workers in [1, 2] {
        let servers = Serving::start(&["--servers", "2"]);
        let second = SocketAddr::new(servers.address.ip(), servers.address.port() + 1);
        let settings = settings(&[servers.address, second], workers);
        let mut manager = Manager::new(&settings);
        let mut node = manager.start(&settings, "");
        manager.wait_for("READY=1");
        while manager.kept.len() < workers {
            manager.hear();
        }
        let mut caller = sipyard();
        caller.args([
            "load", "call", "--json", "-", "--timers", "sipstone", "--to",
        ]);
        caller.arg(settings.sip.to_string());
        caller.args(["--rate", "300", "--duration", "4s", "--holding", "500ms"]);
        let caller = caller.stdout(Stdio::piped()).spawn().unwrap();
        for _ in 0..2 {
            #[expect(clippy::disallowed_methods, reason = "the load is to run for a while")]
            thread::sleep(Duration::from_secs(1));
            node.signal("USR2");
            assert!(node.0.wait().unwrap().success());
            manager.heard.clear();
            node = manager.start(&settings, "");
            manager.wait_for("READY=1");
            while manager.kept.len() < workers {
                manager.hear();
            }
        }
        let output = caller.wait_with_output().unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(output.status.success(), "{told:#}");
        assert_eq!(told["failed"], 0, "{told:#}");
        assert!(told["carried"].as_u64().unwrap() > 1_000, "{told:#}");
        drop(node);
    }
}

#[test]
fn the_manager_hears_of_starts_reloads_stops_and_a_fed_watchdog() {
    let settings = settings(&["127.0.0.1:9".parse().unwrap()], 1);
    let mut manager = Manager::new(&settings);
    let mut node = manager.start(&settings, "300000");
    for words in ["READY=1", "FDSTORE=1", "WATCHDOG=1"] {
        manager.wait_for(words);
    }
    manager.heard.clear();
    node.signal("HUP");
    manager.wait_for("RELOADING=1\nMONOTONIC_USEC=");
    manager.wait_for("READY=1\nSTATUS=reloaded");
    node.signal("TERM");
    manager.wait_for("STOPPING=1");
    assert!(node.0.wait().unwrap().success());
}
