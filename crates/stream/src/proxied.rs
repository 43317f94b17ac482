//! What a balancer says of a client before the client's own bytes: the PROXY protocol, versions 1 and 2.

use std::{mem, net::SocketAddr};

use ppp::{HeaderResult, v1, v2};

use crate::{Layer, Said, Why};

/// The longest line of version 1, line end included.
const LINE_BYTES_MAX: usize = 107;

/// The longest header of version 2: addresses, and what balancers add to them.
const HEADER_BYTES_MAX: usize = 2048;

/// What version 2 begins with. It can't be SIP, nor TLS.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Up to the length of what follows.
const START_BYTES: usize = 16;

/// A layer that expects a PROXY header first, and tells the client's address. It is for connections of balancers that
/// are known: a stranger could tell any address.
#[derive(Debug)]
pub struct Proxied<L> {
    inner: L,
    header: Vec<u8>,
    is_read: bool,
}

impl<L: Layer> Proxied<L> {
    /// A header, and then this layer.
    #[must_use]
    pub const fn new(inner: L) -> Self {
        Self {
            inner,
            header: Vec::new(),
            is_read: false,
        }
    }

    /// No header, and this layer.
    #[must_use]
    pub const fn without(inner: L) -> Self {
        Self {
            inner,
            header: Vec::new(),
            is_read: true,
        }
    }

    /// The layer behind the header.
    #[must_use]
    pub const fn inner(&self) -> &L {
        &self.inner
    }
}

impl<L: Layer> Layer for Proxied<L> {
    fn receive(&mut self, bytes: &[u8], heard: &mut impl FnMut(Said<'_>)) -> Result<(), Why> {
        if self.is_read {
            return self.inner.receive(bytes, heard);
        }
        self.header.extend_from_slice(bytes);
        let Some(length) = length(&self.header)? else {
            return Ok(());
        };
        let bytes = mem::take(&mut self.header);
        let (header, rest) = bytes.split_at(length);
        if let Some(remote) = remote(header)? {
            heard(Said::Remote(remote));
        }
        self.is_read = true;
        self.inner.receive(rest, heard)
    }

    fn send(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<(), Why> {
        self.inner.send(message, wire)
    }

    fn write_own(&mut self, wire: &mut Vec<u8>) {
        self.inner.write_own(wire);
    }

    fn is_open(&self) -> bool {
        self.is_read && self.inner.is_open()
    }

    fn close(&mut self, wire: &mut Vec<u8>) {
        self.inner.close(wire);
    }

    fn pong(&mut self, wire: &mut Vec<u8>) -> Result<(), Why> {
        self.inner.pong(wire)
    }

    fn awaits_remote(&self) -> bool {
        !self.is_read
    }

    fn held_bytes(&self) -> usize {
        self.header.len() + self.inner.held_bytes()
    }

    fn detail(&self) -> Option<String> {
        self.inner.detail()
    }
}

/// The bytes of the header, if all of them are there.
fn length(bytes: &[u8]) -> Result<Option<usize>, Why> {
    let has_begun = |start: &[u8]| start.starts_with(bytes) || bytes.starts_with(start);
    if has_begun(SIGNATURE) {
        let Some(start) = bytes.first_chunk::<START_BYTES>() else {
            return Ok(None);
        };
        let length = START_BYTES + usize::from(u16::from_be_bytes([start[14], start[15]]));
        if length > HEADER_BYTES_MAX {
            return Err(Why::ProxyHeader);
        }
        return Ok((length <= bytes.len()).then_some(length));
    }
    if !has_begun(v1::PROTOCOL_PREFIX.as_bytes()) {
        return Err(Why::ProxyHeader);
    }
    let line = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    match line.iter().position(|&byte| byte == b'\n') {
        Some(end) => Ok(Some(end + 1)),
        None if line.len() == LINE_BYTES_MAX => Err(Why::ProxyHeader),
        None => Ok(None),
    }
}

/// The address of the client; none when the balancer speaks for itself, as to see whether we are there.
fn remote(header: &[u8]) -> Result<Option<SocketAddr>, Why> {
    match HeaderResult::parse(header) {
        HeaderResult::V1(Ok(header)) => Ok(match header.addresses {
            v1::Addresses::Tcp4(of) => Some((of.source_address, of.source_port).into()),
            v1::Addresses::Tcp6(of) => Some((of.source_address, of.source_port).into()),
            v1::Addresses::Unknown => None,
        }),
        HeaderResult::V2(Ok(header)) if header.command == v2::Command::Local => Ok(None),
        HeaderResult::V2(Ok(header)) => match header.addresses {
            v2::Addresses::IPv4(of) => Ok(Some((of.source_address, of.source_port).into())),
            v2::Addresses::IPv6(of) => Ok(Some((of.source_address, of.source_port).into())),
            v2::Addresses::Unspecified => Ok(None),
            v2::Addresses::Unix(_) => Err(Why::ProxyHeader),
        },
        HeaderResult::V1(Err(_)) | HeaderResult::V2(Err(_)) => Err(Why::ProxyHeader),
    }
}
