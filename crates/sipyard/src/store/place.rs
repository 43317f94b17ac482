//! Which store a command means.

use std::path::PathBuf;

use ::store::{Address, Limits, Store};
use clap::Args;

use super::Failure;
use crate::config;

/// Which store
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Place {
    /// The store that `[registrar]` of this configuration names
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The store: file:PATH or redis://HOST:PORT[,HOST:PORT...]
    #[arg(long, value_name = "STORE")]
    store: Option<Address>,
}

/// Whether a store's file must be there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    Required,
    Optional,
}

/// A store that was opened for a command.
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) address: Address,
    /// The registrar's; none if they are unknown.
    domains: Option<Vec<String>>,
}

impl Opened {
    /// Whether users of a domain can register.
    pub(crate) fn check_domain(&self, domain: &str) -> Result<(), String> {
        match &self.domains {
            Some(domains) if !domains.iter().any(|known| known == domain) => Err(format!(
                "{domain} is no domain of [registrar]: {}",
                domains.join(", ")
            )),
            _ => Ok(()),
        }
    }
}

impl Place {
    /// Opens the store.
    pub(crate) fn open(self, existing: Existing) -> Result<Opened, Failure> {
        let (address, domains) = self.read()?;
        match &address {
            Address::Memory => {
                let why =
                    "the store is memory: it is in the node's process alone, and gone with it";
                return Err(Failure::refused(why));
            }
            Address::File(path) if existing == Existing::Required && !path.exists() => {
                let path = path.display();
                return Err(Failure::refused(format!("{path}: no such file")));
            }
            Address::File(_) | Address::Redis(_) => (),
        }
        let store = Store::open(&address, &Limits::default());
        Ok(Opened {
            store: store.map_err(|error| Failure::Failed(error.to_string()))?,
            address,
            domains,
        })
    }

    /// The address and, if they are known, the domains.
    fn read(self) -> Result<(Address, Option<Vec<String>>), Failure> {
        if let Some(address) = self.store {
            return Ok((address, None));
        }
        let path = self.config.expect("clap requires one of them");
        let configuration = config::load(&path).map_err(|problems| {
            Failure::Refused(problems.iter().map(ToString::to_string).collect())
        })?;
        let registrar = configuration.registrar.ok_or_else(|| {
            let path = path.display();
            Failure::refused(format!(
                "{path}: no [registrar]: add it with domains and store"
            ))
        })?;
        Ok((registrar.store, Some(registrar.rules.domains)))
    }
}
