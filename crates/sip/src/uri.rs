//! URIs (RFC 3261 §19.1).

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use crate::{
    params::Param,
    scan::{Block, Marks, seek},
    text::{digits, find},
    via::{host_length, ip},
};

/// Parameters and headers that a URI may have to be compared one by one. So a comparison takes time in
/// proportion to the URIs' lengths.
const COMPARED_MAX: usize = 32;

/// The scheme at the beginning of a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `sip`
    Sip,
    /// `sips`
    Sips,
    /// `tel` (RFC 3966)
    Tel,
    /// `urn`, as in `urn:service:sos` (RFC 5031)
    Urn,
    /// Any other.
    Other,
}

impl Scheme {
    fn from_bytes(text: &[u8]) -> Self {
        if text.eq_ignore_ascii_case(b"sip") {
            Self::Sip
        } else if text.eq_ignore_ascii_case(b"sips") {
            Self::Sips
        } else if text.eq_ignore_ascii_case(b"tel") {
            Self::Tel
        } else if text.eq_ignore_ascii_case(b"urn") {
            Self::Urn
        } else {
            Self::Other
        }
    }
}

/// The host of a URI or a Via.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host<'a> {
    /// An address literal.
    Ip(IpAddr),
    /// A domain name.
    Name(&'a [u8]),
}

impl<'a> Host<'a> {
    /// Reads a host as in a URI: an IPv6 address needs brackets.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        (host_length(text) == Some(text.len())).then(|| Self::of_well_formed(text))
    }

    fn of_well_formed(text: &'a [u8]) -> Self {
        match text.last() {
            Some(b']' | b'0'..=b'9') => ip(text).map_or(Self::Name(text), Self::Ip),
            _ => Self::Name(text),
        }
    }

    /// Whether both are the same host.
    pub fn matches(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ip(one), Self::Ip(other)) => one == other,
            (Self::Name(one), Self::Name(other)) => one.eq_ignore_ascii_case(other),
            (Self::Ip(_), Self::Name(_)) | (Self::Name(_), Self::Ip(_)) => false,
        }
    }
}

/// Why bytes are not a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UriError {
    /// No scheme with a colon after it.
    Scheme,
    /// A character that a URI can't have.
    Character,
    /// An at sign with nothing before it.
    User,
    /// No host, or a malformed one.
    Host,
    /// A port that is not a number up to 65,535.
    Port,
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheme => "no scheme",
            Self::Character => "a character that a URI can't have",
            Self::User => "an empty user",
            Self::Host => "no host, or a malformed one",
            Self::Port => "no port number",
        })
    }
}

impl std::error::Error for UriError {}

/// The parts of a URI. Nothing is unescaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Uri<'a> {
    /// The scheme.
    pub scheme: Scheme,
    /// The user part.
    pub user: Option<&'a [u8]>,
    /// The password.
    pub password: Option<&'a [u8]>,
    /// The host. If the scheme is neither sip nor sips, everything after the colon.
    pub host: Host<'a>,
    /// The port.
    pub port: Option<u16>,
    /// The parameters, without the semicolon before the first.
    pub params: &'a [u8],
    /// The headers, without the question mark.
    pub headers: &'a [u8],
    text: &'a [u8],
}

impl<'a> Uri<'a> {
    /// Splits a URI into its parts.
    ///
    /// # Errors
    /// Why it is not a URI.
    pub fn parse(text: &'a [u8]) -> Result<Self, UriError> {
        let colon = find(text, b':').filter(|&colon| colon > 0);
        let colon = colon.ok_or(UriError::Scheme)?;
        if seek(text, cannot_be_in_uri) < text.len() {
            return Err(UriError::Character);
        }
        let scheme = Scheme::from_bytes(&text[..colon]);
        let rest = &text[colon + 1..];
        match scheme {
            Scheme::Sip | Scheme::Sips => Self::parse_sip(text, scheme, rest),
            Scheme::Tel | Scheme::Urn | Scheme::Other => Ok(Self {
                scheme,
                user: None,
                password: None,
                host: Host::Name(rest),
                port: None,
                params: &[],
                headers: &[],
                text,
            }),
        }
    }

    fn parse_sip(text: &'a [u8], scheme: Scheme, rest: &'a [u8]) -> Result<Self, UriError> {
        let (user, password, rest) = split_user(rest)?;
        let (host, rest) = rest.split_at(host_length(rest).ok_or(UriError::Host)?);
        let (port, rest) = split_port(rest)?;
        let (params, headers) = match rest {
            [b';', rest @ ..] => split_at_byte(rest, b'?'),
            [b'?', headers @ ..] => (&[][..], headers),
            [] => (rest, rest),
            _ => return Err(UriError::Host),
        };
        let host = Host::of_well_formed(host);
        Ok(Self {
            scheme,
            user,
            password,
            host,
            port,
            params,
            headers,
            text,
        })
    }

    /// Finds the first parameter with this name, in any case.
    pub fn param(&self, name: &[u8]) -> Param<'a> {
        pairs(self.params, b';')
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map_or(Param::Absent, |(_, value)| Param::present(value))
    }

    /// The address in the URI itself: maddr or host if it is a literal, with the port or the
    /// scheme's default port.
    pub fn address(&self) -> Option<SocketAddr> {
        let Host::Ip(ip) = self.destination()? else {
            return None;
        };
        let default = if self.scheme == Scheme::Sips {
            5061
        } else {
            5060
        };
        Some(SocketAddr::new(ip, self.port.unwrap_or(default)))
    }

    /// The host that gets a request to the URI: maddr, else host. None if maddr is not a host.
    pub fn destination(&self) -> Option<Host<'a>> {
        match self.param(b"maddr").value() {
            Some(maddr) => Host::parse(maddr),
            None => Some(self.host),
        }
    }

    /// Whether the user, or the number of a `tel` URI, begins with this text. Escapes stand for the
    /// characters that they encode (RFC 3261 §19.1.4).
    pub fn user_begins_with(&self, text: &[u8]) -> bool {
        let user = match (self.scheme, self.host) {
            (Scheme::Tel, Host::Name(number)) => number,
            _ => self.user.unwrap_or_default(),
        };
        let mut user = characters(user).map(|(byte, _)| byte);
        text.iter().all(|byte| user.next() == Some(*byte))
    }

    /// Whether both name the same resource (RFC 3261 §19.1.4). This is not transitive: a parameter
    /// that only one has may not count. URIs with schemes other than sip and sips, and those with more
    /// than 32 parameters or headers, must be equal in all characters.
    pub fn equivalent(&self, other: &Uri<'_>) -> bool {
        if self.text == other.text {
            return true;
        }
        self.is_compared_in_parts()
            && other.is_compared_in_parts()
            && self.scheme == other.scheme
            && same_option(self.user, other.user, same_text)
            && same_option(self.password, other.password, same_text)
            && self.host.matches(&other.host)
            && self.port == other.port
            && params_agree(self.params, other.params)
            && params_agree(other.params, self.params)
            && headers_within(self.headers, other.headers)
            && headers_within(other.headers, self.headers)
    }

    fn is_compared_in_parts(&self) -> bool {
        matches!(self.scheme, Scheme::Sip | Scheme::Sips)
            && pairs(self.params, b';').count() <= COMPARED_MAX
            && pairs(self.headers, b'&').count() <= COMPARED_MAX
    }

    /// Appends the URI as a Request-URI: without headers and `method`, which can't be in one (RFC 3261
    /// §16.6 item 2, §19.1.1).
    pub fn write_as_request_uri(&self, out: &mut Vec<u8>) {
        if !matches!(self.scheme, Scheme::Sip | Scheme::Sips) {
            return out.extend_from_slice(self.text);
        }
        let host = find(self.text, b'@').unwrap_or(0);
        let ends_host = |byte: &u8| matches!(byte, b';' | b'?');
        let end = self.text[host..].iter().position(ends_host);
        out.extend_from_slice(&self.text[..end.map_or(self.text.len(), |end| host + end)]);
        for (name, value) in pairs(self.params, b';') {
            if !name.eq_ignore_ascii_case(b"method") {
                out.push(b';');
                out.extend_from_slice(name);
                for part in value.into_iter().flat_map(|value| [b"=", value]) {
                    out.extend_from_slice(part);
                }
            }
        }
    }
}

#[inline(always)]
fn cannot_be_in_uri(block: Block) -> Marks {
    !block.is_within(b'!', b'~') | block.is(b'<') | block.is(b'>') | block.is(b'"')
}

type UserPassword<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, &'a [u8]);

fn split_user(text: &[u8]) -> Result<UserPassword<'_>, UriError> {
    let Some(at) = find(text, b'@') else {
        return Ok((None, None, text));
    };
    let rest = &text[at + 1..];
    let (user, password) = match find(&text[..at], b':') {
        Some(colon) => (&text[..colon], Some(&text[colon + 1..at])),
        None => (&text[..at], None),
    };
    if user.is_empty() {
        Err(UriError::User)
    } else {
        Ok((Some(user), password, rest))
    }
}

fn split_at_byte(text: &[u8], byte: u8) -> (&[u8], &[u8]) {
    match find(text, byte) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[]),
    }
}

/// The port, if a colon comes first, and what follows.
fn split_port(text: &[u8]) -> Result<(Option<u16>, &[u8]), UriError> {
    let [b':', rest @ ..] = text else {
        return Ok((None, text));
    };
    let (number, rest) = digits(rest);
    let port = number.and_then(|port| u16::try_from(port).ok());
    Ok((Some(port.ok_or(UriError::Port)?), rest))
}

/// The names and values of parameters or headers.
fn pairs(text: &[u8], separator: u8) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    text.split(move |&byte| byte == separator)
        .filter(|pair| !pair.is_empty())
        .map(|pair| match find(pair, b'=') {
            Some(at) => (&pair[..at], Some(&pair[at + 1..])),
            None => (pair, None),
        })
}

/// Whether each parameter of `one` that must be in both, or is, has the same value in `other`.
fn params_agree(one: &[u8], other: &[u8]) -> bool {
    const NEEDED: [&[u8]; 5] = [b"transport", b"user", b"ttl", b"method", b"maddr"];
    pairs(one, b';').all(|(name, value)| {
        match pairs(other, b';').find(|(known, _)| same_text_ignoring_case(known, name)) {
            Some((_, known)) => same_option(value, known, same_text_ignoring_case),
            None => !NEEDED
                .iter()
                .any(|needed| needed.eq_ignore_ascii_case(name)),
        }
    })
}

fn headers_within(one: &[u8], other: &[u8]) -> bool {
    pairs(one, b'&').all(|(name, value)| {
        pairs(other, b'&').any(|(known, found)| {
            same_text_ignoring_case(known, name) && same_option(value, found, same_text)
        })
    })
}

fn same_option(one: Option<&[u8]>, other: Option<&[u8]>, same: fn(&[u8], &[u8]) -> bool) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => same(one, other),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn same_text(one: &[u8], other: &[u8]) -> bool {
    characters(one).eq(characters(other))
}

fn same_text_ignoring_case(one: &[u8], other: &[u8]) -> bool {
    let lower = |(byte, escaped): (u8, bool)| (byte.to_ascii_lowercase(), escaped);
    characters(one).map(lower).eq(characters(other).map(lower))
}

/// The characters, unescaped, and whether the escape matters: it does for reserved ones (RFC 3261 §19.1.4, RFC 2396 §2.2).
fn characters(text: &[u8]) -> impl Iterator<Item = (u8, bool)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (&first, after) = rest.split_first()?;
        if let (b'%', [high, low, after @ ..]) = (first, after)
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            rest = after;
            let byte = high << 4 | low;
            return Some((byte, b";/?:@&=+$,%".contains(&byte)));
        }
        rest = after;
        Some((first, false))
    })
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}
