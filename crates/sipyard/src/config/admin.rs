//! The section `[admin]`: where the admin API is, and which tokens it takes on TCP.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use admin_client::default_socket;
use settings::{
    At, Place, Read, Section, Value,
    value::{list, name, text},
};

use super::address::address;
use crate::token::Token;

/// The default port of the admin API, which names the Unix socket, too.
pub(crate) const ADMIN_PORT: u16 = 8060;

/// The settings of `[admin]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Admin {
    /// Where it listens on TCP.
    pub(crate) address: SocketAddr,
    /// The path of its Unix socket.
    pub(crate) socket: PathBuf,
    /// The tokens that it takes on TCP.
    pub(crate) tokens: Vec<Token>,
}

/// The places of the address and of the socket's path in the file.
#[derive(Debug)]
pub(crate) struct AdminPlaces {
    pub(crate) address: Place,
    pub(crate) socket: Place,
}

/// Reads `[admin]`.
pub(crate) fn admin(mut section: Section<'_>) -> (Admin, AdminPlaces) {
    let given = section.get("address", address);
    let At { value: address, at } = given.unwrap_or_else(|| At {
        value: SocketAddr::from((Ipv4Addr::LOCALHOST, ADMIN_PORT)),
        at: section.at(),
    });
    let folder = section.folder();
    let given = section.get("socket", |value| Ok(folder.join(name(value)?)));
    let socket = given.unwrap_or_else(|| At {
        value: default_socket(address.port()),
        at: section.at(),
    });
    let places = AdminPlaces {
        address: section.place(at),
        socket: section.place(socket.at),
    };
    let tokens = section.get_or("tokens", Vec::new(), list(token));
    section.finish();
    let admin = Admin {
        address,
        socket: socket.value,
        tokens,
    };
    (admin, places)
}

fn token(value: &Value<'_>) -> Read<Token> {
    text(value)?.parse()
}
