//! The Via header: where a request came from and its response goes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::{
    Host,
    params::{BadParams, Params},
    text::{Span, count_while, find, number, offset, set, skip_lws},
};

const PORT_DEFAULT: u16 = 5060;

/// One Via value (RFC 3261 §20.42).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Via<'a> {
    /// The whole value in the message, without commas around it.
    pub span: Span,
    /// The transport, such as `UDP`.
    pub transport: &'a [u8],
    /// The sent-by host; an IPv6 address has its brackets.
    pub host: &'a [u8],
    /// The sent-by port.
    pub port: Option<u16>,
    /// The branch parameter (RFC 3261 §8.1.1.7).
    pub branch: Option<&'a [u8]>,
    /// The received parameter (RFC 3261 §18.2.1).
    pub received: Option<&'a [u8]>,
    /// The rport parameter, and its value when it has one (RFC 3581 §3).
    pub rport: Option<Option<u16>>,
    /// The maddr parameter (RFC 3261 §18.2.2).
    pub maddr: Option<&'a [u8]>,
    /// From after the transport: all of sent-by and the parameters.
    pub(crate) params: &'a [u8],
    /// The rport parameter with its value.
    pub(crate) rport_span: Option<Span>,
}

impl<'a> Via<'a> {
    /// The first parameter of that name, in any case: its value, when it has one.
    pub fn param(&self, name: &[u8]) -> Option<Option<&'a [u8]>> {
        crate::params::find(self.params, name)
    }

    /// Where the response goes (RFC 3261 §18.2.2, RFC 3581 §4): to maddr, else to received and rport, else to sent-by.
    /// None when that is a name to be resolved.
    pub fn response_address(&self) -> Option<SocketAddr> {
        let port = self.port.unwrap_or(PORT_DEFAULT);
        if let Some(maddr) = self.maddr {
            return Some(SocketAddr::new(ip(maddr)?, port));
        }
        if let Some(received) = self.received.and_then(ip) {
            let port = self.rport.flatten().unwrap_or(port);
            return Some(SocketAddr::new(received, port));
        }
        Some(SocketAddr::new(ip(self.host)?, port))
    }

    /// Reads the value that begins at `at`, and the position of the comma or the end behind it.
    #[inline]
    pub(crate) fn read(bytes: &'a [u8], at: usize) -> Result<(Self, usize), BadParams> {
        let start = skip_lws(bytes, at);
        let (transport, at) = read_protocol(bytes, start).ok_or(BadParams)?;
        let (host, port, params_start) = read_sent_by(bytes, at).ok_or(BadParams)?;
        let mut via = Self {
            span: Span { start, end: start },
            transport,
            host,
            port,
            branch: None,
            received: None,
            rport: None,
            maddr: None,
            params: &[],
            rport_span: None,
        };
        let mut params = Params::new(bytes, params_start);
        while let Some(param) = params.read()? {
            match param.name.len() {
                6 if param.is(b"branch") => via.branch = via.branch.or(param.value),
                8 if param.is(b"received") => via.received = via.received.or(param.value),
                5 if param.is(b"maddr") => via.maddr = via.maddr.or(param.value),
                5 if param.is(b"rport") && via.rport.is_none() => {
                    via.rport = Some(read_rport(param.value)?);
                    via.rport_span = Some(Span {
                        start: offset(bytes, param.name),
                        end: params.end(),
                    });
                }
                _ => {}
            }
        }
        via.span.end = params.end();
        via.params = &bytes[params_start..via.span.end];
        Ok((via, params.stop()))
    }
}

fn read_rport(value: Option<&[u8]>) -> Result<Option<u16>, BadParams> {
    match value {
        None | Some(b"") => Ok(None),
        Some(value) => Ok(Some(port_number(value).ok_or(BadParams)?)),
    }
}

/// The transport of `SIP/2.0/UDP`, and the position after it. White space may stand around the slashes.
fn read_protocol(bytes: &[u8], start: usize) -> Option<(&[u8], usize)> {
    let transport = if bytes[start..].starts_with(b"SIP/2.0/") {
        start + 8
    } else {
        let version = skip_slash(bytes, token_end(bytes, start)?)?;
        skip_slash(bytes, token_end(bytes, version)?)?
    };
    let transport = skip_lws(bytes, transport);
    let end = token_end(bytes, transport)?;
    Some((&bytes[transport..end], end))
}

fn skip_slash(bytes: &[u8], at: usize) -> Option<usize> {
    let at = skip_lws(bytes, at);
    (bytes.get(at) == Some(&b'/')).then(|| skip_lws(bytes, at + 1))
}

fn token_end(bytes: &[u8], start: usize) -> Option<usize> {
    let length = count_while(&bytes[start..], set::TOKEN);
    (length > 0).then_some(start + length)
}

/// The host and the port that follow the transport at `at`, and the position after them.
fn read_sent_by(bytes: &[u8], at: usize) -> Option<(&[u8], Option<u16>, usize)> {
    let start = skip_lws(bytes, at);
    if start == at {
        return None;
    }
    let end = start + host_length(&bytes[start..])?;
    let host = &bytes[start..end];
    let colon = skip_lws(bytes, end);
    if bytes.get(colon) != Some(&b':') {
        return Some((host, None, end));
    }
    let digits = skip_lws(bytes, colon + 1);
    let end = digits + count_while(&bytes[digits..], set::DIGIT);
    Some((host, Some(port_number(&bytes[digits..end])?), end))
}

/// The length of the host that the bytes begin with.
pub(crate) fn host_length(bytes: &[u8]) -> Option<usize> {
    let length = if bytes.first() == Some(&b'[') {
        let length = find(bytes, b']')? + 1;
        Host::is_well_formed(&bytes[..length]).then_some(length)?
    } else {
        count_while(bytes, set::HOST)
    };
    (length > 0).then_some(length)
}

pub(crate) fn port_number(digits: &[u8]) -> Option<u16> {
    number(digits).and_then(|port| u16::try_from(port).ok())
}

/// An address literal; IPv6 with or without brackets (RFC 5118 §4.5).
pub(crate) fn ip(text: &[u8]) -> Option<IpAddr> {
    if let Some(ip) = ipv4(text) {
        return Some(ip.into());
    }
    let bare = text
        .strip_prefix(b"[")
        .and_then(|text| text.strip_suffix(b"]"));
    let text = str::from_utf8(bare.unwrap_or(text)).ok()?;
    let ip: Option<Ipv6Addr> = text.parse().ok().or_else(|| with_three_colons(text));
    ip.map(IpAddr::V6)
}

/// The standard library's reading, leading zeros refused, at a third of its cost.
fn ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let (mut index, mut value, mut digits) = (0, 0, 0);
    for &byte in text {
        match byte {
            b'0'..=b'9' if digits == 0 || (digits < 3 && value > 0) => {
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
            }
            b'.' if digits > 0 && index < 3 => {
                octets[index] = u8::try_from(value).ok()?;
                (index, value, digits) = (index + 1, 0, 0);
            }
            _ => return None,
        }
    }
    octets[index] = u8::try_from(value).ok()?;
    (index == 3 && digits > 0).then(|| octets.into())
}

/// RFC 3261's grammar wants one colon too many before an IPv4 tail (RFC 5118 §4.10).
fn with_three_colons(text: &str) -> Option<Ipv6Addr> {
    const LENGTH_MAX: usize = "ffff:ffff:ffff:ffff:ffff:ffff:::255.255.255.255".len();
    let (before, after) = text.split_once(":::")?;
    let mut fixed = [0; LENGTH_MAX];
    let mut rest = fixed.get_mut(..text.len() - 1)?;
    for part in [before, "::", after] {
        let (here, behind) = rest.split_at_mut(part.len());
        here.copy_from_slice(part.as_bytes());
        rest = behind;
    }
    str::from_utf8(&fixed[..text.len() - 1]).ok()?.parse().ok()
}
