//! What is overloaded.

use std::{io, net::SocketAddr};

use serde::{Deserialize, Serialize};

use crate::subject::{self, Running, Subject as Program};

/// A program in one of its roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Subject {
    /// Calls through a route without state.
    Stateless,
    /// Calls through a route with transactions.
    Stateful,
    /// Calls to users who are registered.
    LookUp,
    /// REGISTERs.
    Registrar,
    /// Calls through Kamailio's dispatcher by call load.
    Kamailio,
    /// The same, and pipelimit refuses what is more than [`LIMIT`] of its capacity.
    KamailioLimited,
}

/// New calls per second that Kamailio is told to take, of its capacity: with more its queue would grow.
const LIMIT: f64 = 0.9;

/// What is offered to a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Calls,
    /// Calls to the users of [`super::crowd`], who register first.
    CallsToUsers,
    Registers,
}

impl Subject {
    pub(super) const ALL: [Self; 6] = [
        Self::Stateless,
        Self::Stateful,
        Self::LookUp,
        Self::Registrar,
        Self::Kamailio,
        Self::KamailioLimited,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Stateless => "stateless edge",
            Self::Stateful => "stateful proxy",
            Self::LookUp => "registrar, calls",
            Self::Registrar => "registrar, REGISTERs",
            Self::Kamailio => "Kamailio, call load",
            Self::KamailioLimited => "Kamailio, pipelimit",
        }
    }

    pub(super) fn is_ours(self) -> bool {
        !matches!(self, Self::Kamailio | Self::KamailioLimited)
    }

    pub(super) fn work(self) -> Work {
        match self {
            Self::Stateless | Self::Stateful | Self::Kamailio | Self::KamailioLimited => {
                Work::Calls
            }
            Self::LookUp => Work::CallsToUsers,
            Self::Registrar => Work::Registers,
        }
    }

    /// Whether its capacity shows in a closed loop beside the load: REGISTERs come from a loop of their own, and pipelimit
    /// would refuse a part of the loop's.
    pub(super) fn is_compared(self) -> bool {
        !matches!(self, Self::Registrar | Self::KamailioLimited)
    }

    /// Why it cannot be measured here, if so.
    pub(super) fn missing(self) -> Option<String> {
        let program = match self {
            Self::Kamailio | Self::KamailioLimited => Program::KamailioCallLoad,
            Self::Stateless | Self::Stateful | Self::LookUp | Self::Registrar => Program::Sipyard,
        };
        program.missing()
    }

    /// Starts it before these servers. Its capacity is known after it was measured.
    pub(super) fn start(
        self,
        servers: &[SocketAddr],
        capacity_per_s: Option<f64>,
    ) -> io::Result<Running> {
        let running = match self {
            Self::Stateless => subject::edge("tlwl", servers),
            Self::Stateful => subject::stateful_edge("tlwl", servers),
            Self::LookUp | Self::Registrar => subject::registrar(false),
            Self::Kamailio => subject::kamailio_call_load(servers, None),
            Self::KamailioLimited => {
                let limit = capacity_per_s.map_or(u32::MAX >> 1, |per_s| (LIMIT * per_s) as u32);
                subject::kamailio_call_load(servers, Some(limit))
            }
        }?;
        subject::wait_for_sockets(&[running.address])?;
        Ok(running)
    }
}
