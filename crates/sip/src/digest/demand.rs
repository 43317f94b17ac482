//! A challenge as a client reads it.

use super::{Algorithm, DigestError, parameters};

/// A server's challenge. Texts are as they are between their quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Demand<'a> {
    /// The realm for which the password is valid.
    pub realm: &'a str,
    /// The nonce for the credentials.
    pub nonce: &'a str,
    /// The text that the credentials must repeat.
    pub opaque: Option<&'a str>,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Whether the client must count requests: `qop=auth`. Servers older than RFC 7616 may not ask
    /// for it.
    pub is_counted: bool,
    /// Whether only the nonce of the last credentials was wrong.
    pub is_stale: bool,
}

impl<'a> Demand<'a> {
    /// Reads the value of one WWW-Authenticate or Proxy-Authenticate.
    ///
    /// # Errors
    /// If a [`Prover`](super::Prover) can't answer this challenge. If there are several, a client
    /// takes the first that it can answer (RFC 8760 §2.4).
    pub fn parse(value: &'a [u8]) -> Result<Self, DigestError> {
        const NAMES: [&str; 6] = ["realm", "nonce", "opaque", "algorithm", "qop", "stale"];
        let [realm, nonce, opaque, algorithm, qop, stale] = parameters::parse(value, &NAMES)?;
        let text = |value: &'a [u8]| str::from_utf8(value).map_err(|_| DigestError::Malformed);
        let require =
            |name, value: Option<&'a [u8]>| value.ok_or(DigestError::Missing(name)).and_then(text);
        let mut offered = qop.unwrap_or(b"auth").split(|byte| *byte == b',');
        if !offered.any(|qop| qop.trim_ascii().eq_ignore_ascii_case(b"auth")) {
            return Err(DigestError::Qop);
        }
        Ok(Self {
            realm: require("realm", realm)?,
            nonce: require("nonce", nonce)?,
            opaque: opaque.map(text).transpose()?,
            algorithm: match algorithm {
                Some(name) => Algorithm::from_bytes(name).ok_or(DigestError::Algorithm)?,
                None => Algorithm::Md5,
            },
            is_counted: qop.is_some(),
            is_stale: stale.is_some_and(|stale| stale.eq_ignore_ascii_case(b"true")),
        })
    }
}
