//! The log as entries of the systemd journal. A socket of the test's own takes them, in a namespace of its own.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    fs,
    io::{self, BufRead, BufReader},
    os::{fd::AsRawFd, linux::fs::MetadataExt, unix::net::UnixDatagram},
    process::{Child, Command, Stdio},
};

use common::{PATIENCE, Settings};

const POOL: &str = "servers = [ { address = \"127.0.0.1:9\" } ]\nprobe = false";

/// A node that believes that its standard error is the journal.
struct Logging {
    shell: Child,
    journal: UnixDatagram,
    errors: BufReader<io::PipeReader>,
}

impl Logging {
    /// None: this machine lets nobody mount.
    fn start(settings: &Settings, more: &str) -> Option<Self> {
        let may = Command::new("unshare").args(["-m", "true"]).output();
        if !may.is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: unshare -m is not allowed");
            return None;
        }
        let folder = settings.folder.path();
        let journal = UnixDatagram::bind(folder.join("socket")).unwrap();
        journal.set_read_timeout(Some(PATIENCE)).unwrap();
        let (errors, written) = io::pipe().unwrap();
        let file = fs::metadata(format!("/proc/self/fd/{}", written.as_raw_fd())).unwrap();
        let line = format!(
            "mount -t tmpfs none /run && mkdir -p /run/systemd/journal && mount --bind {} /run/systemd/journal && \
             exec {} serve {more} {}",
            folder.display(),
            env!("CARGO_BIN_EXE_sipyard"),
            settings.path().display()
        );
        let shell = Command::new("unshare")
            .args(["-m", "sh", "-c", &line])
            .env(
                "JOURNAL_STREAM",
                format!("{}:{}", file.st_dev(), file.st_ino()),
            )
            .stderr(Stdio::from(written))
            .spawn()
            .unwrap();
        Some(Self {
            shell,
            journal,
            errors: BufReader::new(errors),
        })
    }

    /// The fields of the first entry. An empty one before it asks whether there is a journal.
    fn entry(&self) -> String {
        let mut buffer = [0; 65_536];
        loop {
            let length = self.journal.recv(&mut buffer).unwrap();
            if length > 0 {
                return String::from_utf8_lossy(&buffer[..length]).into_owned();
            }
        }
    }

    /// The first line on standard error; empty: the node ended without one.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.errors.read_line(&mut line).unwrap();
        line
    }

    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        self.end();
    }
}

/// Lines had the time twice in the journal, and no priority, so `journalctl -p warning` showed nothing.
#[test]
fn the_journal_gets_entries_with_priorities() {
    let settings = Settings::new();
    settings.write(POOL, "");
    let Some(mut node) = Logging::start(&settings, "") else {
        return;
    };
    let entry = node.entry();
    assert!(entry.contains("has started"), "{entry}");
    // A name, the length of its value in eight bytes, the value.
    for (name, value) in [("PRIORITY", "6"), ("SYSLOG_IDENTIFIER", "sipyard")] {
        let length = (value.len() as u64).to_le_bytes();
        let length = String::from_utf8_lossy(&length);
        let field = format!("{name}\n{length}{value}\n");
        assert!(entry.contains(&field), "{entry:?}");
    }
    assert!(!entry.contains("INFO"), "{entry}");
    node.end();
    assert_eq!(node.line(), "", "all went to the journal");
}

#[test]
fn a_format_that_is_asked_for_stays() {
    let settings = Settings::new();
    settings.write(POOL, "");
    let Some(mut node) = Logging::start(&settings, "--log-format text") else {
        return;
    };
    let told = node.line();
    assert!(told.contains("INFO edge 0.1.0 has started"), "{told}");
}
