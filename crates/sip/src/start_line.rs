//! The first line of a message.

use crate::{
    Fault, Method, ParseError,
    text::{find, number},
};

/// A request line or a status line (RFC 3261 §7.1, §7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartLine<'a> {
    /// A request.
    Request {
        /// The method.
        method: Method<'a>,
        /// The Request-URI.
        uri: &'a [u8],
    },
    /// A response.
    Response {
        /// The status code, 100 to 699.
        status: u16,
        /// The reason phrase; may be empty.
        reason: &'a [u8],
    },
}

impl<'a> StartLine<'a> {
    /// A request's method.
    pub const fn method(self) -> Option<Method<'a>> {
        match self {
            Self::Request { method, .. } => Some(method),
            Self::Response { .. } => None,
        }
    }

    /// A response's status code.
    pub const fn status(self) -> Option<u16> {
        match self {
            Self::Request { .. } => None,
            Self::Response { status, .. } => Some(status),
        }
    }

    /// Reads a line that has lost its line end, and says what is wrong with it though it can be answered.
    pub(crate) fn parse(line: &'a [u8]) -> Result<(Self, Option<Fault>), ParseError> {
        if is_version(line) {
            Self::parse_status_line(line)
        } else {
            Self::parse_request_line(line)
        }
    }

    fn parse_request_line(line: &'a [u8]) -> Result<(Self, Option<Fault>), ParseError> {
        let trimmed = line.trim_ascii_end();
        let first = find(trimmed, b' ').ok_or(ParseError::NotSip)?;
        let last = trimmed.iter().rposition(|&byte| byte == b' ');
        let last = last.unwrap_or(first);
        let version = &trimmed[last + 1..];
        if first == 0 || !is_version(version) {
            return Err(ParseError::NotSip);
        }
        let method = Method::from_bytes(&trimmed[..first]);
        let uri = trimmed
            .get(first + 1..last)
            .unwrap_or_else(|| &trimmed[last..last]);
        let fault = if trimmed.len() != line.len() || uri.trim_ascii().len() != uri.len() {
            Some(Fault::StartLine)
        } else {
            version_fault(version)
        };
        Ok((
            Self::Request {
                method,
                uri: uri.trim_ascii(),
            },
            fault,
        ))
    }

    fn parse_status_line(line: &'a [u8]) -> Result<(Self, Option<Fault>), ParseError> {
        let (version, rest) = split_at_space(line);
        let (code, reason) = split_at_space(rest);
        let status = number(code)
            .filter(|status| code.len() == 3 && (100..700).contains(status))
            .ok_or(ParseError::BadStatus)?;
        Ok((
            Self::Response {
                status: status as u16,
                reason,
            },
            version_fault(version),
        ))
    }
}

fn split_at_space(text: &[u8]) -> (&[u8], &[u8]) {
    match find(text, b' ') {
        Some(space) => (&text[..space], &text[space + 1..]),
        None => (text, &[]),
    }
}

fn is_version(text: &[u8]) -> bool {
    text.get(..4)
        .is_some_and(|start| start.eq_ignore_ascii_case(b"SIP/"))
}

fn version_fault(version: &[u8]) -> Option<Fault> {
    (&version[4..] != b"2.0").then_some(Fault::Version)
}
