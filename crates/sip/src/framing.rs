//! Where a stream's messages begin and end.

use crate::{
    HeaderName, MESSAGE_BYTES_MAX, StartLine,
    scan::seek,
    text::{digits, find, is_token_text, trim},
};

/// What one message of a stream may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// The most bytes of the start line, the headers and the empty line behind them.
    pub head_bytes: usize,
    /// The most bytes of a message with its body. More than [`MESSAGE_BYTES_MAX`] counts as that.
    pub message_bytes: usize,
}

/// Why a stream can't be read any further. The connection must be closed, as nobody can tell where
/// the next message begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameFault {
    /// What should be a message does not begin as one.
    NotSip,
    /// The headers don't end within [`FrameLimits::head_bytes`].
    HeadTooLong,
    /// The message is longer than [`FrameLimits::message_bytes`].
    MessageTooLong,
    /// There is no Content-Length, which streams need (RFC 3261 §18.3).
    NoLength,
    /// Content-Length is not a number.
    BadLength,
    /// There are two Content-Lengths, and they differ.
    TwoLengths,
}

impl FrameFault {
    /// Every variant, in the order of declaration, so that `fault as usize` is its index.
    pub const ALL: [Self; 6] = [
        Self::NotSip,
        Self::HeadTooLong,
        Self::MessageTooLong,
        Self::NoLength,
        Self::BadLength,
        Self::TwoLengths,
    ];

    /// A short label for counters.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::NotSip => "not_sip",
            Self::HeadTooLong => "head_too_long",
            Self::MessageTooLong => "message_too_long",
            Self::NoLength => "no_length",
            Self::BadLength => "bad_length",
            Self::TwoLengths => "two_lengths",
        }
    }

    /// The status code of the answer to a request.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::HeadTooLong | Self::MessageTooLong => 513,
            Self::NotSip | Self::NoLength | Self::BadLength | Self::TwoLengths => 400,
        }
    }

    /// The reason phrase of the answer to a request.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotSip => "Bad Request",
            Self::HeadTooLong | Self::MessageTooLong => "Message Too Large",
            Self::NoLength => "Missing Content-Length",
            Self::BadLength | Self::TwoLengths => "Bad Content-Length",
        }
    }
}

/// What the unread bytes of a stream begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// No whole message: these bytes are to be shown again with at least `missing` more behind them.
    Partial {
        /// How many bytes are missing; 1 if nobody knows.
        missing: usize,
    },
    /// Line ends between messages.
    LineEnds {
        /// How many bytes they are.
        bytes: usize,
        /// How many keep-alives end in them: double CRLFs, whose sender waits for a CRLF
        /// (RFC 5626 §4.4.1).
        pings: usize,
    },
    /// A message.
    Message(&'a [u8]),
    /// Something that can't be read. All later bytes are the same fault.
    Fault {
        /// What is wrong.
        fault: FrameFault,
        /// The message up to the empty line behind its headers, so that a request can be answered;
        /// empty if the headers have no end.
        head: &'a [u8],
    },
}

/// Finds the messages in a stream's bytes by Content-Length (RFC 3261 §18.3).
///
/// It keeps no bytes, but remembers how far it has looked. So a sender of single bytes costs no more
/// than another. What it finds does not depend on how the bytes arrive.
///
/// ```
/// use sip::{Frame, FrameLimits, Framer};
///
/// let mut framer = Framer::new(FrameLimits { head_bytes: 8_192, message_bytes: 65_535 });
/// let stream = b"\r\n\r\nSIP/2.0 200 OK\r\nl: 2\r\n\r\nhiSIP/2.0 1";
/// assert_eq!(framer.next(stream), Frame::LineEnds { bytes: 4, pings: 1 });
/// let message = b"SIP/2.0 200 OK\r\nl: 2\r\n\r\nhi";
/// assert_eq!(framer.next(&stream[4..]), Frame::Message(message));
/// let rest = &stream[4 + message.len()..];
/// assert_eq!(framer.next(rest), Frame::Partial { missing: 1 });
/// ```
#[derive(Clone, Debug)]
pub struct Framer {
    limits: FrameLimits,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Between {
        /// How many bytes of a double CRLF have come.
        line_ends: u8,
    },
    Head(Head),
    Body {
        /// The bytes of the whole message.
        whole: usize,
    },
    Failed(FrameFault),
}

/// A head that is being looked through.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    /// Where the line begins that has no end yet.
    line: usize,
    /// Where its end has to be looked for.
    seen: usize,
    /// What the Content-Lengths say.
    length: Option<Result<u32, FrameFault>>,
}

impl Framer {
    /// A framer for a stream of which nothing has been read.
    #[must_use]
    pub fn new(limits: FrameLimits) -> Self {
        let message_bytes = limits.message_bytes.min(MESSAGE_BYTES_MAX);
        Self {
            limits: FrameLimits {
                head_bytes: limits.head_bytes.min(message_bytes),
                message_bytes,
            },
            state: State::Between { line_ends: 0 },
        }
    }

    /// Whether the stream has begun a message and not ended it.
    #[must_use]
    pub const fn is_within(&self) -> bool {
        matches!(self.state, State::Head(_) | State::Body { .. })
    }

    /// Says what the unread bytes begin with. A message and line ends count as read afterwards, so
    /// that the next call is for the bytes behind them.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Frame<'a> {
        loop {
            match self.state {
                State::Between { line_ends } => match bytes.first() {
                    None => return Frame::Partial { missing: 1 },
                    Some(b'\r' | b'\n') => return self.line_ends(bytes, line_ends),
                    Some(first) if is_token_text(&[*first]) => {
                        self.state = State::Head(Head::default());
                    }
                    Some(_) => return self.fail(FrameFault::NotSip, &[]),
                },
                State::Head(mut head) => {
                    let window = &bytes[..bytes.len().min(self.limits.head_bytes)];
                    match head.look(window) {
                        Ok(Some(end)) => match self.whole(&head, end) {
                            Ok(whole) => self.state = State::Body { whole },
                            Err(fault) => return self.fail(fault, &bytes[..end]),
                        },
                        Ok(None) if window.len() < self.limits.head_bytes => {
                            self.state = State::Head(head);
                            return Frame::Partial { missing: 1 };
                        }
                        Ok(None) => return self.fail(FrameFault::HeadTooLong, &[]),
                        Err(fault) => return self.fail(fault, &[]),
                    }
                }
                State::Body { whole } => {
                    let Some(message) = bytes.get(..whole) else {
                        let missing = whole - bytes.len();
                        return Frame::Partial { missing };
                    };
                    self.state = State::Between { line_ends: 0 };
                    return Frame::Message(message);
                }
                State::Failed(fault) => return Frame::Fault { fault, head: &[] },
            }
        }
    }

    fn line_ends<'a>(&mut self, bytes: &[u8], mut line_ends: u8) -> Frame<'a> {
        let end = seek(bytes, |block| !(block.is(b'\r') | block.is(b'\n')));
        let mut pings = 0;
        for &byte in &bytes[..end] {
            line_ends = match (byte, line_ends) {
                (b'\r', 0 | 2) => line_ends + 1,
                (b'\n', 1) => 2,
                (b'\n', 3) => {
                    pings += 1;
                    0
                }
                (b'\r', _) => 1,
                _ => 0,
            };
        }
        self.state = State::Between { line_ends };
        Frame::LineEnds { bytes: end, pings }
    }

    /// The bytes of the message whose head ends there.
    fn whole(&self, head: &Head, end: usize) -> Result<usize, FrameFault> {
        let length = head.length.ok_or(FrameFault::NoLength)??;
        let whole = usize::try_from(length).map_or(usize::MAX, |length| end.saturating_add(length));
        if whole > self.limits.message_bytes {
            return Err(FrameFault::MessageTooLong);
        }
        Ok(whole)
    }

    fn fail<'a>(&mut self, fault: FrameFault, head: &'a [u8]) -> Frame<'a> {
        self.state = State::Failed(fault);
        Frame::Fault { fault, head }
    }
}

impl Head {
    /// Looks for the empty line in what has not been seen; returns where the head ends, if it does.
    fn look(&mut self, bytes: &[u8]) -> Result<Option<usize>, FrameFault> {
        while let Some(length) = find(&bytes[self.seen..], b'\n') {
            let end = self.seen + length + 1;
            if self.line == 0 {
                read_start_line(&bytes[..end])?;
                self.line = end;
            }
            let empty_line = match &bytes[end..] {
                // What comes next decides.
                [] | [b'\r'] => {
                    self.seen = end - 1;
                    return Ok(None);
                }
                // The next line continues this one.
                [b' ' | b'\t', ..] if self.line < end => {
                    self.seen = end;
                    continue;
                }
                [b'\n', ..] => Some(1),
                [b'\r', b'\n', ..] => Some(2),
                _ => None,
            };
            self.read_header(&bytes[self.line..end]);
            (self.line, self.seen) = (end, end);
            if let Some(length) = empty_line {
                return Ok(Some(end + length));
            }
        }
        self.seen = bytes.len();
        Ok(None)
    }

    /// Reads a header field with its continuation lines.
    fn read_header(&mut self, line: &[u8]) {
        if let [b'c' | b'C' | b'l' | b'L', ..] = line
            && let Some(length) = content_length(line)
        {
            self.length = Some(match (self.length, length) {
                (Some(Err(fault)), _) => Err(fault),
                (Some(Ok(one)), Ok(other)) if one != other => Err(FrameFault::TwoLengths),
                (_, length) => length,
            });
        }
    }
}

fn read_start_line(line: &[u8]) -> Result<(), FrameFault> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match StartLine::parse(line) {
        Ok(_) => Ok(()),
        Err(_) => Err(FrameFault::NotSip),
    }
}

/// The value of a Content-Length; none in another header field. What does not fit is as much as does.
fn content_length(line: &[u8]) -> Option<Result<u32, FrameFault>> {
    let colon = seek(line, |block| block.is(b':') | block.is(b'\n'));
    let name = line[..colon].trim_ascii_end();
    if HeaderName::from_bytes(name)? != HeaderName::ContentLength || line[colon] != b':' {
        return None;
    }
    let value = trim(&line[colon + 1..]);
    Some(match digits(value) {
        (length, []) if !value.is_empty() => Ok(length.unwrap_or(u32::MAX)),
        _ => Err(FrameFault::BadLength),
    })
}
