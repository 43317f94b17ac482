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

use super::{address::address, secure::identity};
use crate::token::Token;
use tls::Identity;

/// The default port of the admin API, which names the Unix socket, too.
pub(crate) const ADMIN_PORT: u16 = 8060;

/// The settings of `[admin]`.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    /// Where it listens on TCP.
    pub(crate) address: SocketAddr,
    /// The path of its Unix socket.
    pub(crate) socket: PathBuf,
    /// The tokens that it takes on TCP.
    pub(crate) tokens: Vec<Token>,
    /// It speaks HTTPS on TCP; none: HTTP.
    pub(crate) tls: Option<tls::Server>,
}

impl Admin {
    /// How its URLs begin.
    pub(crate) fn scheme(&self) -> &'static str {
        match self.tls {
            Some(_) => "https",
            None => "http",
        }
    }
}

/// The places of the address and of the socket's path in the file.
#[derive(Debug)]
pub(crate) struct AdminPlaces {
    pub(crate) address: Place,
    pub(crate) socket: Place,
}

/// Reads `[admin]`, and what it shows by TLS, with its place.
pub(crate) fn admin(mut section: Section<'_>) -> (Admin, AdminPlaces, Option<At<Identity>>) {
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
    let identity = section.given_table("tls").and_then(|mut table| {
        let (value, at) = (identity(&mut table), table.at());
        table.finish();
        value.map(|value| At { value, at })
    });
    section.finish();
    let admin = Admin {
        address,
        socket: socket.value,
        tokens,
        tls: None,
    };
    (admin, places, identity)
}

fn token(value: &Value<'_>) -> Read<Token> {
    text(value)?.parse()
}
