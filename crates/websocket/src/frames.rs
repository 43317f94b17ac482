//! Frames after the handshake.

use std::io::{self, ErrorKind, Read, Write};

use stream::{Said, Why};
use tungstenite::{
    Message,
    error::{CapacityError, Error},
    protocol::{CloseFrame, Role, WebSocketConfig, WebSocketContext, frame::coding::CloseCode},
};

/// What tungstenite keeps of memory for each connection.
const READ_BYTES: usize = 1024;

/// The frames of one WebSocket.
#[derive(Debug)]
pub(crate) struct Frames {
    context: WebSocketContext,
    message_bytes: usize,
    /// The bytes of the frames of a message whose last frame has not come.
    fragments: usize,
}

/// Why there are no more frames.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) why: Why,
    pub(crate) detail: Option<String>,
}

impl Frames {
    pub(crate) fn new(role: Role, message_bytes: usize) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(0)
            .max_message_size(Some(message_bytes))
            .max_frame_size(Some(message_bytes));
        Self {
            context: WebSocketContext::new(role, Some(config)),
            message_bytes,
            fragments: 0,
        }
    }

    pub(crate) const fn held_bytes(&self) -> usize {
        self.fragments
    }

    /// Takes the whole frames that the bytes begin with, and returns how many bytes they are. Answers to pings and to a
    /// close are appended to `out`.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        heard: &mut impl FnMut(Said<'_>),
    ) -> Result<usize, End> {
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            let Some(length) = length(rest) else {
                return Ok(taken);
            };
            if length > self.message_bytes as u64 + HEADER_BYTES_MAX {
                let size = self.message_bytes;
                let error = CapacityError::MessageTooLong {
                    size: usize::try_from(length).unwrap_or(usize::MAX),
                    max_size: size,
                };
                return Err(self.fail(&Error::Capacity(error), out));
            }
            let Some(frame) = rest.get(..length as usize) else {
                return Ok(taken);
            };
            self.note(frame);
            self.feed(frame, out, heard)?;
            taken += frame.len();
        }
    }

    /// Appends a message as a frame: text, if it is.
    pub(crate) fn send(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), Why> {
        let frame = match str::from_utf8(message) {
            Ok(text) => Message::text(text),
            Err(_) => Message::binary(message.to_vec()),
        };
        let written = self.context.write(&mut Pipe { input: &[], out }, frame);
        written.map_err(|_| Why::WebSocket)
    }

    /// Appends a farewell, if there was none.
    pub(crate) fn close(&mut self, code: CloseCode, out: &mut Vec<u8>) {
        let reason = "".into();
        let frame = CloseFrame { code, reason };
        // It is an error that the connection is closed already: then nothing has to be said.
        let mut pipe = Pipe { input: &[], out };
        _ = self.context.close(&mut pipe, Some(frame));
    }

    fn feed(
        &mut self,
        frame: &[u8],
        out: &mut Vec<u8>,
        heard: &mut impl FnMut(Said<'_>),
    ) -> Result<(), End> {
        let mut pipe = Pipe { input: frame, out };
        loop {
            match self.context.read(&mut pipe) {
                Ok(Message::Text(text)) => heard(Said::Message(text.as_bytes())),
                Ok(Message::Binary(bytes)) => heard(Said::Message(&bytes)),
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => heard(Said::Alive),
                Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Ok(Message::Close(_)) => {
                    // The server's side of tungstenite calls it an error that nothing follows.
                    _ = self.context.flush(&mut pipe);
                    let (why, detail) = (Why::Peer, None);
                    return Err(End { why, detail });
                }
                Err(error) => return Err(self.fail(&error, pipe.out)),
            }
        }
    }

    /// Counts what tungstenite keeps: data of which the last frame is still to come.
    fn note(&mut self, frame: &[u8]) {
        let (is_last, is_control) = (frame[0] & 0x80 != 0, frame[0] & 0x08 != 0);
        match (is_control, is_last) {
            (true, _) => {}
            (false, true) => self.fragments = 0,
            (false, false) => self.fragments += frame.len(),
        }
    }

    fn fail(&mut self, error: &Error, out: &mut Vec<u8>) -> End {
        let (why, code) = match error {
            Error::Capacity(_) => (Why::MessageTooLong, CloseCode::Size),
            Error::Utf8(_) => (Why::WebSocket, CloseCode::Invalid),
            _ => (Why::WebSocket, CloseCode::Protocol),
        };
        self.close(code, out);
        self.fragments = 0;
        let detail = Some(error.to_string());
        End { why, detail }
    }
}

/// The most bytes before a frame's payload. RFC 6455 §5.2
const HEADER_BYTES_MAX: u64 = 14;

/// The bytes of the frame that these begin, as far as they tell. RFC 6455 §5.2
fn length(bytes: &[u8]) -> Option<u64> {
    let &[_, second, ref rest @ ..] = bytes else {
        return None;
    };
    let mask = if second & 0x80 != 0 { 4 } else { 0 };
    let (header, payload) = match second & 0x7f {
        126 => (4, u64::from(u16::from_be_bytes(*rest.first_chunk()?))),
        127 => (10, u64::from_be_bytes(*rest.first_chunk()?)),
        short => (2, u64::from(short)),
    };
    Some(payload.saturating_add(header + mask))
}

/// Memory as a stream.
struct Pipe<'a> {
    input: &'a [u8],
    out: &'a mut Vec<u8>,
}

impl Read for Pipe<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.input.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.input.read(into)
    }
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
