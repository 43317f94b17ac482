//! From what a layer says to messages.

use std::mem;

use sip::{Frame, FrameFault, Framer};
use slots::Buffers;
use transaction::Flow;

use crate::{Said, Why};

/// What came in on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard<'a> {
    /// A message; with a fault, what is there of it up to the empty line behind its headers.
    pub bytes: &'a [u8],
    /// Why the connection is closed behind it. A request can be answered: what is sent soon goes out before.
    pub fault: Option<FrameFault>,
}

/// Reads what comes in on a connection.
pub(crate) struct Reader<'a, R> {
    pub(crate) framer: &'a mut Framer,
    /// The beginning of a message.
    pub(crate) inbound: &'a mut Vec<u8>,
    pub(crate) buffers: &'a mut Buffers,
    pub(crate) flow: Flow,
    /// The most bytes of a message.
    pub(crate) message_bytes: usize,
    /// Moves the connection to another peer; refuses if that has too many.
    pub(crate) redirect: R,
    pub(crate) messages: u64,
    pub(crate) pings: u64,
    /// Whether there was a sign of life.
    pub(crate) is_alive: bool,
    /// Why nothing is read any more.
    pub(crate) failed: Option<Why>,
}

impl<R: FnMut(&mut Flow, std::net::SocketAddr) -> bool> Reader<'_, R> {
    pub(crate) fn take(&mut self, said: Said<'_>, heard: &mut impl FnMut(Flow, Heard<'_>)) {
        if self.failed.is_some() {
            return;
        }
        match said {
            Said::Bytes(bytes) if self.inbound.is_empty() => {
                let read = self.read(bytes, heard);
                self.keep(&bytes[read..]);
            }
            Said::Bytes(bytes) => {
                let mut all = mem::take(self.inbound);
                all.extend_from_slice(bytes);
                let read = self.read(&all, heard);
                all.drain(..read);
                if all.is_empty() || self.failed.is_some() {
                    self.buffers.give(all);
                } else {
                    *self.inbound = all;
                }
            }
            Said::Message(bytes) if bytes.len() > self.message_bytes => {
                self.fail(FrameFault::MessageTooLong, &[], heard);
            }
            // A keep-alive in a frame of its own. RFC 7118 §6
            Said::Message(b"\r\n\r\n") => (self.pings, self.is_alive) = (self.pings + 1, true),
            Said::Message(b"" | b"\r\n") => self.is_alive = true,
            Said::Message(bytes) => self.tell(bytes, heard),
            Said::Remote(remote) => {
                if !(self.redirect)(&mut self.flow, remote) {
                    self.failed = Some(Why::SourceFull);
                }
            }
            Said::Alive => self.is_alive = true,
        }
    }

    /// Tells all messages, and returns how many bytes are read.
    fn read(&mut self, bytes: &[u8], heard: &mut impl FnMut(Flow, Heard<'_>)) -> usize {
        let mut read = 0;
        loop {
            match self.framer.next(&bytes[read..]) {
                Frame::Partial { .. } => return read,
                Frame::LineEnds { bytes, pings } => {
                    read += bytes;
                    self.pings += pings as u64;
                    self.is_alive = true;
                }
                Frame::Message(message) => {
                    read += message.len();
                    self.tell(message, heard);
                }
                Frame::Fault { fault, head } => {
                    self.fail(fault, head, heard);
                    return bytes.len();
                }
            }
        }
    }

    fn tell(&mut self, bytes: &[u8], heard: &mut impl FnMut(Flow, Heard<'_>)) {
        self.messages += 1;
        self.is_alive = true;
        heard(self.flow, Heard { bytes, fault: None });
    }

    fn fail(&mut self, fault: FrameFault, head: &[u8], heard: &mut impl FnMut(Flow, Heard<'_>)) {
        self.failed = Some(fault.into());
        let fault = Some(fault);
        heard(self.flow, Heard { bytes: head, fault });
    }

    fn keep(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() && self.failed.is_none() {
            *self.inbound = self.buffers.take();
            self.inbound.extend_from_slice(bytes);
        }
    }
}
