//! Reads the bytes of a capture, down to the payload of UDP and TCP.

mod packets;
mod records;
mod stream;
mod transport;

pub(crate) use packets::{Item, Packet, Packets};
pub(crate) use stream::{HEADERS_MAX, Piece, Streams, is_tls};
pub(crate) use transport::{Decoder, Transport};

pub use packets::OpenError;
pub use stream::Decipher;

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, DefaultHasher},
};

/// A map with the same order in each run.
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;
