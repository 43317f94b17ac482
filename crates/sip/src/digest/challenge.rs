//! The challenges of a server: WWW-Authenticate and Proxy-Authenticate.

use super::Algorithm;

/// A challenge to a client.
#[derive(Clone, Copy, Debug)]
pub struct Challenge<'a> {
    /// The realm: the domain, without quotes and backslashes.
    pub realm: &'a str,
    /// The nonce from [`Nonces::issue`](super::Nonces::issue).
    pub nonce: &'a str,
    /// Whether the client can try again with this nonce, without asking its user.
    pub stale: bool,
}

impl Challenge<'_> {
    /// The value of the field for an algorithm. A server that accepts several algorithms writes a
    /// field for each, the preferred one first (RFC 8760 §2.3).
    pub fn value(&self, algorithm: Algorithm) -> String {
        let Self { realm, nonce, .. } = self;
        let algorithm = algorithm.as_str();
        let stale = if self.stale { ", stale=true" } else { "" };
        format!(
            "Digest realm=\"{realm}\", nonce=\"{nonce}\", algorithm={algorithm}, qop=\"auth\"{stale}"
        )
    }
}
