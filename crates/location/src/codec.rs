//! The bytes of records: numbers are big-endian, and texts follow their length.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

/// The bytes are not one of our records, or come from a later version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a record of this version")
    }
}

impl std::error::Error for Corrupt {}

/// The longest text. The crate does not shorten longer ones: the limits of the writers are far
/// lower.
const TEXT_BYTES_MAX: usize = u16::MAX as usize;

pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    assert!(text.len() <= TEXT_BYTES_MAX, "a message is no longer");
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn write_time(out: &mut Vec<u8>, time: Duration) {
    out.extend_from_slice(&(time.as_millis() as u64).to_be_bytes());
}

pub(crate) fn write_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_be_bytes());
}

/// Takes fields from the front of a record.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Checks the version, and reads what follows it.
    pub(crate) fn new(bytes: &'a [u8], version: u8) -> Result<Self, Corrupt> {
        match bytes.split_first() {
            Some((&first, rest)) if first == version => Ok(Self { rest }),
            _ => Err(Corrupt),
        }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Corrupt)?;
        self.rest = rest;
        Ok(*array)
    }

    pub(crate) fn number_u16(&mut self) -> Result<u16, Corrupt> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn number_u32(&mut self) -> Result<u32, Corrupt> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn time(&mut self) -> Result<Duration, Corrupt> {
        let ms = self.array().map(u64::from_be_bytes)?;
        Ok(Duration::from_millis(ms))
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Corrupt> {
        let len = self.number_u16()?;
        let (text, rest) = self.rest.split_at_checked(len.into()).ok_or(Corrupt)?;
        self.rest = rest;
        std::str::from_utf8(text).map_err(|_| Corrupt)
    }

    pub(crate) fn address(&mut self) -> Result<SocketAddr, Corrupt> {
        let ip = match self.array()? {
            [4] => IpAddr::from(self.array::<4>()?),
            [6] => IpAddr::from(self.array::<16>()?),
            _ => return Err(Corrupt),
        };
        Ok(SocketAddr::new(ip, self.number_u16()?))
    }
}
