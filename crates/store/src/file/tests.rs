//! A disk that fails at the worst moments.

use std::sync::{
    atomic::{AtomicBool, Ordering::Relaxed},
    mpsc,
};

use super::*;
use crate::Next;

/// A disk whose calls fail while their flag is set.
#[derive(Default)]
struct Failing {
    sync: AtomicBool,
    rename: AtomicBool,
    sync_folder: AtomicBool,
}

fn outcome(fails: &AtomicBool) -> io::Result<()> {
    match fails.load(Relaxed) {
        true => Err(io::Error::other("the disk fails")),
        false => Ok(()),
    }
}

impl Disk for Arc<Failing> {
    fn sync(&self, file: &File) -> io::Result<()> {
        outcome(&self.sync)?;
        SystemDisk.sync(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        outcome(&self.rename)?;
        SystemDisk.rename(from, to)
    }

    fn sync_folder_of(&self, path: &Path) -> io::Result<()> {
        outcome(&self.sync_folder)?;
        SystemDisk.sync_folder_of(path)
    }
}

/// A store's thread whose steps the test takes itself.
struct Driven {
    file: LogFile,
    disk: Arc<Failing>,
    /// The keys of the changes that were acknowledged.
    acknowledged: Vec<Vec<u8>>,
    folder: tempfile::TempDir,
}

impl Driven {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = Arc::new(Failing::default());
        let table = Arc::new(Table::new(1 << 20, Duration::MAX));
        let path = folder.path().join("store");
        let file = LogFile::open(&path, table, Box::new(Arc::clone(&disk))).unwrap();
        Self {
            file,
            disk,
            acknowledged: Vec::new(),
            folder,
        }
    }

    /// Stores a key, and says whether that was acknowledged.
    fn put(&mut self, key: &str) -> bool {
        let (sender, answers) = mpsc::channel();
        let next = Next {
            value: b"x",
            expires: None,
        };
        let change = Change {
            seen: None,
            next: Entry::new(key.as_bytes(), Some(next)).unwrap(),
            done: Box::new(move |put| sender.send(put).unwrap()),
        };
        self.file.commit(vec![change]);
        let is_stored = answers.recv().unwrap() == Ok(Put::Stored);
        if is_stored {
            self.acknowledged.push(key.into());
        }
        is_stored
    }

    /// Rewrites the file, as the thread does when half of it is outdated.
    fn rewrite(&mut self) {
        let log = Log::create(&self.file.new).unwrap();
        self.file.rewrite = Some(Rewrite { log, shard: 0 });
        self.file.tend();
        assert!(self.file.rewrite.is_none(), "it is over, well or not");
    }

    /// The disk works again, and the time has come to try again.
    fn recover(&mut self) {
        for fails in [&self.disk.sync, &self.disk.rename, &self.disk.sync_folder] {
            fails.store(false, Relaxed);
        }
        self.file.failed = None;
        self.file.tend();
    }

    /// What a restart finds is what was acknowledged.
    #[track_caller]
    fn check(&self) {
        let mut found = Vec::new();
        let path = self.folder.path().join("store");
        Log::open(&path, |entry| found.push(entry.key().to_vec())).unwrap();
        for key in &self.acknowledged {
            let key = String::from_utf8_lossy(key);
            assert!(found.iter().any(|found| found == key.as_bytes()), "{key}");
        }
    }
}

/// The store went on writing to a file without a name, when its folder could not be synced after a
/// rewrite: a restart found nothing of all that was acknowledged since.
#[test]
fn a_folder_that_can_not_be_synced_costs_nothing_acknowledged() {
    let mut driven = Driven::new();
    assert!(driven.put("before"));
    driven.disk.sync_folder.store(true, Relaxed);
    driven.rewrite();
    driven.put("while it fails");
    driven.check();
    driven.recover();
    assert!(driven.put("after"));
    driven.check();
    assert_eq!(driven.acknowledged.len(), 2, "nothing could be promised");
}

#[test]
fn a_file_that_can_not_be_replaced_is_kept() {
    let mut driven = Driven::new();
    assert!(driven.put("before"));
    driven.disk.rename.store(true, Relaxed);
    driven.rewrite();
    assert!(driven.put("while it fails"), "the old file is good");
    driven.check();
    driven.recover();
    driven.rewrite();
    assert!(driven.put("after"));
    driven.check();
}

#[test]
fn a_file_that_can_not_be_synced_is_written_anew() {
    let mut driven = Driven::new();
    assert!(driven.put("before"));
    driven.disk.sync.store(true, Relaxed);
    assert!(!driven.put("while it fails"));
    driven.recover();
    assert!(driven.put("after"));
    driven.check();
}

/// Nothing swept the table of a file but a rewrite of the file, so expired records made the store full.
#[test]
fn expired_records_make_room() {
    let table = Table::new(SHARDS * 200, Duration::MAX);
    let at = |seconds| Now {
        wall: Duration::from_secs(seconds),
        age: Duration::from_secs(seconds),
    };
    let change = |key: usize| {
        let next = Next {
            value: b"x",
            expires: Some(Duration::from_secs(100 + key as u64)),
        };
        Change {
            seen: None,
            next: Entry::new(key.to_string().as_bytes(), Some(next)).unwrap(),
            done: Box::new(drop),
        }
    };
    let stored = |keys: std::ops::Range<usize>, now| {
        let is_stored = |key: &usize| {
            let batch = [change(*key)];
            let is_stored = judge(&table, &batch, now) == [Ok(Put::Stored)];
            if is_stored {
                table.put(batch[0].next.clone(), now);
            }
            is_stored
        };
        keys.filter(is_stored).count()
    };
    let filled = stored(0..1_000, at(1));
    assert!((SHARDS..1_000).contains(&filled), "{filled}");
    assert_eq!(stored(0..1_000, at(2)), 0);
    assert!(stored(2_000..3_000, at(2_000)) > filled / 2);
    // A file that is read at a start has what expired meanwhile.
    let read = Table::new(SHARDS * 200, Duration::MAX);
    (0..1_000).for_each(|key| read.put(change(key).next, at(2_000)));
    assert_eq!(read.held(), (0, 0));
}
