//! The bytes of a capture, down to what UDP and TCP carried.

mod packets;
mod records;
mod stream;
mod transport;

pub(crate) use packets::{Item, Packet, Packets};
pub(crate) use stream::{HEADERS_MAX, Piece, Streams};
pub(crate) use transport::{Decoder, Transport};

pub use packets::OpenError;

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, DefaultHasher},
};

/// A map whose order is the same on each run.
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;
