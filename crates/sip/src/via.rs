//! The Via header: the source of a request and the destination of its response.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::{
    address::is_private,
    params::GenericParam,
    reader::{Malformed, Reader},
    scan::{Block, Marks, seek},
    text::{Span, find, number},
};

const PORT_DEFAULT: u16 = 5060;

/// The rport parameter of a Via (RFC 3581 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rport {
    /// The Via has no rport.
    Absent,
    /// The sender requests that the response goes to the request's source port.
    Requested,
    /// The request's source port, which a server fills in (RFC 3581 §4).
    Port(u16),
}

impl Rport {
    /// Returns the source port, if it is filled in.
    pub fn port(self) -> Option<u16> {
        match self {
            Self::Port(port) => Some(port),
            Self::Absent | Self::Requested => None,
        }
    }

    /// Whether the Via has the parameter, with or without a port.
    pub fn is_present(self) -> bool {
        !matches!(self, Self::Absent)
    }
}

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
    /// The rport parameter (RFC 3581 §3).
    pub rport: Rport,
    /// The parameter `w` of Sipyard's own: what binds a response to the way that it takes.
    pub way: Option<&'a [u8]>,
    /// Whether it has a parameter of overload control: [`Self::overload`] reads them.
    pub has_overload: bool,
    /// Whether it has a parameter of Sipyard's own, whose name begins with `sy-`: [`Self::param`] reads it.
    pub has_private: bool,
    /// The rport parameter with its value.
    pub(crate) rport_span: Option<Span>,
}

impl<'a> Via<'a> {
    /// The destination of the response (RFC 3261 §18.2.2, RFC 3581 §4): received and rport, else
    /// sent-by. None if that is a name. A maddr parameter, which is for multicast, is ignored: with
    /// it a stranger could have responses sent to anybody.
    pub fn response_address(&self) -> Option<SocketAddr> {
        let port = self.port.unwrap_or(PORT_DEFAULT);
        if let Some(received) = self.received.and_then(ip) {
            let port = self.rport.port().unwrap_or(port);
            return Some(SocketAddr::new(received, port));
        }
        Some(SocketAddr::new(ip(self.host)?, port))
    }

    /// The port of that destination for a request from there, whose receiver notes the source in the Via.
    #[must_use]
    pub fn port_back(&self, from: SocketAddr) -> u16 {
        if self.rport.is_present() || self.needs_rport(from) {
            from.port()
        } else {
            self.port.unwrap_or(PORT_DEFAULT)
        }
    }

    /// Whether the sender of a datagram from there must get answers where it sent from, although it does not ask for
    /// that: its own address is private and the other is not, so a NAT is between, which knows nothing of the
    /// port in sent-by.
    #[must_use]
    pub fn needs_rport(&self, from: SocketAddr) -> bool {
        self.transport.eq_ignore_ascii_case(b"UDP")
            && ip(self.host).is_some_and(is_private)
            && !is_private(from.ip())
    }

    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let start = reader.at();
        let transport = read_protocol(reader)?;
        let (host, port) = read_sent_by(reader)?;
        let mut via = Self {
            span: Span { start, end: start },
            transport,
            host,
            port,
            branch: None,
            received: None,
            rport: Rport::Absent,
            way: None,
            has_overload: false,
            has_private: false,
            rport_span: None,
        };
        while let Some(param) = GenericParam::read(reader)? {
            match param.name.len() {
                0 => return Err(Malformed),
                6 if param.is(b"branch") => via.branch = via.branch.or(param.value),
                8 if param.is(b"received") => via.received = via.received.or(param.value),
                1 if param.is(b"w") => via.way = via.way.or(param.value),
                5 if param.is(b"rport") && !via.rport.is_present() => {
                    via.rport = read_rport(param.value)?;
                    via.rport_span = Some(reader.span_from(param.name));
                }
                _ if param.is_overload() => via.has_overload = true,
                _ if param.is_private() => via.has_private = true,
                _ => {}
            }
        }
        via.span.end = reader.at();
        Ok(via)
    }
}

/// Skips what stands before the parameters of a Via.
pub(crate) fn skip_to_params(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    read_protocol(reader)?;
    read_sent_by(reader)?;
    Ok(())
}

fn read_rport(value: Option<&[u8]>) -> Result<Rport, Malformed> {
    match value {
        None | Some(b"") => Ok(Rport::Requested),
        Some(value) => port_number(value).map(Rport::Port).ok_or(Malformed),
    }
}

/// The transport of `SIP/2.0/UDP`, which white space follows. White space may stand around the slashes.
fn read_protocol<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    if reader.text(b"SIP/2.0/UDP ") {
        reader.skip_blank();
        return Ok(b"UDP");
    }
    for _ in ["SIP", "2.0"] {
        reader.token()?;
        if !reader.separator(b'/') {
            return Err(Malformed);
        }
    }
    let transport = reader.token()?;
    reader.skip_blank().then_some(transport).ok_or(Malformed)
}

/// The host and the port.
fn read_sent_by<'a>(reader: &mut Reader<'a>) -> Result<(&'a [u8], Option<u16>), Malformed> {
    let host = reader.host()?;
    if !reader.separator(b':') {
        return Ok((host, None));
    }
    let number = reader.number().ok_or(Malformed)?;
    let port = u16::try_from(number).map_err(|_| Malformed)?;
    Ok((host, Some(port)))
}

/// The length of the host that the bytes begin with: a name, an IPv4 address or an IPv6 reference.
pub(crate) fn host_length(bytes: &[u8]) -> Option<usize> {
    let length = if bytes.first() == Some(&b'[') {
        let length = find(bytes, b']')? + 1;
        matches!(ip(&bytes[..length]), Some(IpAddr::V6(_))).then_some(length)?
    } else {
        seek(bytes, |block| !can_be_in_name(block))
    };
    (length > 0).then_some(length)
}

/// Host names and IPv4 addresses. The underscore isn't allowed in them, but too common to refuse.
#[inline(always)]
fn can_be_in_name(block: Block) -> Marks {
    block.lower_case().is_within(b'a', b'z')
        | block.is_within(b'0', b'9')
        | block.is(b'-')
        | block.is(b'.')
        | block.is(b'_')
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
