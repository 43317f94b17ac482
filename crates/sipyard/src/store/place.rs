//! Selects the store that a command uses.

use std::path::PathBuf;

use ::store::{Address, Limits, OpenError, Store};
use clap::Args;

use super::{Failure, keeper::Keeper, remote::Remote};
use crate::config::{self, Configuration};

/// The store to use
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Place {
    /// A configuration file: the command uses the store that its `[registrar]` names
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The store itself: file:PATH or redis://HOST:PORT[,HOST:PORT...]
    #[arg(long, value_name = "STORE")]
    store: Option<Address>,
}

/// Whether the store's file must exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    Required,
    Optional,
}

/// A store that is open for a command.
pub(crate) struct Opened {
    pub(crate) keeper: Keeper,
    pub(crate) address: Address,
    /// The registrar's domains; none if they are unknown.
    domains: Option<Vec<String>>,
}

impl Opened {
    /// Checks that users of a domain can register.
    pub(crate) fn check_domain(&self, domain: &str) -> Result<(), String> {
        match &self.domains {
            Some(domains) if !domains.iter().any(|known| known == domain) => Err(format!(
                "{domain} is not a domain of [registrar], which has: {}",
                domains.join(", ")
            )),
            _ => Ok(()),
        }
    }
}

impl Place {
    /// Opens the store, or connects to the node that has it open.
    pub(crate) fn open(self, existing: Existing) -> Result<Opened, Failure> {
        let (address, configuration) = self.read()?;
        match &address {
            Address::File(path) if existing == Existing::Required && !path.exists() => {
                let path = path.display();
                return Err(Failure::refused(format!(
                    "{path}: there is no such file: check the path"
                )));
            }
            Address::Memory if configuration.is_none() => {
                let why = "the store is in the memory of the node's process, where no command can \
                           open it; use --config FILE to ask the running node";
                return Err(Failure::refused(why));
            }
            Address::Memory | Address::File(_) | Address::Redis(_) => (),
        }
        Ok(Opened {
            keeper: keeper(&address, configuration.as_ref())?,
            address,
            domains: configuration
                .and_then(|configuration| Some(configuration.registrar?.rules.domains)),
        })
    }

    /// The address, and the configuration if the command got one.
    fn read(self) -> Result<(Address, Option<Configuration>), Failure> {
        if let Some(address) = self.store {
            return Ok((address, None));
        }
        let path = self.config.expect("clap requires one of them");
        let configuration = config::load(&path).map_err(|problems| {
            Failure::Refused(problems.iter().map(ToString::to_string).collect())
        })?;
        let registrar = configuration.registrar.as_ref().ok_or_else(|| {
            let path = path.display();
            Failure::refused(format!(
                "{path}: there is no [registrar]: add it with domains and store"
            ))
        })?;
        Ok((registrar.store.clone(), Some(configuration)))
    }
}

fn keeper(address: &Address, configuration: Option<&Configuration>) -> Result<Keeper, Failure> {
    let failed = |error: OpenError| Failure::Failed(error.to_string());
    let Some(configuration) = configuration else {
        let store = Store::open(address, &Limits::default());
        return store.map(Keeper::Store).map_err(|error| match error {
            OpenError::InUse(_) => Failure::Failed(format!(
                "{error}; use --config FILE to ask the running node"
            )),
            error => failed(error),
        });
    };
    if *address == Address::Memory {
        return Ok(Keeper::Node(Remote::of(configuration)));
    }
    match Store::open(address, &Limits::default()) {
        Ok(store) => Ok(Keeper::Store(store)),
        Err(OpenError::InUse(_)) => Ok(Keeper::Node(Remote::of(configuration))),
        Err(error) => Err(failed(error)),
    }
}
