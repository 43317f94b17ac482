//! The DNS client of a node. Its thread starts when there is a first name to ask for.

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

    /// The settings, as configured at the start.
    pub(crate) fn dns(&self) -> &Dns {
        &self.dns
    }

    /// The look-ups; none before the first name.
    pub(crate) fn started(&self) -> Option<&Names> {
        self.names.get()
    }

    /// The look-ups, which this starts if they do not run yet.
    ///
    /// # Errors
    /// If their threads can't be started.
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
