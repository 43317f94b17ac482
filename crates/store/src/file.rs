//! The store in a file: a table in memory, and a log of all changes.
//!
//! One thread takes all waiting changes, writes them as one batch, syncs once, and only then
//! answers. When half of the file is outdated, the thread rewrites it, a piece after each batch,
//! and then replaces the whole file.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{
    Error, OpenError, Put,
    disk::{self, Disk, SystemDisk},
    entry::{Entry, Value},
    log::{Log, beside},
    request::{Done, Now},
    table::{SHARDS, Table},
};

/// The most changes that one sync serves, and the most bytes: they make one frame.
const BATCH_MAX: usize = 8192;
const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A smaller file is not rewritten.
const REWRITE_BYTES_MIN: u64 = 16 * 1024 * 1024;
/// How much is copied between two batches: as much as one sync writes in a moment.
const PIECE_BYTES_MIN: u64 = 1024 * 1024;
/// How long after a failure the thread tries the file again.
const RETRY: Duration = Duration::from_secs(5);

/// A change that waits for its sync.
pub(crate) struct Change {
    pub(crate) seen: Option<Value>,
    pub(crate) next: Entry,
    pub(crate) done: Done<Put>,
}

/// The thread that writes.
pub(crate) struct Writer {
    /// None only during the drop.
    queue: Option<SyncSender<Change>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Reads the file at `path` into the table, or creates the file, and starts the thread.
    pub(crate) fn open(
        path: &Path,
        table: Arc<Table>,
        queue_max: usize,
    ) -> Result<Self, OpenError> {
        let mut file = LogFile::open(path, table, Box::new(SystemDisk))?;
        let (sender, queue) = sync_channel(queue_max);
        let thread = thread::Builder::new()
            .name("store".into())
            .spawn(move || file.run(&queue))
            .map_err(OpenError::Thread)?;
        Ok(Self {
            queue: Some(sender),
            thread: Some(thread),
        })
    }

    /// Hands a change over, unless too many are waiting.
    pub(crate) fn submit(&self, change: Change) -> Result<(), Error> {
        let queue = self.queue.as_ref().expect("it is not dropped yet");
        queue.try_send(change).map_err(|error| match error {
            TrySendError::Full(_) => Error::Busy,
            TrySendError::Disconnected(_) => {
                Error::unavailable("the store's thread has ended; restart the node")
            }
        })
    }
}

impl Drop for Writer {
    /// Waits until all changes so far are done.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was told when it happened.
            let _ = thread.join();
        }
    }
}

/// Locks a file of its own, because the store's file is replaced.
fn lock(path: &Path) -> Result<File, OpenError> {
    let lock_path = beside(path, ".lock");
    let io_error = |error| OpenError::Io(lock_path.clone(), error);
    let file = disk::open_or_create(&lock_path).map_err(io_error)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(io_error(error)),
    }
}

fn create(new: &Path, path: &Path, disk: &dyn Disk) -> io::Result<Log> {
    let log = Log::create(new)?;
    log.sync(disk)?;
    disk.rename(new, path)?;
    disk.sync_folder_of(path)?;
    Ok(log)
}

/// The state of the thread.
struct LogFile {
    path: PathBuf,
    /// The path of the new file.
    new: PathBuf,
    table: Arc<Table>,
    /// None after a failed sync of the file or of its folder: it is then unknown what is on disk, so
    /// only a rewritten file can be trusted.
    log: Option<Log>,
    rewrite: Option<Rewrite>,
    /// When a rewrite last failed: time since the process began.
    failed: Option<Duration>,
    /// Whether the disk refused the last batch.
    failing: bool,
    disk: Box<dyn Disk>,
    _lock: File,
}

/// A file under construction: it contains the shards before `shard`.
struct Rewrite {
    log: Log,
    shard: usize,
}

impl LogFile {
    /// Reads the file at `path` into the table, or creates the file.
    fn open(path: &Path, table: Arc<Table>, disk: Box<dyn Disk>) -> Result<Self, OpenError> {
        let lock = lock(path)?;
        let new = beside(path, ".new");
        let io_error = |error| OpenError::Io(path.to_owned(), error);
        let log = if path.try_exists().map_err(io_error)? {
            let now = Now::read();
            Log::open(path, |entry| table.put(entry, now))?
        } else {
            create(&new, path, &*disk).map_err(io_error)?
        };
        Ok(Self {
            path: path.to_owned(),
            new,
            table,
            log: Some(log),
            rewrite: None,
            failed: None,
            failing: false,
            disk,
            _lock: lock,
        })
    }

    fn run(&mut self, queue: &Receiver<Change>) {
        loop {
            let patience = match self.rewrite {
                Some(_) => Duration::ZERO,
                None => RETRY,
            };
            match queue.recv_timeout(patience) {
                Ok(first) => self.commit(batch(first, queue)),
                Err(RecvTimeoutError::Timeout) => (),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.tend();
        }
    }

    /// Writes and syncs a batch, and answers it.
    fn commit(&mut self, batch: Vec<Change>) {
        let now = Now::read();
        let puts = judge(&self.table, &batch, now);
        let stored = || {
            let judged = batch.iter().zip(&puts);
            judged.filter_map(|(change, put)| (*put == Ok(Put::Stored)).then_some(&change.next))
        };
        let written = match stored().next() {
            Some(_) => self.write(stored()),
            None => Ok(()),
        };
        let written = self.tell(written);
        if written.is_ok() {
            stored().for_each(|entry| self.table.put(entry.clone(), now));
        }
        for (change, put) in batch.into_iter().zip(puts) {
            (change.done)(put.and_then(|put| written.clone().map(|()| put)));
        }
    }

    fn write<'a>(&mut self, entries: impl Iterator<Item = &'a Entry> + Clone) -> io::Result<()> {
        let log = self.log.as_mut().ok_or_else(|| {
            io::Error::other("the disk failed, and the file is not rewritten yet")
        })?;
        log.append(entries.clone())?;
        if let Err(error) = log.sync(&*self.disk) {
            self.log = None;
            return Err(error);
        }
        if let Some(rewrite) = &mut self.rewrite
            && let Err(error) = rewrite.log.append(entries)
        {
            self.give_up(&error);
        }
        Ok(())
    }

    /// Logs once that writing fails, or works again.
    fn tell(&mut self, written: io::Result<()>) -> Result<(), Error> {
        let path = self.path.display();
        match written {
            Ok(()) if self.failing => tracing::info!("store: {path} can be written again"),
            Err(ref error) if !self.failing => tracing::error!("store: {path}: {error}"),
            _ => (),
        }
        self.failing = written.is_err();
        written.map_err(|error| Error::unavailable(format!("{path}: {error}")))
    }

    /// Starts to rewrite the file if necessary, or continues.
    fn tend(&mut self) {
        if self.rewrite.is_none() && self.wants_rewrite() {
            match Log::create(&self.new) {
                Ok(log) => self.rewrite = Some(Rewrite { log, shard: 0 }),
                Err(error) => self.give_up(&error),
            }
        }
        if let Err(error) = self.copy() {
            self.give_up(&error);
        }
    }

    fn wants_rewrite(&self) -> bool {
        let now = Now::read().age;
        let due = self.failed.is_none_or(|failed| now >= failed + RETRY);
        due && self.log.as_ref().is_none_or(|log| {
            log.end() > REWRITE_BYTES_MIN && log.end() / 2 > self.table.entry_bytes()
        })
    }

    /// Copies some shards; after the last, replaces the file.
    fn copy(&mut self) -> io::Result<()> {
        let Some(rewrite) = &mut self.rewrite else {
            return Ok(());
        };
        let wall = Now::read().wall;
        let piece_end = rewrite.log.end() + PIECE_BYTES_MIN;
        while rewrite.shard < SHARDS && rewrite.log.end() < piece_end {
            let entries = self.table.shard_entries(rewrite.shard, wall);
            rewrite.log.append(&entries)?;
            rewrite.shard += 1;
        }
        rewrite.log.sync(&*self.disk)?;
        if rewrite.shard < SHARDS {
            return Ok(());
        }
        self.disk.rename(&self.new, &self.path)?;
        // The old file has lost its name, so what is written there is lost with it. Nothing may be
        // acknowledged in the new one either until its name is on disk.
        self.log = None;
        self.disk.sync_folder_of(&self.path)?;
        self.log = self.rewrite.take().map(|rewrite| rewrite.log);
        Ok(())
    }

    fn give_up(&mut self, error: &io::Error) {
        tracing::error!(
            "store: can't write {}: {error}; trying again",
            self.new.display()
        );
        self.failed = Some(Now::read().age);
        self.rewrite = None;
        // What is left of it is overwritten by the next try.
        let _ = fs::remove_file(&self.new);
    }
}

/// The first change and those that wait behind it, up to a limit.
fn batch(first: Change, queue: &Receiver<Change>) -> Vec<Change> {
    let mut bytes = first.next.bytes().len();
    let mut batch = vec![first];
    while batch.len() < BATCH_MAX
        && bytes < BATCH_BYTES_MAX
        && let Ok(change) = queue.try_recv()
    {
        bytes += change.next.bytes().len();
        batch.push(change);
    }
    batch
}

/// The results of the changes, each based on those before it.
fn judge(table: &Table, batch: &[Change], now: Now) -> Vec<Result<Put, Error>> {
    let mut pending: HashMap<&[u8], Option<Value>> = HashMap::new();
    let mut puts = Vec::with_capacity(batch.len());
    for Change { seen, next, .. } in batch {
        let current = match pending.get(next.key()) {
            Some(value) => value.clone(),
            None => table.get(next.key(), now).and_then(|entry| entry.value()),
        };
        puts.push(if current != *seen {
            Ok(Put::Changed(current))
        } else if current.is_none() && !table.has_room(next, now) {
            Err(Error::Full)
        } else {
            pending.insert(next.key(), next.value());
            Ok(Put::Stored)
        });
    }
    puts
}
