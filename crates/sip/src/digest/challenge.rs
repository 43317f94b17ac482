//! What a server asks a client for: WWW-Authenticate and Proxy-Authenticate.

use super::Algorithm;

/// A demand for credentials.
#[derive(Clone, Copy, Debug)]
pub struct Challenge<'a> {
    /// Where: the domain, without quotes and backslashes.
    pub realm: &'a str,
    /// What [`Nonces::issue`](super::Nonces::issue) made.
    pub nonce: &'a str,
    /// Whether the client need only try again with this nonce, and not ask its user.
    pub stale: bool,
}

impl Challenge<'_> {
    /// The field's value for an algorithm. A server that takes several writes a field for each, the
    /// preferred first (RFC 8760 §2.3).
    pub fn value(&self, algorithm: Algorithm) -> String {
        let Self { realm, nonce, .. } = self;
        let algorithm = algorithm.as_str();
        let stale = if self.stale { ", stale=true" } else { "" };
        format!(
            "Digest realm=\"{realm}\", nonce=\"{nonce}\", algorithm={algorithm}, qop=\"auth\"{stale}"
        )
    }
}
