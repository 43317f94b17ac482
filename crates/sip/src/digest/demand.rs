//! A challenge as a client reads it.

use super::{Algorithm, DigestError, parameters};

/// What a server asks for. Texts are as they stand between their quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Demand<'a> {
    /// Where: what the user's password is for.
    pub realm: &'a str,
    /// What the credentials are to be made with.
    pub nonce: &'a str,
    /// What the credentials are to repeat.
    pub opaque: Option<&'a str>,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Whether requests are to be counted: `qop=auth`. Servers older than RFC 7616 may ask for none.
    pub is_counted: bool,
    /// Whether the credentials were good but for their nonce.
    pub is_stale: bool,
}

impl<'a> Demand<'a> {
    /// Reads the value of one WWW-Authenticate or Proxy-Authenticate.
    ///
    /// # Errors
    /// It is no challenge that a [`Prover`](super::Prover) can meet: of several, a client takes the first
    /// that it can (RFC 8760 §2.4).
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
