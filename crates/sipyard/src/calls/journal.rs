//! What the records have not told yet, in files that outlive the process.
//!
//! A worker writes what passed before any of it leaves, so a `kill -9` loses nothing that anybody has seen. A file
//! that was written needs no sync for that: the kernel has it. The next process [recovers](Left) what is left.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use net::Witness;
use node::tap::Tap;
use recorder::write_passed;
use rustix::fs::{FlockOperation, flock};
use socket::wall;

/// What a worker may record in a tick, in bytes: 10,000 calls a second are about 4 MB in a fast one.
pub(super) const TAP_BYTES: usize = 16 << 20;
const STATE: &str = "state";
/// A worker's file that is longer gives way to the other one, as soon as all in that one is told and old.
const TURN: u64 = 1 << 20;
/// A request that was told about may get its answer so much later, in nanoseconds.
const ANSWER_MAX: u64 = 5_000_000_000;
/// No file gets longer: what passes then is not kept.
const BYTES_MAX: u64 = 64 << 20;

/// The files of this process.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    /// Locked as long as the process lives.
    state: File,
    /// All that passed by then, in nanoseconds from the node's zero, is told.
    told: AtomicU64,
    workers: Vec<Mutex<Pair>>,
    lost: AtomicU64,
}

/// The two files of a worker.
#[derive(Debug)]
struct Pair {
    files: [File; 2],
    /// When the latest message of each passed.
    latest: [u64; 2],
    current: usize,
    /// Of the current one.
    length: u64,
    buffer: Vec<u8>,
}

/// How far the records are told.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// All that passed by then is told.
    told: u64,
    /// What passed by then is being told, if that is later.
    telling: u64,
    /// The file of records, its length before, and by how much it will grow.
    inode: u64,
    before: u64,
    added: u64,
    /// The wall time of the node's zero.
    zero: u64,
}

impl Journal {
    /// Makes the files beside the file of records. `zero` is the wall time of the node's zero.
    pub(crate) fn new(records: &Path, workers: usize, zero: Duration) -> io::Result<Self> {
        let folder = folder_of(records).join(format!("{:x}", wall().as_nanos()));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        let state = private().write(true).open(folder.join(STATE))?;
        flock(&state, FlockOperation::NonBlockingLockExclusive)?;
        let pair = |worker: usize| -> io::Result<_> {
            let file = |which: usize| {
                let path = folder.join(format!("worker-{worker}.{which}"));
                private().append(true).open(path)
            };
            Ok(Mutex::new(Pair {
                files: [file(0)?, file(1)?],
                latest: [0; 2],
                current: 0,
                length: 0,
                buffer: Vec::new(),
            }))
        };
        let workers = (0..workers).map(pair).collect::<io::Result<_>>()?;
        let progress = Progress {
            zero: zero.as_nanos() as u64,
            ..Progress::default()
        };
        progress.write(&state)?;
        Ok(Self {
            folder,
            state,
            told: AtomicU64::new(0),
            workers,
            lost: AtomicU64::new(0),
        })
    }

    /// Messages that found no room.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// What passed by `until` is about to be told: the file of records grows by so many bytes.
    pub(super) fn begin(&self, until: Duration, records: &File, added: u64) -> io::Result<()> {
        let records = records.metadata()?;
        let mut progress = Progress::read(&self.state)?;
        progress.telling = nanos(until);
        (progress.inode, progress.before) = (records.ino(), records.len());
        progress.added = added;
        progress.write(&self.state)
    }

    /// What passed by `until` is told. After all is told the files go.
    pub(super) fn end(&self, until: Duration) -> io::Result<()> {
        let mut progress = Progress::read(&self.state)?;
        let until = nanos(until).max(progress.told);
        (progress.told, progress.telling) = (until, until);
        progress.write(&self.state)?;
        self.told.store(until, Relaxed);
        if until == u64::MAX {
            fs::remove_dir_all(&self.folder)?;
        }
        Ok(())
    }
}

impl Witness for Journal {
    fn tap(&self) -> Tap {
        Tap::new(TAP_BYTES)
    }

    fn see(&self, worker: usize, tap: &mut Tap) {
        let news = tap.news();
        let seen = &tap.entries()[news];
        let told = self.told.load(Relaxed);
        let Some(latest) = seen.last().filter(|_| told < u64::MAX) else {
            return;
        };
        let mut pair = self.workers[worker]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let pair = &mut *pair;
        pair.buffer.clear();
        write_passed(tap, seen, &mut pair.buffer);
        if !pair.buffer.is_empty() && !pair.append(nanos(latest.at), told) {
            self.lost.fetch_add(1, Relaxed);
        }
    }
}

impl Pair {
    /// Appends the buffer, in which the latest message passed at a time. `told`: what passed by then is told.
    fn append(&mut self, latest: u64, told: u64) -> bool {
        let other = 1 - self.current;
        let is_old = self.latest[other] == 0 || self.latest[other] + ANSWER_MAX <= told;
        if self.length > TURN && is_old && self.files[other].set_len(0).is_ok() {
            (self.current, self.length) = (other, 0);
        }
        let length = self.buffer.len() as u64;
        if self.length + length > BYTES_MAX {
            return false;
        }
        self.latest[self.current] = latest;
        self.length += length;
        self.files[self.current].write_all(&self.buffer).is_ok()
    }
}

impl Progress {
    const LENGTH: usize = 6 * size_of::<u64>();

    fn read(state: &File) -> io::Result<Self> {
        let mut bytes = [0; Self::LENGTH];
        state.read_exact_at(&mut bytes, 0)?;
        let mut words = bytes.chunks_exact(8).map(|word| {
            let word = word.try_into().expect("chunks are of eight bytes");
            u64::from_le_bytes(word)
        });
        let mut next = || words.next().unwrap_or_default();
        Ok(Self {
            told: next(),
            telling: next(),
            inode: next(),
            before: next(),
            added: next(),
            zero: next(),
        })
    }

    fn write(&self, state: &File) -> io::Result<()> {
        let words = [
            self.told,
            self.telling,
            self.inode,
            self.before,
            self.added,
            self.zero,
        ];
        state.write_all_at(&words.map(u64::to_le_bytes).concat(), 0)
    }
}

/// What a process that is gone has left.
pub(super) struct Left {
    folder: PathBuf,
    /// Locked, so that no other process recovers it.
    state: File,
    /// What passed, as [`write_passed`] wrote it.
    pub(super) passed: Vec<u8>,
    /// All that passed by then is told.
    pub(super) since: Duration,
    /// The wall time of its zero.
    pub(super) zero: Duration,
}

impl Left {
    /// All that is left beside a file of records. What can't be read is told in the log and stays.
    pub(super) fn find(records: &Path) -> Vec<Self> {
        let Ok(entries) = fs::read_dir(folder_of(records)) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for folder in entries.flatten().map(|entry| entry.path()) {
            match Self::read(&folder, records) {
                Ok(left) => found.extend(left),
                Err(error) => tracing::error!(
                    "what {} holds for call records can't be read: {error}",
                    folder.display()
                ),
            }
        }
        found
    }

    /// None: its process lives.
    fn read(folder: &Path, records: &Path) -> io::Result<Option<Self>> {
        let state = OpenOptions::new()
            .read(true)
            .write(true)
            .open(folder.join(STATE))?;
        if flock(&state, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(None);
        }
        let mut progress = Progress::read(&state)?;
        if progress.telling > progress.told && is_written(&progress, records)? {
            progress.told = progress.telling;
        }
        let mut passed = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name != STATE) {
                passed.extend(fs::read(path)?);
            }
        }
        Ok(Some(Self {
            folder: folder.to_owned(),
            state,
            passed,
            since: Duration::from_nanos(progress.told),
            zero: Duration::from_nanos(progress.zero),
        }))
    }

    /// All of it is about to be told: the file of records grows by so many bytes.
    pub(super) fn begin(&self, records: &File, added: u64) -> io::Result<()> {
        let records = records.metadata()?;
        let progress = Progress {
            told: nanos(self.since),
            telling: u64::MAX,
            inode: records.ino(),
            before: records.len(),
            added,
            zero: nanos(self.zero),
        };
        progress.write(&self.state)
    }

    /// All of it is told.
    pub(super) fn remove(self) -> io::Result<()> {
        fs::remove_dir_all(&self.folder)
    }
}

/// Whether the records that were being told are in their file. If only a part is, that is cut off.
fn is_written(progress: &Progress, records: &Path) -> io::Result<bool> {
    let rotated = super::records::numbered(records, 1);
    for path in [records, &rotated] {
        let Ok(file) = OpenOptions::new().write(true).open(path) else {
            continue;
        };
        let known = file.metadata()?;
        if known.ino() != progress.inode {
            continue;
        }
        if known.len() >= progress.before + progress.added {
            return Ok(true);
        }
        if known.len() > progress.before {
            file.set_len(progress.before)?;
        }
        return Ok(false);
    }
    // The file was moved away: what was written last went with it.
    Ok(true)
}

fn folder_of(records: &Path) -> PathBuf {
    let mut name = records.as_os_str().to_owned();
    name.push(".journal");
    name.into()
}

/// A new file that nobody else can read: it holds messages as they passed.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).create_new(true).mode(0o600);
    options
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: Duration = Duration::from_secs(1);
    const TELLING: Duration = Duration::from_secs(2);

    /// A process that told something, began to tell more, and wrote so much of ten bytes when it was killed.
    fn killed(records: &Path, written: usize) -> File {
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).open(records).unwrap();
        let journal = Journal::new(records, 2, Duration::from_secs(9)).unwrap();
        journal.begin(TOLD, &file, 5).unwrap();
        file.write_all(b"first").unwrap();
        journal.end(TOLD).unwrap();
        journal.begin(TELLING, &file, 10).unwrap();
        file.write_all(&b"0123456789"[..written]).unwrap();
        file
    }

    fn found(records: &Path) -> Duration {
        let mut left = Left::find(records);
        assert_eq!(left.len(), 1);
        let left = left.remove(0);
        assert_eq!(left.zero, Duration::from_secs(9));
        let since = left.since;
        left.remove().unwrap();
        assert!(Left::find(records).is_empty());
        since
    }

    #[test]
    fn what_was_being_told_is_told_once_wherever_the_process_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("calls.jsonl");
        for (written, since) in [(0, TOLD), (4, TOLD), (10, TELLING)] {
            drop(killed(&records, written));
            assert_eq!(found(&records), since, "{written}");
            let told = if written == 10 {
                "first0123456789"
            } else {
                "first"
            };
            assert_eq!(fs::read_to_string(&records).unwrap(), told);
            fs::remove_file(&records).unwrap();
        }
    }

    #[test]
    fn a_file_that_was_moved_since_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("calls.jsonl");
        drop(killed(&records, 4));
        fs::rename(&records, folder.path().join("calls.jsonl.1")).unwrap();
        assert_eq!(found(&records), TOLD);
        let cut = fs::read_to_string(folder.path().join("calls.jsonl.1"));
        assert_eq!(cut.unwrap(), "first");
    }

    #[test]
    fn a_process_that_lives_keeps_its_journal_and_one_that_ends_takes_it_along() {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("calls.jsonl");
        let journal = Journal::new(&records, 1, Duration::ZERO).unwrap();
        assert!(Left::find(&records).is_empty());
        journal.end(Duration::MAX).unwrap();
        drop(journal);
        assert!(Left::find(&records).is_empty());
    }

    /// A worker's files take turns, and none is emptied before all in it is told.
    #[test]
    fn files_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("calls.jsonl");
        let journal = Journal::new(&records, 1, Duration::ZERO).unwrap();
        let mut pair = journal.workers[0].lock().unwrap();
        pair.buffer = vec![0; TURN as usize / 2];
        let mut lengths = |latest, told| {
            assert!(pair.append(latest, told));
            [0, 1].map(|which| pair.files[which].metadata().unwrap().len() * 2 / TURN)
        };
        let mut at = |second: u64, told: u64| lengths(second * ANSWER_MAX, told * ANSWER_MAX);
        assert_eq!([at(1, 0), at(2, 0), at(3, 0)], [[1, 0], [2, 0], [3, 0]]);
        assert_eq!([at(4, 0), at(5, 0), at(6, 3)], [[3, 1], [3, 2], [3, 3]]);
        assert_eq!([at(7, 3), at(8, 4)], [[3, 4], [1, 4]]);
    }
}
