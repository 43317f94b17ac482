//! What a server asks a client for: WWW-Authenticate and Proxy-Authenticate.

use super::Algorithm;

/// A demand for credentials.
#[derive(Clone, Copy, Debug)]
pub struct Challenge<'a> {
    /// Where: the domain, without quotes and backslashes.
    pub realm: &'a str,
    /// What [`Nonces::issue`](super::Nonces::issue) wrote.
    pub nonce: &'a [u8],
    /// Whether the client need only try again with this nonce, and not ask its user.
    pub stale: bool,
}

impl Challenge<'_> {
    /// Appends one header field for each algorithm, the preferred first (RFC 8760 §2.3).
    pub fn write(&self, header: &str, algorithms: &[Algorithm], out: &mut Vec<u8>) {
        for algorithm in algorithms {
            let stale = if self.stale { ", stale=true" } else { "" };
            let parts = [
                header.as_bytes(),
                b": Digest realm=\"",
                self.realm.as_bytes(),
                b"\", nonce=\"",
                self.nonce,
                b"\", algorithm=",
                algorithm.as_str().as_bytes(),
                b", qop=\"auth\"",
                stale.as_bytes(),
                b"\r\n",
            ];
            parts.iter().for_each(|part| out.extend_from_slice(part));
        }
    }
}
