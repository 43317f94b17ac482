//! The DNS of a node: asked by a thread that starts when the first name is there to be asked for.

use std::{io, sync::OnceLock};

use names::{Limits, Names};

use crate::config::Dns;

pub(crate) struct Resolver {
    dns: Dns,
    names: OnceLock<Names>,
}

impl Resolver {
    pub(crate) fn new(dns: Dns) -> Self {
        Self {
            dns,
            names: OnceLock::new(),
        }
    }

    /// As configured at the start.
    pub(crate) fn dns(&self) -> &Dns {
        &self.dns
    }

    /// The look-ups, once a name was asked for.
    pub(crate) fn started(&self) -> Option<&Names> {
        self.names.get()
    }

    /// The look-ups.
    ///
    /// # Errors
    /// There is nobody to ask.
    pub(crate) fn names(&self) -> io::Result<&Names> {
        if self.names.get().is_none() {
            let limits = Limits {
                wait_max: self.dns.timeout,
                ..Limits::default()
            };
            // Whoever was faster has started the same.
            let _ = self.names.set(Names::start(&self.dns.servers, limits)?);
        }
        Ok(self.names.get().expect("it was set just now"))
    }
}
