//! The file: a sequence of frames with entries. The last entry of a key counts.
//!
//! A frame contains what one sync made durable: a head with its length and checksums, then entries
//! with their lengths. Only the last frame may be incomplete, because each was on disk before the
//! next one began. A bad frame with a good head behind it is therefore damage. A random salt of the
//! file goes into the checksums of heads, so that a user who chooses the stored bytes can't imitate
//! a head.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    hash::{BuildHasher, RandomState},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use crc32fast::Hasher;

use crate::{
    OpenError,
    disk::{self, Disk},
    entry::{Entry, VALUE_BYTES_MAX},
};

const MAGIC: &[u8; 16] = b"SIPYARD STORE 1\n";
const SALT_BYTES: usize = 8;
const FILE_HEAD_BYTES: usize = MAGIC.len() + SALT_BYTES + 4;
/// Length, checksum of the entries, checksum of the head.
const HEAD_BYTES: usize = 12;
/// The longest frame.
const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// An open file, to which frames are appended.
pub(crate) struct Log {
    file: File,
    salt: [u8; SALT_BYTES],
    /// The offset of the next frame.
    end: u64,
    /// Whether a failed write may have left bytes behind the end.
    dirty: bool,
}

impl Log {
    /// Makes an empty file at `path`, and replaces one that exists.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut file = disk::create(path)?;
        let salt = RandomState::new().hash_one(path).to_be_bytes();
        file.write_all(&file_head(salt))?;
        Ok(Self {
            file,
            salt,
            end: FILE_HEAD_BYTES as u64,
            dirty: false,
        })
    }

    /// Reads the entries of the file at `path` in order, and cuts off an incomplete frame at its
    /// end.
    pub(crate) fn open(path: &Path, mut each: impl FnMut(Entry)) -> Result<Self, OpenError> {
        let io_error = |error| OpenError::Io(path.to_owned(), error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(io_error)?;
        let metadata = file.metadata().map_err(io_error)?;
        let size = metadata.len();
        let mut reader = BufReader::with_capacity(1 << 20, &file);
        let mut head = [0; FILE_HEAD_BYTES];
        if size < head.len() as u64 {
            return Err(OpenError::Foreign(path.to_owned()));
        }
        reader.read_exact(&mut head).map_err(io_error)?;
        let salt = *head[MAGIC.len()..]
            .first_chunk()
            .expect("the head is longer");
        if !head.starts_with(MAGIC) {
            return Err(OpenError::Foreign(path.to_owned()));
        }
        disk::check_mode(path, &metadata.permissions())?;
        if head != file_head(salt) {
            return Err(OpenError::Damaged {
                path: path.to_owned(),
                from: 0,
                to: FILE_HEAD_BYTES as u64,
            });
        }
        let mut frames = Frames {
            reader,
            salt,
            at: FILE_HEAD_BYTES as u64,
            size,
            payload: Vec::new(),
        };
        while frames.read(&mut each).map_err(io_error)? {}
        let end = frames.at;
        if let Some(next) = frames.next_head().map_err(io_error)? {
            return Err(OpenError::Damaged {
                path: path.to_owned(),
                from: end,
                to: next,
            });
        }
        let mut log = Self {
            file,
            salt,
            end,
            dirty: end < size,
        };
        if log.dirty {
            tracing::warn!(
                "{}: the last write did not finish; its {} bytes were cut off",
                path.display(),
                size - end
            );
        }
        log.cut().map_err(io_error)?;
        Ok(log)
    }

    /// The offset of the next frame.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Appends frames of entries; they are durable after the next [`Log::sync`].
    ///
    /// # Errors
    /// If nothing was appended; the next call may succeed.
    pub(crate) fn append<'a>(
        &mut self,
        entries: impl IntoIterator<Item = &'a Entry>,
    ) -> io::Result<()> {
        let mut frames = Vec::new();
        let mut start = 0;
        for entry in entries {
            let len = frames.len() - start;
            if len == 0 || len + entry.bytes().len() > FRAME_BYTES_MAX - 2 * VALUE_BYTES_MAX {
                self.seal(&mut frames, start);
                start = frames.len();
                frames.extend_from_slice(&[0; HEAD_BYTES]);
            }
            frames.extend_from_slice(&(entry.bytes().len() as u32).to_be_bytes());
            frames.extend_from_slice(entry.bytes());
        }
        self.seal(&mut frames, start);
        if self.dirty {
            self.cut()?;
        }
        self.dirty = true;
        self.file.write_all(&frames)?;
        self.dirty = false;
        self.end += frames.len() as u64;
        Ok(())
    }

    /// Waits until all frames so far are on disk.
    pub(crate) fn sync(&self, disk: &dyn Disk) -> io::Result<()> {
        disk.sync(&self.file)
    }

    fn seal(&self, frames: &mut [u8], start: usize) {
        let at = self.end + start as u64;
        let Some((head, payload)) = frames[start..].split_first_chunk_mut::<HEAD_BYTES>() else {
            return;
        };
        *head = frame_head(
            self.salt,
            at,
            payload.len() as u32,
            crc32fast::hash(payload),
        );
    }

    /// Cuts off the bytes behind the last good frame.
    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.end)?;
        self.file.seek(SeekFrom::Start(self.end))?;
        self.dirty = false;
        Ok(())
    }
}

/// The path with a suffix.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn file_head(salt: [u8; SALT_BYTES]) -> [u8; FILE_HEAD_BYTES] {
    let mut head = [0; FILE_HEAD_BYTES];
    head[..MAGIC.len()].copy_from_slice(MAGIC);
    head[MAGIC.len()..][..SALT_BYTES].copy_from_slice(&salt);
    head[MAGIC.len() + SALT_BYTES..].copy_from_slice(&crc32fast::hash(&salt).to_be_bytes());
    head
}

fn frame_head(salt: [u8; SALT_BYTES], at: u64, len: u32, sum: u32) -> [u8; HEAD_BYTES] {
    let mut hasher = Hasher::new();
    hasher.update(&salt);
    hasher.update(&at.to_be_bytes());
    hasher.update(&len.to_be_bytes());
    hasher.update(&sum.to_be_bytes());
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&len.to_be_bytes());
    head[4..8].copy_from_slice(&sum.to_be_bytes());
    head[8..].copy_from_slice(&hasher.finalize().to_be_bytes());
    head
}

/// Reads frame by frame.
struct Frames<'f> {
    reader: BufReader<&'f File>,
    salt: [u8; SALT_BYTES],
    /// The offset of the next frame, or of the first bad one.
    at: u64,
    size: u64,
    payload: Vec<u8>,
}

impl Frames<'_> {
    /// Reads a frame; false at the end or at a bad frame.
    fn read(&mut self, each: &mut impl FnMut(Entry)) -> io::Result<bool> {
        let rest = self.size - self.at;
        if rest < HEAD_BYTES as u64 {
            return Ok(false);
        }
        let mut head = [0; HEAD_BYTES];
        self.reader.read_exact(&mut head)?;
        let Some((len, sum)) = self.check(&head, self.at) else {
            return Ok(false);
        };
        if u64::from(len) > rest - HEAD_BYTES as u64 || len as usize > FRAME_BYTES_MAX {
            return Ok(false);
        }
        self.payload.resize(len as usize, 0);
        self.reader.read_exact(&mut self.payload)?;
        if crc32fast::hash(&self.payload) != sum || read_entries(&self.payload, each).is_none() {
            return Ok(false);
        }
        self.at += HEAD_BYTES as u64 + u64::from(len);
        Ok(true)
    }

    /// The offset of the next good head behind the first bad frame.
    fn next_head(&mut self) -> io::Result<Option<u64>> {
        let mut rest = Vec::new();
        self.reader.seek(SeekFrom::Start(self.at))?;
        self.reader.read_to_end(&mut rest)?;
        let mut heads = rest.windows(HEAD_BYTES).enumerate().skip(1);
        Ok(heads.find_map(|(offset, head)| {
            let at = self.at + offset as u64;
            let head = head.first_chunk().expect("windows are as long");
            self.check(head, at).map(|_| at)
        }))
    }

    /// The length and the checksum in a head; none if it is not a head.
    fn check(&self, head: &[u8; HEAD_BYTES], at: u64) -> Option<(u32, u32)> {
        let number =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (len, sum) = (number(0), number(4));
        (frame_head(self.salt, at, len, sum) == *head).then_some((len, sum))
    }
}

fn read_entries(mut payload: &[u8], each: &mut impl FnMut(Entry)) -> Option<()> {
    while let Some((len, rest)) = payload.split_first_chunk() {
        let (entry, rest) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
        each(Entry::from_bytes(entry)?);
        payload = rest;
    }
    payload.is_empty().then_some(())
}
