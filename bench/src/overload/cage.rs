//! A cgroup with a CFS quota: a part of a core for one program.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

/// The quota's period. With a longer one the program would stand still for longer than its queue may last.
const PERIOD_US: u32 = 10_000;

/// How long the kernel may take to empty a cgroup whose processes have ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// The `cpu` controller of version 1, and the root of version 2.
const V1: &str = "/sys/fs/cgroup/cpu";
const V2: &str = "/sys/fs/cgroup";

/// A cgroup of its own. It is removed on drop, when its processes have ended.
pub(crate) struct Cage {
    folder: PathBuf,
    version: Version,
}

#[derive(Clone, Copy)]
enum Version {
    V1,
    V2,
}

impl Cage {
    /// A cage without processes, which may use this share of a core.
    pub(crate) fn new(share: f64) -> io::Result<Self> {
        let (root, version) = if Path::new(V2).join("cgroup.controllers").exists() {
            write(&Path::new(V2).join("cgroup.subtree_control"), "+cpu")?;
            (V2, Version::V2)
        } else {
            (V1, Version::V1)
        };
        static CAGES: AtomicU32 = AtomicU32::new(0);
        let number = CAGES.fetch_add(1, Ordering::Relaxed);
        let folder = Path::new(root).join(format!("sipyard-bench-{}-{number}", process::id()));
        if !folder.exists() {
            fs::create_dir(&folder).map_err(|error| explained(&folder, &error))?;
        }
        let cage = Self { folder, version };
        cage.set_quota(Some((share * f64::from(PERIOD_US)) as u32))?;
        Ok(cage)
    }

    /// Takes these processes in.
    pub(crate) fn hold(&self, processes: &[u32]) -> io::Result<()> {
        let members = self.folder.join("cgroup.procs");
        let mut processes = processes.iter();
        processes.try_for_each(|process| write(&members, &process.to_string()))
    }

    /// Lets its processes have the whole core, so that they end soon.
    pub(crate) fn open(&self) {
        // If it stays closed, they take longer.
        let _ = self.set_quota(None);
    }

    fn set_quota(&self, quota_us: Option<u32>) -> io::Result<()> {
        let quota = |none: &str| quota_us.map_or_else(|| none.to_owned(), |us| us.to_string());
        match self.version {
            Version::V1 => {
                write(
                    &self.folder.join("cpu.cfs_period_us"),
                    &PERIOD_US.to_string(),
                )?;
                write(&self.folder.join("cpu.cfs_quota_us"), &quota("-1"))
            }
            Version::V2 => {
                let limit = format!("{} {PERIOD_US}", quota("max"));
                write(&self.folder.join("cpu.max"), &limit)
            }
        }
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        const STEP: Duration = Duration::from_millis(10);
        let mut waited = Duration::ZERO;
        while fs::remove_dir(&self.folder).is_err() && waited < PATIENCE {
            thread::sleep(STEP);
            waited += STEP;
        }
    }
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    fs::write(file, text).map_err(|error| explained(file, &error))
}

fn explained(path: &Path, error: &io::Error) -> io::Error {
    let path = path.display();
    io::Error::other(format!(
        "{path}: {error}; the quota needs root and the cpu controller of cgroups"
    ))
}
