//! Reads SIP messages from TCP streams (RFC 3261 §18.3), and skips gaps.

use std::{fmt, net::SocketAddr};

use etherparse::TcpSlice;
use sip::{HeaderName, MESSAGE_BYTES_MAX, Message};

use super::Map;

/// The most header fields of a message.
pub(crate) const HEADERS_MAX: usize = 256;
/// The most segments per direction that wait for an earlier one.
const SEGMENTS_MAX: usize = 64;
const STREAMS_MAX: usize = 65_536;

/// Reads connections that are encrypted.
pub trait Decipher: fmt::Debug {
    /// Takes the next bytes from one end of a connection to the other. Appends what they say to `plain`; returns how
    /// many of them are read, as the rest may not be whole. None: they can't be read.
    fn take(
        &mut self,
        ends: (SocketAddr, SocketAddr),
        bytes: &[u8],
        plain: &mut Vec<u8>,
    ) -> Option<usize>;
}

/// The directions of all connections.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: Map<(SocketAddr, SocketAddr), Stream>,
    segments: u64,
}

/// The result of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// A complete message.
    Message(&'a [u8]),
    /// Bytes are missing from the capture.
    Gap,
    /// The rest of the direction can't be read, as it is encrypted.
    Sealed,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Stream {
    /// The sequence number of the next byte.
    next: Option<u32>,
    /// The bytes that do not make a complete message yet.
    bytes: Vec<u8>,
    /// Segments that arrived too early.
    early: Vec<(u32, Vec<u8>)>,
    /// The number of the last segment.
    used: u64,
    state: Content,
    /// What it says in clear, if it is encrypted.
    plain: Option<Box<Self>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Content {
    /// The content is unknown.
    #[default]
    New,
    /// It carries SIP.
    Sip,
    /// The next bytes are within a message; the next start line ends it.
    Lost,
    /// It carries something else.
    Foreign,
}

impl Streams {
    /// Takes a segment and returns the messages that it completes.
    pub(crate) fn take(
        &mut self,
        ends: (SocketAddr, SocketAddr),
        segment: &TcpSlice<'_>,
        decipher: Option<&mut (dyn Decipher + 'static)>,
        give: &mut impl FnMut(Piece<'_>),
    ) {
        self.segments += 1;
        if self.streams.len() >= STREAMS_MAX && !self.streams.contains_key(&ends) {
            self.forget_oldest();
        }
        let stream = self.streams.entry(ends).or_default();
        stream.used = self.segments;
        let mut sequence = segment.sequence_number();
        if segment.syn() {
            sequence = sequence.wrapping_add(1);
            *stream = Stream {
                next: Some(sequence),
                used: self.segments,
                ..Stream::default()
            };
        }
        if stream.state != Content::Foreign && !segment.payload().is_empty() {
            stream.take(sequence, segment.payload(), give);
            if let Some(decipher) = decipher
                && stream.is_encrypted()
            {
                stream.decipher(ends, decipher, give);
            } else {
                stream.give_messages(give);
            }
        }
        if segment.rst() || segment.fin() {
            self.streams.remove(&ends);
        }
    }

    fn forget_oldest(&mut self) {
        let mut used: Vec<u64> = self.streams.values().map(|stream| stream.used).collect();
        let (_, &mut median, _) = used.select_nth_unstable(STREAMS_MAX / 2);
        self.streams.retain(|_, stream| stream.used > median);
    }
}

impl Stream {
    fn take(&mut self, sequence: u32, payload: &[u8], give: &mut impl FnMut(Piece<'_>)) {
        let next = *self.next.get_or_insert(sequence);
        // Half of the sequence numbers are before any, and half behind (RFC 9293 §3.4).
        let ahead = sequence.wrapping_sub(next) as i32;
        if ahead > 0 {
            self.early.push((sequence, payload.to_vec()));
            if self.early.len() <= SEGMENTS_MAX {
                return;
            }
            self.skip_gap();
            give(Piece::Gap);
        } else {
            self.append(sequence, payload);
        }
        self.append_early();
    }

    fn is_encrypted(&self) -> bool {
        let begins = self.state == Content::New && is_tls(&self.bytes);
        self.plain.is_some() || begins
    }

    fn decipher(
        &mut self,
        ends: (SocketAddr, SocketAddr),
        decipher: &mut dyn Decipher,
        give: &mut impl FnMut(Piece<'_>),
    ) {
        let plain = self.plain.get_or_insert_default();
        // What is missing makes the rest unreadable.
        let is_whole = self.state == Content::New;
        let read = is_whole.then(|| decipher.take(ends, &self.bytes, &mut plain.bytes));
        plain.give_messages(give);
        if let Some(read) = read.flatten() {
            self.bytes.drain(..read);
        } else {
            give(Piece::Sealed);
            *self = Self {
                state: Content::Foreign,
                used: self.used,
                ..Self::default()
            };
        }
    }

    /// Adds the new part of the bytes.
    fn append(&mut self, sequence: u32, payload: &[u8]) {
        let next = self.next.unwrap_or(sequence);
        let seen = next.wrapping_sub(sequence) as usize;
        if let Some(new) = payload.get(seen..) {
            self.bytes.extend_from_slice(new);
            self.next = Some(next.wrapping_add(new.len() as u32));
        }
    }

    fn append_early(&mut self) {
        let fits = |next: u32, sequence: u32| sequence.wrapping_sub(next) as i32 <= 0;
        while let Some(next) = self.next
            && let Some(at) = self
                .early
                .iter()
                .position(|(sequence, _)| fits(next, *sequence))
        {
            let (sequence, payload) = self.early.swap_remove(at);
            self.append(sequence, &payload);
        }
    }

    /// Continues behind the missing bytes.
    fn skip_gap(&mut self) {
        let next = self.next.unwrap_or_default();
        let nearest = self.early.iter().map(|(sequence, _)| *sequence);
        self.next = nearest.min_by_key(|sequence| sequence.wrapping_sub(next));
        self.bytes.clear();
        self.state = Content::Lost;
    }

    fn give_messages(&mut self, give: &mut impl FnMut(Piece<'_>)) {
        let mut used = 0;
        loop {
            let bytes = &self.bytes[used..];
            used += bytes
                .iter()
                .take_while(|byte| matches!(byte, b'\r' | b'\n'))
                .count();
            let bytes = &self.bytes[used..];
            match Head::of(bytes) {
                Head::Whole { length } if length > MESSAGE_BYTES_MAX => {
                    self.state = Content::Lost;
                    used += 1;
                }
                Head::Whole { length } => {
                    self.state = Content::Sip;
                    let Some(message) = bytes.get(..length) else {
                        break;
                    };
                    give(Piece::Message(message));
                    used += length;
                }
                Head::Partial => break,
                Head::Foreign if self.state == Content::New => {
                    *self = Self {
                        state: Content::Foreign,
                        used: self.used,
                        ..Self::default()
                    };
                    return;
                }
                Head::Foreign => {
                    if self.state == Content::Sip {
                        give(Piece::Gap);
                    }
                    self.state = Content::Lost;
                    used += next_line(bytes);
                }
            }
        }
        self.bytes.drain(..used);
    }
}

/// The kind of some first bytes.
enum Head {
    /// The start line and headers of a message, with the length of the whole message.
    Whole { length: usize },
    /// Perhaps a message.
    Partial,
    /// Not a start line.
    Foreign,
}

impl Head {
    fn of(bytes: &[u8]) -> Self {
        let line = bytes
            .split(|&byte| byte == b'\n')
            .next()
            .unwrap_or_default();
        let is_whole_line = line.len() < bytes.len();
        if !is_start_line(line, is_whole_line) {
            return Self::Foreign;
        }
        let end = sip_head_end(bytes);
        match end.and_then(|end| Some((end, Message::parse(&bytes[..end], HEADERS_MAX).ok()?))) {
            Some((end, message)) => {
                let body = message.header(HeaderName::ContentLength);
                let body = body.and_then(|text| str::from_utf8(text).ok()?.parse().ok());
                Self::Whole {
                    length: end.saturating_add(body.unwrap_or(0)),
                }
            }
            None if end.is_some() || bytes.len() > MESSAGE_BYTES_MAX => Self::Foreign,
            None => Self::Partial,
        }
    }
}

/// Whether the bytes begin like a TLS handshake's record.
pub(crate) fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [0x16, 3, ..])
}

/// Whether the bytes are a start line, or can become one.
fn is_start_line(line: &[u8], is_whole: bool) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let status = b"SIP/2.0 ";
    if is_whole {
        return line.starts_with(status) || line.ends_with(b" SIP/2.0");
    }
    let is_method = |byte: &u8| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_');
    let method = line.iter().take_while(|byte| is_method(byte)).count();
    let may_be_request = method < 32 && matches!(line.get(method), None | Some(b' '));
    may_be_request || line.starts_with(status) || status.starts_with(line)
}

/// The offset of the body.
fn sip_head_end(bytes: &[u8]) -> Option<usize> {
    bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .map(|at| at + 4)
}

/// The offset behind the first line.
fn next_line(bytes: &[u8]) -> usize {
    let end = bytes.iter().position(|&byte| byte == b'\n');
    end.map_or(bytes.len(), |at| at + 1)
}
