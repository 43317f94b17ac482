//! Digest as user agents answer it: RFC 7616.

use sip::{
    Message,
    digest::{Demand, Prover},
};

/// What a phone knows of the last demand for its user's password: it answers with the same nonce until
/// it is told otherwise.
#[derive(Debug)]
pub(crate) struct Login {
    prover: Prover,
    header: &'static str,
    /// How many requests were made with it.
    nc: u32,
}

/// A 401 or a 407 that can be met.
pub(crate) struct Challenge<'a> {
    demand: Demand<'a>,
    header: &'static str,
}

impl<'a> Challenge<'a> {
    /// Of several that can be met, the first (RFC 8760 §2.4).
    pub(crate) fn of(response: &Message<'a>, status: u16) -> Option<Self> {
        let (asking, header) = match status {
            401 => ("WWW-Authenticate", "Authorization"),
            407 => ("Proxy-Authenticate", "Proxy-Authorization"),
            _ => return None,
        };
        let mut demands = response
            .headers()
            .filter(|(name, _)| name.eq_ignore_ascii_case(asking.as_bytes()))
            .filter_map(|(_, value)| Demand::parse(value).ok());
        let demand = demands.next()?;
        Some(Self { demand, header })
    }

    /// Whether what the phone showed was right but for its nonce.
    pub(crate) fn is_stale(&self) -> bool {
        self.demand.is_stale
    }

    pub(crate) fn meet(&self, user: &str, password: &str) -> Login {
        Login {
            prover: Prover::new(&self.demand, user, password),
            header: self.header,
            nc: 0,
        }
    }
}

impl Login {
    /// Another request is to be made with it.
    pub(crate) fn count(&mut self) {
        self.nc += 1;
    }

    /// The header line for the request that was counted last.
    pub(crate) fn line(&self, method: &str, uri: &str, cnonce: u64) -> String {
        let value = self.prover.credentials(method, uri, self.nc, cnonce);
        format!("{}: {value}\r\n", self.header)
    }
}
