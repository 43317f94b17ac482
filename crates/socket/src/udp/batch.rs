//! The memory of a batch: buffers, addresses and headers. It is allocated once and reused.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    ptr,
    time::Duration,
};

use super::{
    BATCH,
    address::Name,
    local::{Control, Heard},
};
use crate::{clock::wall, dated::moment};

const CACHE_LINE: usize = 64;

/// Room for received datagrams.
pub struct RecvBatch {
    // Vectors and not boxes: the headers point into the other three, and a vector may be moved
    // while raw pointers to its elements live.
    headers: Vec<libc::mmsghdr>,
    names: Vec<Name>,
    _slices: Vec<libc::iovec>,
    bytes: Vec<u8>,
    /// When the first datagram came, and the destination addresses of all if a socket is bound to all addresses.
    controls: Vec<Control>,
    stride: usize,
    received: usize,
}

// SAFETY: the raw pointers lead into memory that the batch itself owns.
unsafe impl Send for RecvBatch {}

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The sender.
    pub from: SocketAddr,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Whether it was longer than its slot; `bytes` then contains its beginning.
    pub truncated: bool,
}

impl RecvBatch {
    /// Makes a batch of `slots` datagrams (at most 1024, the kernel's limit) of up to `bytes` bytes
    /// each.
    #[must_use]
    pub fn new(slots: usize, bytes: usize) -> Self {
        assert!((1..=1024).contains(&slots), "a batch has 1 to 1024 slots");
        // An odd number of cache lines: slots a power of two apart would share a few of the cache's sets.
        let stride = (bytes.div_ceil(CACHE_LINE) | 1) * CACHE_LINE;
        let mut memory = vec![0; stride * slots];
        let mut names = vec![Name::empty(); slots];
        let base = memory.as_mut_ptr();
        let mut slices: Vec<_> = (0..slots)
            .map(|slot| libc::iovec {
                iov_base: base.wrapping_add(slot * stride).cast(),
                iov_len: bytes,
            })
            .collect();
        let headers = headers(&mut names, &mut slices);
        Self {
            headers,
            names,
            _slices: slices,
            bytes: memory,
            controls: vec![Control::empty()],
            stride,
            received: 0,
        }
    }

    /// The same, and the system tells of each datagram when it came.
    #[must_use]
    pub fn dated(slots: usize, bytes: usize) -> Self {
        let mut batch = Self::new(slots, bytes);
        batch.controls.resize(slots, Control::empty());
        batch
    }

    /// The datagrams of the last [`super::Socket::recv`].
    pub fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.slots().map(|(_, datagram)| datagram)
    }

    /// The same, and for how long each had waited until now; zero: the system does not tell.
    pub fn dated_datagrams(&self) -> impl Iterator<Item = (Datagram<'_>, Duration)> {
        let now = wall();
        self.slots().map(move |(header, datagram)| {
            // SAFETY: the kernel has just written the header's control data.
            let came = unsafe { moment(header) };
            let waited = came.map_or(Duration::ZERO, |came| now.saturating_sub(came));
            (datagram, waited)
        })
    }

    fn slots(&self) -> impl Iterator<Item = (&libc::msghdr, Datagram<'_>)> {
        let slots = self
            .headers
            .iter()
            .zip(&self.names)
            .zip(self.bytes.chunks_exact(self.stride));
        slots
            .take(self.received)
            .filter_map(|((header, name), bytes)| {
                let datagram = Datagram {
                    from: name.get()?,
                    bytes: &bytes[..header.msg_len as usize],
                    truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                };
                Some((&header.msg_hdr, datagram))
            })
    }

    /// For how long the first datagram had waited when it was received. None: the system does not tell.
    #[must_use]
    pub fn waited(&self) -> Option<Duration> {
        let first = self.headers[..self.received].first()?;
        // SAFETY: the kernel has just written the header's control data.
        let came = unsafe { moment(&first.msg_hdr) }?;
        Some(wall().saturating_sub(came))
    }

    /// The senders of the last [`super::Socket::recv`] by a socket that is bound to all addresses,
    /// each with the address to which it sent.
    pub(super) fn hits(&self) -> impl Iterator<Item = (SocketAddr, IpAddr)> {
        let slots = self.headers.iter().zip(&self.names).take(self.received);
        slots.filter_map(|(header, name)| {
            // SAFETY: the kernel has just written the header's control data.
            let local = unsafe { Control::hit(&header.msg_hdr) }?;
            Some((name.get()?, local))
        })
    }

    /// Discards the received datagrams. Every pointer in the headers is valid while `self` is
    /// borrowed.
    pub(super) fn prepare(&mut self, asks_for_hits: bool) -> &mut [libc::mmsghdr] {
        for header in &mut self.headers[..self.received] {
            header.msg_hdr.msg_namelen = Name::LENGTH;
        }
        if asks_for_hits {
            self.controls.resize(self.headers.len(), Control::empty());
        }
        // The kernel shortens the lengths of control data to what it has written.
        for (header, control) in self.headers.iter_mut().zip(&mut self.controls) {
            control.ask(&mut header.msg_hdr);
        }
        self.received = 0;
        &mut self.headers
    }

    pub(super) fn received(&mut self, received: usize) {
        self.received = received;
    }
}

impl fmt::Debug for RecvBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.datagrams()).finish()
    }
}

/// Space for the headers of datagrams to send. The bytes of the datagrams stay where they are.
pub struct SendBatch {
    headers: Vec<libc::mmsghdr>,
    names: Vec<Name>,
    slices: Vec<libc::iovec>,
    controls: Vec<Control>,
}

// SAFETY: the raw pointers lead into memory that the batch itself owns, but for those to the bytes,
// which are used within one call alone.
unsafe impl Send for SendBatch {}

impl SendBatch {
    /// Makes space for [`BATCH`] datagrams.
    #[must_use]
    pub fn new() -> Self {
        let mut names = vec![Name::empty(); BATCH];
        let mut slices = vec![
            libc::iovec {
                iov_base: ptr::null_mut(),
                iov_len: 0
            };
            BATCH
        ];
        let headers = headers(&mut names, &mut slices);
        Self {
            headers,
            names,
            slices,
            controls: vec![Control::empty(); BATCH],
        }
    }

    /// Takes up to a batch from `items`. Each is sent from the address to which its peer sent. The
    /// headers are valid as long as the items are.
    pub(super) fn fill<'a>(
        &mut self,
        items: &mut impl Iterator<Item = (SocketAddr, &'a [u8])>,
        heard: Option<&Heard>,
    ) -> &mut [libc::mmsghdr] {
        let peers = heard.map(Heard::peers);
        let slots = self
            .headers
            .iter_mut()
            .zip(&mut self.names)
            .zip(&mut self.slices)
            .zip(&mut self.controls);
        let mut filled = 0;
        for ((((header, name), slice), control), (to, bytes)) in slots.zip(items) {
            header.msg_hdr.msg_namelen = name.set(to);
            let local = peers.as_ref().and_then(|peers| peers.local(to));
            control.set(&mut header.msg_hdr, local);
            slice.iov_base = bytes.as_ptr().cast_mut().cast();
            slice.iov_len = bytes.len();
            filled += 1;
        }
        &mut self.headers[..filled]
    }
}

impl Default for SendBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SendBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendBatch").finish_non_exhaustive()
    }
}

/// Makes a header for each name and slice. The pointers come from the vectors' own pointers, so
/// later use of an element does not invalidate them.
fn headers(names: &mut Vec<Name>, slices: &mut Vec<libc::iovec>) -> Vec<libc::mmsghdr> {
    let (name, slice) = (names.as_mut_ptr(), slices.as_mut_ptr());
    (0..names.len())
        .map(|slot| {
            // SAFETY: all-zero bytes are a header without name, bytes and control data.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_name = name.wrapping_add(slot).cast();
            header.msg_hdr.msg_namelen = Name::LENGTH;
            header.msg_hdr.msg_iov = slice.wrapping_add(slot);
            header.msg_hdr.msg_iovlen = 1;
            header
        })
        .collect()
}
