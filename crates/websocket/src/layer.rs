//! The layer.

use std::mem;

use stream::{Layer, Said, Why};
use tungstenite::protocol::{Role, frame::coding::CloseCode};

use crate::{
    BadName,
    frames::Frames,
    handshake::{self, Refusal},
};

/// The most bytes of a request or an answer.
const HEAD_BYTES_MAX: usize = 8192;

/// A WebSocket over another layer.
#[derive(Debug)]
pub struct WebSocket<L> {
    inner: L,
    core: Core,
}

/// All but what carries it.
#[derive(Debug)]
struct Core {
    state: State,
    message_bytes: usize,
    /// What came in, and is not whole.
    pending: Vec<u8>,
    /// What is to be said.
    out: Vec<u8>,
    detail: Option<String>,
}

#[derive(Debug)]
enum State {
    /// A client's request is to come.
    Server,
    /// The answer to the request with this key is to come.
    Client(String),
    Open(Box<Frames>),
    Closed,
}

impl<L: Layer> WebSocket<L> {
    /// A server that takes messages of up to so many bytes.
    #[must_use]
    pub fn server(inner: L, message_bytes: usize) -> Self {
        Self::new(inner, State::Server, Vec::new(), message_bytes)
    }

    /// A client of a host, which may have a port, and a path such as `/`.
    ///
    /// # Errors
    /// The host or the path can't stand in a request.
    pub fn client(inner: L, host: &str, path: &str, message_bytes: usize) -> Result<Self, BadName> {
        let (request, key) = handshake::request(host, path)?;
        Ok(Self::new(inner, State::Client(key), request, message_bytes))
    }

    /// The layer below.
    #[must_use]
    pub const fn inner(&self) -> &L {
        &self.inner
    }

    fn new(inner: L, state: State, out: Vec<u8>, message_bytes: usize) -> Self {
        let core = Core {
            state,
            message_bytes,
            pending: Vec::new(),
            out,
            detail: None,
        };
        Self { inner, core }
    }

    /// Gives what is to be said to the layer below.
    fn flush(&mut self, wire: &mut Vec<u8>) -> Result<(), Why> {
        if self.core.out.is_empty() || !self.inner.is_open() {
            return Ok(());
        }
        let out = mem::take(&mut self.core.out);
        self.inner.send(&out, wire)
    }
}

impl<L: Layer> Layer for WebSocket<L> {
    fn receive(&mut self, bytes: &[u8], heard: &mut impl FnMut(Said<'_>)) -> Result<(), Why> {
        let core = &mut self.core;
        let mut taken = Ok(());
        let received = self.inner.receive(bytes, &mut |said| match said {
            Said::Bytes(bytes) | Said::Message(bytes) => {
                if taken.is_ok() {
                    taken = core.receive(bytes, heard);
                }
            }
            Said::Remote(_) | Said::Alive => heard(said),
        });
        taken.and(received)
    }

    fn send(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<(), Why> {
        let State::Open(frames) = &mut self.core.state else {
            return Err(Why::WebSocket);
        };
        frames.send(message, &mut self.core.out)?;
        self.flush(wire)
    }

    fn write_own(&mut self, wire: &mut Vec<u8>) {
        self.inner.write_own(wire);
        if self.flush(wire).is_err() {
            self.core.state = State::Closed;
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.core.state, State::Open(_)) && self.inner.is_open()
    }

    fn close(&mut self, wire: &mut Vec<u8>) {
        if let State::Open(frames) = &mut self.core.state {
            // The server goes, or nobody has something to say.
            frames.close(CloseCode::Away, &mut self.core.out);
        }
        self.write_own(wire);
        self.inner.close(wire);
    }

    fn awaits_remote(&self) -> bool {
        self.inner.awaits_remote()
    }

    fn held_bytes(&self) -> usize {
        let of_frames = match &self.core.state {
            State::Open(frames) => frames.held_bytes(),
            State::Server | State::Client(_) | State::Closed => 0,
        };
        self.core.pending.capacity() + of_frames + self.inner.held_bytes()
    }

    fn detail(&self) -> Option<String> {
        let detail = self.core.detail.clone();
        detail.or_else(|| self.inner.detail())
    }
}

impl Core {
    fn receive(&mut self, bytes: &[u8], heard: &mut impl FnMut(Said<'_>)) -> Result<(), Why> {
        if self.pending.is_empty() {
            let taken = self.take(bytes, heard)?;
            self.pending.extend_from_slice(&bytes[taken..]);
            return Ok(());
        }
        let mut all = mem::take(&mut self.pending);
        all.extend_from_slice(bytes);
        let taken = self.take(&all, heard)?;
        all.drain(..taken);
        if !all.is_empty() {
            self.pending = all;
        }
        Ok(())
    }

    /// Takes what is whole, and returns how many bytes it is.
    fn take(&mut self, bytes: &[u8], heard: &mut impl FnMut(Said<'_>)) -> Result<usize, Why> {
        let head = match self.state {
            State::Server | State::Client(_) => match self.shake_hands(bytes)? {
                Some(head) => head,
                None => return Ok(0),
            },
            State::Open(_) => 0,
            State::Closed => return Ok(bytes.len()),
        };
        let State::Open(frames) = &mut self.state else {
            return Ok(bytes.len());
        };
        match frames.take(&bytes[head..], &mut self.out, heard) {
            Ok(taken) => Ok(head + taken),
            Err(end) => {
                self.state = State::Closed;
                self.detail = end.detail;
                Err(end.why)
            }
        }
    }

    /// Reads a request or an answer, if it is whole, and returns how many bytes it is.
    fn shake_hands(&mut self, bytes: &[u8]) -> Result<Option<usize>, Why> {
        let window = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
        let end = window.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end else {
            let is_http = window.first().is_none_or(u8::is_ascii_uppercase);
            if is_http && bytes.len() < HEAD_BYTES_MAX {
                return Ok(None);
            }
            self.state = State::Closed;
            self.detail =
                Some("what the peer sends is not the handshake of a WebSocket".to_owned());
            return Err(Why::WebSocket);
        };
        let head = &bytes[..end + 4];
        let (role, done) = match &self.state {
            State::Client(key) => (Role::Client, handshake::check(head, key)),
            _ => (Role::Server, handshake::answer(head, &mut self.out)),
        };
        if let Err(Refusal {
            why,
            detail,
            answer,
        }) = done
        {
            if !answer.is_empty() {
                self.out.extend_from_slice(answer.as_bytes());
                let end = b"Connection: close\r\nContent-Length: 0\r\n\r\n";
                self.out.extend_from_slice(end);
            }
            self.state = State::Closed;
            self.detail = Some(detail);
            return Err(why);
        }
        self.state = State::Open(Box::new(Frames::new(role, self.message_bytes)));
        Ok(Some(head.len()))
    }
}
