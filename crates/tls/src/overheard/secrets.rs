//! The secrets of sessions, as a file tells them that SSLKEYLOGFILE names.

use std::{collections::HashMap, path::Path};

use crate::{Error, identity::read};

/// What a ClientHello is known by.
pub(super) type Random = [u8; 32];

/// What a secret is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// All of a session, in TLS 1.2.
    Master,
    ClientHandshake,
    ServerHandshake,
    ClientTraffic,
    ServerTraffic,
}

impl Kind {
    fn of(label: &str) -> Option<Self> {
        Some(match label {
            "CLIENT_RANDOM" => Self::Master,
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET" => Self::ClientHandshake,
            "SERVER_HANDSHAKE_TRAFFIC_SECRET" => Self::ServerHandshake,
            "CLIENT_TRAFFIC_SECRET_0" => Self::ClientTraffic,
            "SERVER_TRAFFIC_SECRET_0" => Self::ServerTraffic,
            _ => return None,
        })
    }
}

/// The secrets of sessions.
#[derive(Default)]
pub struct Secrets(HashMap<(Random, Kind), Vec<u8>>);

impl Secrets {
    /// Reads such a file. Lines that are none of it are passed over.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn of_file(path: &Path) -> Result<Self, Error> {
        Ok(Self::of_text(&String::from_utf8_lossy(&read(path)?)))
    }

    /// The same of such a file's text.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let entry = |line: &str| {
            let mut words = line.split_whitespace();
            let kind = Kind::of(words.next()?)?;
            let random = bytes(words.next()?)?.try_into().ok()?;
            Some(((random, kind), bytes(words.next()?)?))
        };
        Self(text.lines().filter_map(entry).collect())
    }

    pub(super) fn get(&self, random: &Random, kind: Kind) -> Option<&[u8]> {
        self.0.get(&(*random, kind)).map(Vec::as_slice)
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}
