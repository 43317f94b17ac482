//! What waits to be sent on a connection.

use std::{iter, mem};

use slots::Buffers;

use crate::{Layer, Why};

/// While so many bytes are on their way to the socket, no more messages are encoded: what is not encoded costs
/// its own bytes alone.
const WIRE_BYTES: usize = 16 * 1024;

/// Before each message: its length, and the position on the wire behind it, once it is encoded.
const PREFIX_BYTES: usize = 8;

/// Messages that wait, and the bytes that they make on the wire.
///
/// A message is kept until its last byte is written: until then the peer can't have acted on it, so it may be
/// sent another way.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Messages behind each other, with prefixes.
    messages: Vec<u8>,
    /// Where the first message begins that is not wholly written.
    first: usize,
    /// Where the first message begins that is not encoded.
    next: usize,
    wire: Wire,
}

/// Encoded bytes.
#[derive(Debug, Default)]
struct Wire {
    bytes: Vec<u8>,
    /// How many of them are written.
    written: usize,
    /// The position of their end: all bytes that were ever encoded. It wraps around.
    position: u32,
}

impl Queue {
    /// The bytes that can be written.
    pub(crate) fn to_write(&self) -> &[u8] {
        self.wire.to_write()
    }

    /// The bytes that wait, encoded or not.
    pub(crate) fn bytes(&self) -> usize {
        self.messages.len() - self.next + self.to_write().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.next == self.messages.len() && self.to_write().is_empty()
    }

    /// The memory that the queue takes, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.messages.capacity() + self.wire.bytes.capacity()
    }

    pub(crate) fn push(&mut self, message: &[u8], buffers: &mut Buffers) {
        if self.messages.capacity() == 0 {
            self.messages = buffers.take();
        }
        if self.first > self.messages.len() / 2 {
            self.messages.drain(..self.first);
            self.next -= self.first;
            self.first = 0;
        }
        let length = u32::try_from(message.len()).expect("a message has a limit");
        self.messages.extend_from_slice(&length.to_le_bytes());
        self.messages.extend_from_slice(&[0; 4]);
        self.messages.extend_from_slice(message);
    }

    /// Appends bytes that belong to no message.
    pub(crate) fn write<T>(
        &mut self,
        buffers: &mut Buffers,
        write: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> T {
        self.wire.write(buffers, write)
    }

    /// Encodes messages, if few bytes are on their way.
    pub(crate) fn encode(
        &mut self,
        layer: &mut impl Layer,
        buffers: &mut Buffers,
    ) -> Result<(), Why> {
        while self.next < self.messages.len() && self.to_write().len() < WIRE_BYTES {
            let start = self.next + PREFIX_BYTES;
            let end = start + self.word(self.next) as usize;
            let message = &self.messages[start..end];
            self.wire.write(buffers, |wire| layer.send(message, wire))?;
            let behind = self.wire.position.to_le_bytes();
            self.messages[self.next + 4..start].copy_from_slice(&behind);
            self.next = end;
        }
        Ok(())
    }

    /// Takes note that so many bytes are written; returns how many messages are now sent.
    pub(crate) fn wrote(&mut self, bytes: usize, buffers: &mut Buffers) -> u64 {
        self.wire.wrote(bytes, buffers);
        let left = self.to_write().len() as u32;
        let mut sent = 0;
        while self.first < self.next {
            let end = self.word(self.first + 4);
            if self.wire.position.wrapping_sub(end) < left {
                break;
            }
            self.first += PREFIX_BYTES + self.word(self.first) as usize;
            sent += 1;
        }
        if self.first == self.messages.len() {
            buffers.give(mem::take(&mut self.messages));
            (self.first, self.next) = (0, 0);
        }
        sent
    }

    /// The messages that are not wholly written.
    pub(crate) fn unsent(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = self.first;
        iter::from_fn(move || {
            let start = (at < self.messages.len()).then_some(at + PREFIX_BYTES)?;
            let end = start + self.word(at) as usize;
            at = end;
            Some(&self.messages[start..end])
        })
    }

    /// Gives all memory back.
    pub(crate) fn give_back(self, buffers: &mut Buffers) {
        buffers.give(self.messages);
        buffers.give(self.wire.bytes);
    }

    fn word(&self, at: usize) -> u32 {
        let word = self.messages[at..].first_chunk();
        u32::from_le_bytes(*word.expect("a message has its prefix"))
    }
}

impl Wire {
    fn to_write(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    fn write<T>(&mut self, buffers: &mut Buffers, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        if self.bytes.capacity() == 0 {
            self.bytes = buffers.take();
        }
        if self.written > self.bytes.len() / 2 {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
        let before = self.bytes.len();
        let done = write(&mut self.bytes);
        let added = (self.bytes.len() - before) as u32;
        self.position = self.position.wrapping_add(added);
        self.wrote(0, buffers);
        done
    }

    fn wrote(&mut self, bytes: usize, buffers: &mut Buffers) {
        self.written += bytes;
        if self.written == self.bytes.len() {
            buffers.give(mem::take(&mut self.bytes));
            self.written = 0;
        }
    }
}
