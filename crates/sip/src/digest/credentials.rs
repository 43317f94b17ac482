//! What a client answers to a challenge: Authorization and Proxy-Authorization.

use std::fmt;

use super::{Algorithm, Ha1};
use crate::reader::{Malformed, Reader};

/// Why a field's value is no credentials that can be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DigestError {
    /// Another scheme than Digest.
    Scheme,
    /// Parameters that can't be read, or one of them twice.
    Malformed,
    /// A parameter is missing.
    Missing(&'static str),
    /// An algorithm that is neither MD5 nor SHA-256.
    Algorithm,
    /// No `qop`, or another than `auth`.
    Qop,
}

impl fmt::Display for DigestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme => f.write_str("another scheme than Digest"),
            Self::Malformed => f.write_str("malformed parameters"),
            Self::Missing(name) => write!(f, "no {name}"),
            Self::Algorithm => f.write_str("an algorithm that was not offered"),
            Self::Qop => f.write_str("not qop=auth"),
        }
    }
}

impl std::error::Error for DigestError {}

/// A client's proof that it knows a user's secret. Texts are as they stand between their quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credentials<'a> {
    /// Who it claims to be.
    pub username: &'a [u8],
    /// Where: what the challenge said.
    pub realm: &'a [u8],
    /// What the challenge said.
    pub nonce: &'a [u8],
    /// The request's URI, as the client sent it.
    pub uri: &'a [u8],
    /// The algorithm.
    pub algorithm: Algorithm,
    /// How many requests the client has sent with this nonce.
    pub nc: u32,
    nc_text: &'a [u8],
    cnonce: &'a [u8],
    response: &'a [u8],
}

impl<'a> Credentials<'a> {
    /// Reads the value of one Authorization or Proxy-Authorization.
    ///
    /// # Errors
    /// They are no digest with `qop=auth`.
    pub fn parse(value: &'a [u8]) -> Result<Self, DigestError> {
        let parts = Parts::parse(value)?;
        let [
            username,
            realm,
            nonce,
            uri,
            response,
            cnonce,
            nc,
            algorithm,
            qop,
        ] = parts.values;
        let require = |name, value: Option<&'a [u8]>| value.ok_or(DigestError::Missing(name));
        if !qop.is_some_and(|qop| qop.eq_ignore_ascii_case(b"auth")) {
            return Err(DigestError::Qop);
        }
        let algorithm = match algorithm {
            Some(name) => Algorithm::from_bytes(name).ok_or(DigestError::Algorithm)?,
            None => Algorithm::Md5,
        };
        let nc_text = require("nc", nc)?;
        Ok(Self {
            username: require("username", username)?,
            realm: require("realm", realm)?,
            nonce: require("nonce", nonce)?,
            uri: require("uri", uri)?,
            algorithm,
            nc: hex_number(nc_text).ok_or(DigestError::Malformed)?,
            nc_text,
            cnonce: require("cnonce", cnonce)?,
            response: require("response", response)?,
        })
    }

    /// Whether whoever made them for a request of this method knows the secret (RFC 7616 §3.4.1).
    pub fn matches(&self, method: &[u8], ha1: &Ha1) -> bool {
        let a1 = ha1.hex();
        let a2 = self.algorithm.hash(&[method, self.uri]);
        let parts = [
            a1.as_bytes(),
            self.nonce,
            self.nc_text,
            self.cnonce,
            b"auth",
            a2.as_bytes(),
        ];
        self.algorithm == ha1.algorithm() && self.algorithm.hash(&parts).is(self.response)
    }
}

const NAMES: [&[u8]; 9] = [
    b"username",
    b"realm",
    b"nonce",
    b"uri",
    b"response",
    b"cnonce",
    b"nc",
    b"algorithm",
    b"qop",
];

/// The parameters of a field's value, in the order of [`NAMES`].
struct Parts<'a> {
    values: [Option<&'a [u8]>; NAMES.len()],
}

impl<'a> Parts<'a> {
    fn parse(value: &'a [u8]) -> Result<Self, DigestError> {
        let mut reader = Reader::new(value, 0, value.len());
        reader.skip_blank();
        match reader.token() {
            Ok(scheme) if scheme.eq_ignore_ascii_case(b"Digest") => (),
            _ => return Err(DigestError::Scheme),
        }
        reader.skip_blank();
        let mut parts = Self {
            values: [None; NAMES.len()],
        };
        while reader.peek().is_some() {
            let read = parts.read(&mut reader);
            read.map_err(|Malformed| DigestError::Malformed)?;
        }
        Ok(parts)
    }

    /// Reads a parameter and the comma behind it.
    fn read(&mut self, reader: &mut Reader<'a>) -> Result<(), Malformed> {
        let name = reader.token()?;
        if !reader.separator(b'=') {
            return Err(Malformed);
        }
        let value = read_value(reader)?;
        if let Some(known) = NAMES
            .iter()
            .position(|known| known.eq_ignore_ascii_case(name))
            && self.values[known].replace(value).is_some()
        {
            return Err(Malformed);
        }
        if reader.separator(b',') || reader.peek().is_none() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

/// A token, or what is between quotes.
fn read_value<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    if !reader.byte(b'"') {
        return reader.token();
    }
    let start = reader.at();
    reader.unquote()?;
    let quoted = reader.since(start);
    Ok(&quoted[..quoted.len() - 1])
}

fn hex_number(text: &[u8]) -> Option<u32> {
    let is_hex = !text.is_empty() && text.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_hex)?;
    u32::from_str_radix(text, 16).ok()
}
