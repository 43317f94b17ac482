//! A client that knows a password.

use super::{Demand, Ha1, credentials::response};

/// Answers a challenge, and uses its nonce again while the server accepts it.
#[derive(Debug)]
pub struct Prover {
    ha1: Ha1,
    nonce: Box<str>,
    is_counted: bool,
    /// The parameters that all credentials have.
    common: Box<str>,
}

impl Prover {
    /// Makes a prover for this challenge and this user, whose name must need no escapes between
    /// quotes.
    pub fn new(demand: &Demand<'_>, user: &str, password: &str) -> Self {
        let Demand {
            realm,
            nonce,
            algorithm,
            ..
        } = *demand;
        let name = algorithm.as_str();
        let mut common =
            format!("username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", algorithm={name}");
        if let Some(opaque) = demand.opaque {
            common += &format!(", opaque=\"{opaque}\"");
        }
        Self {
            ha1: Ha1::new(
                algorithm,
                user.as_bytes(),
                realm.as_bytes(),
                password.as_bytes(),
            ),
            nonce: nonce.into(),
            is_counted: demand.is_counted,
            common: common.into(),
        }
    }

    /// The value of an Authorization or Proxy-Authorization for a request of this method and URI.
    /// The request is the `nc`-th with the nonce, from 1. `cnonce` must be unpredictable.
    pub fn credentials(&self, method: &str, uri: &str, nc: u32, cnonce: u64) -> String {
        let (nc, cnonce) = (format!("{nc:08x}"), format!("{cnonce:016x}"));
        let counted = (nc.as_bytes(), cnonce.as_bytes());
        let response = response(
            &self.ha1,
            method.as_bytes(),
            uri.as_bytes(),
            self.nonce.as_bytes(),
            self.is_counted.then_some(counted),
        );
        let response = String::from_utf8_lossy(response.as_bytes());
        let common = &self.common;
        let value = format!("Digest {common}, uri=\"{uri}\", response=\"{response}\"");
        if self.is_counted {
            value + &format!(", qop=auth, nc={nc}, cnonce=\"{cnonce}\"")
        } else {
            value
        }
    }
}
