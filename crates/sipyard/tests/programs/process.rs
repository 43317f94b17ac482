//! Processes of a test.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, ExitStatus},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use tempfile::TempDir;
use testbed::comes_within;
pub(crate) use testbed::within;

/// Enough of a log to see what went wrong.
const LOG_BYTES_SHOWN: usize = 4_000;

/// How long a program may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(5);

static MACHINE: Mutex<()> = Mutex::new(());

/// The machine for one test's load alone. Two at a time would make each other lose messages.
pub(crate) fn whole_machine() -> MutexGuard<'static, ()> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that runs in a folder of its own; killed when it is dropped, and its log printed if
/// the test fails.
pub(crate) struct Process {
    name: String,
    folder: TempDir,
    child: Child,
}

impl Process {
    /// Runs `program`, which is in Debian's `package`, in `folder`.
    pub(crate) fn start(program: &str, package: &str, folder: TempDir, arguments: &[&str]) -> Self {
        let log = File::create(folder.path().join("log")).unwrap();
        let child = command(program, package)
            .args(arguments)
            .current_dir(folder.path())
            .stdin(std::process::Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let name = format!("{program} {}", arguments.join(" "));
        Self {
            name,
            folder,
            child,
        }
    }

    /// Where it runs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it wrote so far.
    pub(crate) fn log(&self) -> String {
        let bytes = fs::read(self.folder().join("log")).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Ends it without a word, as a crash would.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end, and waits for that.
    pub(crate) fn terminate(&mut self) {
        if self.ended().is_none() {
            let pid = self.child.id().to_string();
            let _ = Command::new("kill").args(["-s", "TERM", &pid]).status();
            comes_within(GRACE, || self.ended().is_some());
        }
    }

    /// Its exit status, once it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            let log = self.log();
            let start = log.len().saturating_sub(LOG_BYTES_SHOWN);
            let shown = String::from_utf8_lossy(&log.as_bytes()[start..]);
            eprintln!("--- {} ---\n{shown}\n---", self.name);
        }
    }
}

/// A command for a program that must be installed.
pub(crate) fn command(program: &str, package: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let found = path
        .split(':')
        .chain(["/usr/sbin"])
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.is_file());
    match found {
        Some(path) => Command::new(path),
        None => panic!("install {program}: `apt-get install {package}`, or `make test` does it"),
    }
}
