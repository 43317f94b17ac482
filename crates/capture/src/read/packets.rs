//! Reads packets from pcap and pcapng files, and skips damaged places.

use std::{fmt, io, io::Read, time::Duration};

use pcap_parser::Linktype;

use super::records::{Format, RECORD_BYTES_MAX, Record, SNAP_LENGTH_MAX};

/// After a damaged place, two neighbouring packets are at most this far apart.
const STEP_AFTER_DAMAGE: Duration = Duration::from_secs(86_400);
const BUFFER_BYTES: usize = 1 << 20;

/// A packet as it was captured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    /// The number of the packet, from 1, as capture tools count.
    pub(crate) number: u64,
    /// The offset in the file at which it ends.
    pub(crate) end: u64,
    /// Since the epoch of the capture's clock.
    pub(crate) time: Duration,
    pub(crate) link: Linktype,
    pub(crate) data: &'a [u8],
    /// Whether the snap length cut it.
    pub(crate) is_cut: bool,
}

/// The next item of a capture.
#[derive(Debug)]
pub(crate) enum Item<'a> {
    Packet(Packet<'a>),
    /// Bytes that are not a record; the next packet follows them.
    Damage,
    /// The capture ends within a record.
    Cut,
    /// The end of the capture.
    End,
}

/// Why a file cannot be read as a capture.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The source failed.
    Read(io::Error),
    /// The file is empty.
    Empty,
    /// The file is compressed.
    Compressed,
    /// The file does not begin like a capture.
    NoCapture,
}

/// The packets of a capture.
#[derive(Debug)]
pub(crate) struct Packets<R> {
    source: Source<R>,
    format: Format,
    number: u64,
    /// The time of the last packet.
    time: Option<Duration>,
}

#[derive(Debug)]
struct Source<R> {
    read: R,
    buffer: Vec<u8>,
    /// The used part of the buffer.
    used: usize,
    /// The offset in the source at which the buffer begins.
    begin: u64,
    is_exhausted: bool,
}

impl<R: Read> Packets<R> {
    /// Reads the capture's header.
    pub(crate) fn open(read: R) -> Result<Self, OpenError> {
        let mut source = Source {
            read,
            buffer: Vec::new(),
            used: 0,
            begin: 0,
            is_exhausted: false,
        };
        source.fill(BUFFER_BYTES).map_err(OpenError::Read)?;
        let bytes = source.unread();
        let (format, length) = match bytes {
            [] => return Err(OpenError::Empty),
            [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => return Err(OpenError::Compressed),
            _ => Format::of(bytes).ok_or(OpenError::NoCapture)?,
        };
        source.used = length;
        Ok(Self {
            source,
            format,
            number: 0,
            time: None,
        })
    }

    /// Returns the next item.
    pub(crate) fn next(&mut self) -> io::Result<Item<'_>> {
        loop {
            match self.format.read(self.source.unread()) {
                Record::Packet {
                    time,
                    link,
                    data,
                    is_cut,
                    length,
                } => {
                    let at = self.source.used;
                    self.source.used += length;
                    self.number += 1;
                    self.time = Some(time);
                    return Ok(Item::Packet(Packet {
                        number: self.number,
                        end: self.source.position(),
                        time,
                        link,
                        data: &self.source.buffer[at + data.start..at + data.end],
                        is_cut,
                    }));
                }
                Record::Other { length } => {
                    self.format.learn(self.source.unread());
                    self.source.used += length;
                }
                Record::Incomplete if !self.source.is_exhausted => self.source.extend()?,
                Record::Incomplete if self.source.unread().is_empty() => return Ok(Item::End),
                // What looks like a record beyond the end may be damage in the middle.
                Record::Incomplete => {
                    return Ok(match self.find_record()? {
                        true => Item::Damage,
                        false => Item::Cut,
                    });
                }
                Record::Damaged => {
                    self.find_record()?;
                    return Ok(Item::Damage);
                }
            }
        }
    }

    /// Skips to the next place that looks like a record; false at the end.
    fn find_record(&mut self) -> io::Result<bool> {
        self.source.used += 1;
        loop {
            self.source.fill(BUFFER_BYTES)?;
            let unread = self.source.unread();
            let found = (0..unread.len()).find(|&at| self.looks_right(&unread[at..]));
            if let Some(at) = found {
                self.source.used += at;
                return Ok(true);
            }
            if self.source.is_exhausted {
                self.source.used = self.source.buffer.len();
                return Ok(false);
            }
            // A record at the end of the buffer shows its end only with what follows it.
            self.source.used += unread.len().saturating_sub(SNAP_LENGTH_MAX as usize).max(1);
        }
    }

    /// Whether the bytes begin with a packet that is followed by another packet or by the end.
    fn looks_right(&self, bytes: &[u8]) -> bool {
        let Record::Packet { time, length, .. } = self.format.read(bytes) else {
            return false;
        };
        let near = |time: Duration, other: Duration| time.abs_diff(other) <= STEP_AFTER_DAMAGE;
        if !self.time.is_none_or(|last| near(last, time)) {
            return false;
        }
        match self.format.read(&bytes[length..]) {
            Record::Packet { time: next, .. } => near(time, next),
            Record::Other { .. } => true,
            Record::Incomplete => length == bytes.len() && self.source.is_exhausted,
            Record::Damaged => false,
        }
    }
}

impl<R: Read> Source<R> {
    fn unread(&self) -> &[u8] {
        &self.buffer[self.used..]
    }

    /// The offset in the source at which the unread bytes begin.
    fn position(&self) -> u64 {
        self.begin + self.used as u64
    }

    /// Reads more bytes; false if the source has none left.
    fn extend(&mut self) -> io::Result<()> {
        let unread = self.unread().len();
        self.fill((2 * unread).clamp(BUFFER_BYTES, 2 * RECORD_BYTES_MAX))
    }

    /// Reads until there are this many unread bytes; false if the source has fewer.
    fn fill(&mut self, unread: usize) -> io::Result<()> {
        if self.unread().len() >= unread {
            return Ok(());
        }
        self.begin = self.position();
        self.buffer.drain(..self.used);
        self.used = 0;
        let missing = (unread - self.buffer.len()) as u64;
        let taken = self
            .read
            .by_ref()
            .take(missing)
            .read_to_end(&mut self.buffer)?;
        self.is_exhausted = (taken as u64) < missing;
        Ok(())
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "can't read the file: {error}"),
            Self::Empty => write!(f, "the file is empty: the capture wrote nothing"),
            Self::Compressed => write!(
                f,
                "the file is compressed: unpack it first (gunzip, unzstd)"
            ),
            Self::NoCapture => write!(f, "the file is neither pcap nor pcapng: name a capture"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            Self::Empty | Self::Compressed | Self::NoCapture => None,
        }
    }
}
