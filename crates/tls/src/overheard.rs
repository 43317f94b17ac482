//! What others have said to each other over TLS, if their secrets are known: for captures, not for calls.
//!
//! Programs write the secrets of their sessions to the file that SSLKEYLOGFILE names. With these, records of TLS 1.2
//! and 1.3 can be read whose cipher is AES-GCM or ChaCha20-Poly1305.

mod keys;
mod secrets;

use std::{collections::HashMap, net::SocketAddr};

use keys::{Keys, Suite};
pub use secrets::Secrets;
use secrets::{Kind, Random};

/// What a ServerHello has in the place of its random number when it is none: RFC 8446 §4.1.3.
const RETRY: Random = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;
const HEADER_BYTES: usize = 5;

/// Connections at most; more are not read.
const CONNECTIONS_MAX: usize = 65_536;

/// Reads the bytes of connections, direction by direction.
#[derive(Debug, Default)]
pub struct Overheard {
    secrets: Secrets,
    connections: HashMap<(SocketAddr, SocketAddr), Connection>,
}

#[derive(Debug)]
struct Connection {
    /// Who began.
    client: SocketAddr,
    client_random: Random,
    /// Once the server has chosen.
    chosen: Option<Chosen>,
    /// Of the client, and of the server.
    directions: [Direction; 2],
}

#[derive(Clone, Copy, Debug)]
struct Chosen {
    server_random: Random,
    suite: Suite,
    is_1_3: bool,
}

#[derive(Debug, Default)]
struct Direction {
    keys: Option<Keys>,
    /// The secret that the keys were made of, in TLS 1.3.
    secret: Vec<u8>,
    /// Whether the keys are those of the handshake, in TLS 1.3.
    is_handshake: bool,
    /// Handshake messages that are not whole.
    messages: Vec<u8>,
}

impl Overheard {
    /// With these secrets.
    #[must_use]
    pub fn new(secrets: Secrets) -> Self {
        Self {
            secrets,
            connections: HashMap::new(),
        }
    }

    /// Takes the next bytes from one end of a connection to the other. Appends what they say to `plain`; returns how
    /// many of them are read, as a record may not be whole. None: they can't be read.
    pub fn take(
        &mut self,
        (from, to): (SocketAddr, SocketAddr),
        bytes: &[u8],
        plain: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut read = 0;
        while let Some((header, rest)) = bytes[read..].split_first_chunk::<HEADER_BYTES>() {
            let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
            let Some(body) = rest.get(..length) else {
                break;
            };
            self.record((from, to), *header, body, plain)?;
            read += HEADER_BYTES + length;
        }
        Some(read)
    }

    fn record(
        &mut self,
        (from, to): (SocketAddr, SocketAddr),
        header: [u8; HEADER_BYTES],
        body: &[u8],
        plain: &mut Vec<u8>,
    ) -> Option<()> {
        let key = (from.min(to), from.max(to));
        if let Some(random) = hello(header[0], body, 1) {
            let is_again = self
                .connections
                .get(&key)
                .is_some_and(|known| known.client_random == random && known.chosen.is_none());
            if is_again {
                return Some(());
            }
            if self.connections.len() >= CONNECTIONS_MAX {
                return None;
            }
            let connection = Connection {
                client: from,
                client_random: random,
                chosen: None,
                directions: Default::default(),
            };
            self.connections.insert(key, connection);
            return Some(());
        }
        let connection = self.connections.get_mut(&key)?;
        connection.record(&self.secrets, from, header, body, plain)
    }
}

impl Connection {
    fn record(
        &mut self,
        secrets: &Secrets,
        from: SocketAddr,
        header: [u8; HEADER_BYTES],
        body: &[u8],
        plain: &mut Vec<u8>,
    ) -> Option<()> {
        let side = usize::from(from != self.client);
        if self.chosen.is_none() {
            if hello(header[0], body, 2) == Some(RETRY) {
                return Some(());
            }
            if let Some(chosen) = (side == 1).then(|| chosen(header[0], body)).flatten() {
                self.chosen = Some(chosen);
                self.begin(secrets, chosen)?;
            }
            return Some(());
        }
        let chosen = self.chosen?;
        match (header[0], chosen.is_1_3) {
            (CHANGE_CIPHER_SPEC, true) => Some(()),
            (CHANGE_CIPHER_SPEC, false) => self.begin_1_2(secrets, chosen, side),
            (_, true) => self.record_1_3(secrets, chosen, side, header, body, plain),
            (kind, false) => {
                let Some(keys) = &mut self.directions[side].keys else {
                    return Some(());
                };
                let opened = keys.open_1_2(header, body)?;
                if kind == DATA {
                    plain.extend_from_slice(&opened);
                }
                Some(())
            }
        }
    }

    /// The server has chosen: in TLS 1.3 all that follows is encrypted.
    fn begin(&mut self, secrets: &Secrets, chosen: Chosen) -> Option<()> {
        if !chosen.is_1_3 {
            return Some(());
        }
        let kinds = [Kind::ClientHandshake, Kind::ServerHandshake];
        for (direction, kind) in self.directions.iter_mut().zip(kinds) {
            let secret = secrets.get(&self.client_random, kind)?;
            *direction = Direction {
                keys: Some(Keys::of_secret(chosen.suite, secret)?),
                secret: secret.to_vec(),
                is_handshake: true,
                messages: Vec::new(),
            };
        }
        Some(())
    }

    /// One side of TLS 1.2 begins to encrypt.
    fn begin_1_2(&mut self, secrets: &Secrets, chosen: Chosen, side: usize) -> Option<()> {
        let master = secrets.get(&self.client_random, Kind::Master)?;
        let randoms = [chosen.server_random, self.client_random];
        self.directions[side].keys = Some(Keys::of_master(chosen.suite, master, randoms, side)?);
        Some(())
    }

    fn record_1_3(
        &mut self,
        secrets: &Secrets,
        chosen: Chosen,
        side: usize,
        header: [u8; HEADER_BYTES],
        body: &[u8],
        plain: &mut Vec<u8>,
    ) -> Option<()> {
        let direction = &mut self.directions[side];
        let opened = direction.keys.as_mut()?.open_1_3(header, body)?;
        // RFC 8446 §5.2: zeros are padding, and the last byte before them is the kind.
        let end = opened.iter().rposition(|&byte| byte != 0)?;
        let (content, kind) = (&opened[..end], opened[end]);
        match kind {
            DATA => plain.extend_from_slice(content),
            HANDSHAKE => {
                direction.messages.extend_from_slice(content);
                while let Some(kind) = direction.next_message() {
                    let next = match (kind, direction.is_handshake, side) {
                        (20, true, 0) => secrets
                            .get(&self.client_random, Kind::ClientTraffic)?
                            .to_vec(),
                        (20, true, _) => secrets
                            .get(&self.client_random, Kind::ServerTraffic)?
                            .to_vec(),
                        (24, false, _) => keys::updated(chosen.suite, &direction.secret)?,
                        _ => continue,
                    };
                    direction.keys = Some(Keys::of_secret(chosen.suite, &next)?);
                    (direction.secret, direction.is_handshake) = (next, false);
                }
            }
            _ => {}
        }
        Some(())
    }
}

impl Direction {
    /// Takes the next handshake message that is whole; its kind.
    fn next_message(&mut self) -> Option<u8> {
        let &[kind, a, b, c, ..] = &self.messages[..] else {
            return None;
        };
        let length = 4 + u32::from_be_bytes([0, a, b, c]) as usize;
        if self.messages.len() < length {
            return None;
        }
        self.messages.drain(..length);
        Some(kind)
    }
}

/// The random number in a ClientHello (1) or ServerHello (2).
fn hello(kind: u8, body: &[u8], wanted: u8) -> Option<Random> {
    if kind != HANDSHAKE || body.first() != Some(&wanted) {
        return None;
    }
    body.get(6..)?.first_chunk().copied()
}

/// What a ServerHello says.
fn chosen(kind: u8, body: &[u8]) -> Option<Chosen> {
    let server_random = hello(kind, body, 2)?;
    let session = usize::from(*body.get(38)?);
    let rest = body.get(39 + session..)?;
    let &[a, b, _, ..] = rest else {
        return None;
    };
    let mut extensions = rest.get(5..).unwrap_or_default();
    let mut is_1_3 = false;
    while let [a, b, c, d, more @ ..] = extensions {
        let length = usize::from(u16::from_be_bytes([*c, *d]));
        let value = more.get(..length)?;
        is_1_3 |= [*a, *b] == [0, 43] && value == [3, 4];
        extensions = &more[length..];
    }
    Some(Chosen {
        server_random,
        suite: Suite::of(u16::from_be_bytes([a, b]))?,
        is_1_3,
    })
}
