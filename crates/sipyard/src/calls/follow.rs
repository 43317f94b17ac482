//! Reads the files of call records as they grow and take turns.

use std::{
    fmt,
    fs::{self, File, Metadata},
    io::{self, BufRead as _, BufReader},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::PathBuf,
    str::FromStr,
};

use sha2::{Digest as _, Sha256};

use super::records::numbered;

/// Of so many bytes, and so many lines, is a batch at most.
const BATCH: (usize, usize) = (1 << 20, 1_000);

/// How far the files are read. It is known by what it says, not by its name: files are renamed and copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The hash of the file's first line.
    file: u64,
    offset: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}:{}", self.file, self.offset)
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (file, offset) = text.split_once(':').ok_or(())?;
        Ok(Self {
            file: u64::from_str_radix(file, 16).map_err(drop)?,
            offset: offset.parse().map_err(drop)?,
        })
    }
}

/// The file that is written now, if any, and how long it is as far as whole batches go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct End {
    pub(super) inode: u64,
    pub(super) length: u64,
}

/// Whole lines.
#[derive(Debug)]
pub(super) struct Batch {
    lines: Vec<u8>,
    /// Where the next one begins.
    pub(super) next: Place,
}

impl Batch {
    pub(super) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let lines = self.lines.split(|&byte| byte == b'\n');
        lines.filter(|line| !line.is_empty())
    }
}

/// Reads the files of one path, the oldest first.
#[derive(Debug)]
pub(super) struct Follower {
    path: PathBuf,
    files: usize,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    inode: u64,
    place: Place,
}

impl Open {
    /// None: it has no whole line yet, or is not there.
    fn new(path: PathBuf, offset: u64) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut line = Vec::new();
        BufReader::new(&file).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Ok(None);
        }
        let hash = Sha256::digest(&line);
        let (first, _) = hash.split_first_chunk().expect("a hash has 32 bytes");
        let metadata = file.metadata()?;
        Ok(Some(Self {
            inode: metadata.ino(),
            file,
            place: Place {
                file: u64::from_be_bytes(*first),
                offset: offset.min(metadata.len()),
            },
        }))
    }

    /// What is whole from here on; `None`: nothing more.
    fn read(&self, end: End) -> io::Result<Option<Batch>> {
        let length = match end.inode == self.inode {
            true => end.length,
            false => self.file.metadata()?.len(),
        };
        let rest = usize::try_from(length.saturating_sub(self.place.offset)).unwrap_or(usize::MAX);
        let mut size = BATCH.0;
        loop {
            let mut lines = vec![0; rest.min(size)];
            let count = self.file.read_at(&mut lines, self.place.offset)?;
            lines.truncate(count);
            let ends = lines.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
            if let Some((last, _)) = ends.take(BATCH.1).last() {
                lines.truncate(last + 1);
                let next = Place {
                    offset: self.place.offset + lines.len() as u64,
                    ..self.place
                };
                return Ok(Some(Batch { lines, next }));
            }
            if rest <= size {
                return Ok(None);
            }
            size *= 2;
        }
    }
}

impl Follower {
    /// Reads from the beginning of the oldest file.
    pub(super) fn new(path: PathBuf, files: usize) -> Self {
        Self {
            path,
            files,
            open: None,
        }
    }

    /// Goes on at a place. False: its file is not there, and it begins with the oldest one.
    pub(super) fn go_on(&mut self, place: Place) -> io::Result<bool> {
        self.open = None;
        for number in (0..self.files).rev() {
            let open = Open::new(numbered(&self.path, number), place.offset)?;
            self.open = open.filter(|open| open.place.file == place.file);
            if self.open.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next lines, which it gives until [`Self::go_to`] says that they are done. `None`: no more for now.
    pub(super) fn next(&mut self, end: End) -> io::Result<Option<Batch>> {
        loop {
            if let Some(open) = &self.open
                && let Some(batch) = open.read(end)?
            {
                return Ok(Some(batch));
            }
            match self.newer()? {
                Some(newer) => self.open = Some(newer),
                None => return Ok(None),
            }
        }
    }

    pub(super) fn go_to(&mut self, place: Place) {
        if let Some(open) = &mut self.open {
            open.place = place;
        }
    }

    /// The file after this one, or the oldest.
    fn newer(&self) -> io::Result<Option<Open>> {
        let path = |number: usize| numbered(&self.path, number);
        let there = (0..self.files).map(|number| fs::metadata(path(number)).ok());
        let there: Vec<_> = there.collect();
        let number = match &self.open {
            Some(open) => newer_than(&open.file.metadata()?, &there),
            None => there.iter().rposition(Option::is_some),
        };
        match number {
            Some(number) => Open::new(path(number), 0),
            None => Ok(None),
        }
    }
}

/// Which file comes after this one. If it is not there any more, the oldest that was written later: it may have been
/// moved away.
fn newer_than(ours: &Metadata, there: &[Option<Metadata>]) -> Option<usize> {
    let is_ours =
        |other: &Option<Metadata>| other.as_ref().is_some_and(|it| it.ino() == ours.ino());
    let written = |of: &Metadata| (of.mtime(), of.mtime_nsec());
    let is_later = |other: &&Option<Metadata>| {
        other
            .as_ref()
            .is_some_and(|it| written(it) >= written(ours))
    };
    match there.iter().position(is_ours) {
        Some(number) => there[..number].iter().rposition(Option::is_some),
        None => there.iter().take_while(is_later).count().checked_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::OpenOptions, io::Write as _, path::Path};

    use super::*;

    fn write(path: &Path, lines: &str) -> End {
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).open(path).unwrap();
        file.write_all(lines.as_bytes()).unwrap();
        let metadata = file.metadata().unwrap();
        End {
            inode: metadata.ino(),
            length: metadata.len(),
        }
    }

    fn read(follower: &mut Follower, end: End) -> Vec<String> {
        let mut read = Vec::new();
        while let Some(batch) = follower.next(end).unwrap() {
            let text = |line: &[u8]| String::from_utf8(line.to_vec()).unwrap();
            read.extend(batch.lines().map(text));
            follower.go_to(batch.next);
        }
        read
    }

    /// One file after the other, though they are renamed in between; what is not whole waits.
    #[test]
    fn each_line_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        let mut follower = Follower::new(path.clone(), 3);
        assert!(
            read(
                &mut follower,
                End {
                    inode: 0,
                    length: 0
                }
            )
            .is_empty()
        );
        let mut end = write(&path, "a\nb\n");
        assert_eq!(read(&mut follower, end), ["a", "b"]);
        end.length = write(&path, "c\nd").length - 3;
        assert!(read(&mut follower, end).is_empty());
        end = write(&path, "\n");
        fs::rename(&path, numbered(&path, 1)).unwrap();
        assert_eq!(read(&mut follower, end), ["c", "d"]);
        write(&path, "e\n");
        fs::rename(numbered(&path, 1), numbered(&path, 2)).unwrap();
        fs::rename(&path, numbered(&path, 1)).unwrap();
        end = write(&path, "f\n");
        assert_eq!(read(&mut follower, end), ["e", "f"]);
    }

    #[test]
    fn a_place_is_found_again_wherever_its_file_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        write(&numbered(&path, 1), "a\nb\n");
        let end = write(&path, "c\nd\n");
        let mut follower = Follower::new(path.clone(), 3);
        let batch = follower.next(end).unwrap().unwrap();
        let place: Place = batch.next.to_string().parse().unwrap();
        assert_eq!(place, batch.next);
        fs::rename(numbered(&path, 1), numbered(&path, 2)).unwrap();
        let mut other = Follower::new(path.clone(), 3);
        assert!(other.go_on(place).unwrap());
        assert_eq!(read(&mut other, end), ["c", "d"]);
        fs::remove_file(numbered(&path, 2)).unwrap();
        assert!(!other.go_on(place).unwrap());
    }

    /// Who moves the file that is written reads it himself: it is read to its end, and none of the older ones again.
    #[test]
    fn a_file_that_was_moved_away_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        write(&numbered(&path, 1), "a\n");
        let mut follower = Follower::new(path.clone(), 3);
        let end = write(&path, "b\nc\n");
        assert_eq!(read(&mut follower, end), ["a", "b", "c"]);
        let end = write(&path, "d\n");
        fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        assert_eq!(read(&mut follower, end), ["d"]);
        let end = write(&path, "e\n");
        assert_eq!(read(&mut follower, end), ["e"]);
    }

    #[test]
    fn batches_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        let long = "x".repeat(3 * BATCH.0);
        let end = write(
            &path,
            &format!("{}{long}\nlast\n", "a\n".repeat(BATCH.1 + 1)),
        );
        let mut follower = Follower::new(path, 1);
        let mut counts = Vec::new();
        while let Some(batch) = follower.next(end).unwrap() {
            counts.push(batch.lines().count());
            follower.go_to(batch.next);
        }
        assert_eq!(counts, [BATCH.1, 1, 2]);
    }
}
