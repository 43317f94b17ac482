//! The answers of a client to a challenge: Authorization and Proxy-Authorization.

use std::fmt;

use super::{Algorithm, Ha1, hash::Hex, parameters};

/// Why the value of a field can't be used as credentials.
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
            Self::Scheme => f.write_str("a scheme other than Digest"),
            Self::Malformed => f.write_str("malformed parameters"),
            Self::Missing(name) => write!(f, "no {name}"),
            Self::Algorithm => f.write_str("an algorithm that was not offered"),
            Self::Qop => f.write_str("not qop=auth"),
        }
    }
}

impl std::error::Error for DigestError {}

/// The proof of a client that it knows a user's secret. Texts are as they are between their quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credentials<'a> {
    /// The user whom it claims to be.
    pub username: &'a [u8],
    /// The realm of the challenge.
    pub realm: &'a [u8],
    /// The nonce of the challenge.
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
    /// If they are not a digest with `qop=auth`.
    pub fn parse(value: &'a [u8]) -> Result<Self, DigestError> {
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
        ] = parameters::parse(value, &NAMES)?;
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

    /// Whether the maker of these credentials, for a request of this method, knows the secret.
    pub fn matches(&self, method: &[u8], ha1: &Ha1) -> bool {
        let counted = Some((self.nc_text, self.cnonce));
        self.algorithm == ha1.algorithm()
            && response(ha1, method, self.uri, self.nonce, counted).is(self.response)
    }
}

const NAMES: [&str; 9] = [
    "username",
    "realm",
    "nonce",
    "uri",
    "response",
    "cnonce",
    "nc",
    "algorithm",
    "qop",
];

/// The proof that the sender of a request knows the secret (RFC 7616 §3.4.1). `counted` are the count
/// and the client's nonce; without `qop` there are none (RFC 3261 §22.4 (8)).
pub(super) fn response(
    ha1: &Ha1,
    method: &[u8],
    uri: &[u8],
    nonce: &[u8],
    counted: Option<(&[u8], &[u8])>,
) -> Hex {
    let algorithm = ha1.algorithm();
    let (a1, a2) = (ha1.hex(), algorithm.hash(&[method, uri]));
    let (a1, a2) = (a1.as_bytes(), a2.as_bytes());
    match counted {
        Some((nc, cnonce)) => algorithm.hash(&[a1, nonce, nc, cnonce, b"auth", a2]),
        None => algorithm.hash(&[a1, nonce, a2]),
    }
}

fn hex_number(text: &[u8]) -> Option<u32> {
    let is_hex = !text.is_empty() && text.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_hex)?;
    u32::from_str_radix(text, 16).ok()
}
