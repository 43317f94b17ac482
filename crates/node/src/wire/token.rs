//! The affinity token: the user part of our Record-Route URI says which server a call is on.
//!
//! A node that has the cluster's secret routes an in-dialog request by the token alone. Its MAC
//! covers the server's address, the Call-ID and the tag of whoever started the dialog, so it
//! fits no other call and tells in which direction a request goes.

use std::net::{IpAddr, SocketAddr};

use super::keys::Keys;

/// What a token of ours says of the request that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Affinity {
    pub(crate) server: SocketAddr,
    pub(crate) direction: Direction,
}

/// Which way a request crosses the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Direction {
    ToServer,
    FromServer,
}

/// Who sent the request that started the dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Starter {
    Client = 0x10,
    Server = 0x20,
}

const MAC_BYTES: usize = 8;
const BYTES_MAX: usize = 1 + 16 + 2 + MAC_BYTES;
const _: () = assert!(
    BYTES_MAX.is_multiple_of(3) && (BYTES_MAX - 12).is_multiple_of(3),
    "tokens of both families are whole groups of three bytes"
);

/// Appends the token of a dialog that `starter` starts with tag `from_tag`.
pub(crate) fn write(
    keys: &Keys,
    server: SocketAddr,
    starter: Starter,
    call_id: &[u8],
    from_tag: &[u8],
    out: &mut Vec<u8>,
) {
    let mut bytes = [0; BYTES_MAX];
    let mut len = 1 + write_address(server, &mut bytes[1..]);
    bytes[0] = starter as u8 | (len - 1) as u8 & 0x0f;
    let mac = keys.token(&[&bytes[..len], call_id, from_tag]);
    bytes[len..len + MAC_BYTES].copy_from_slice(&mac.to_be_bytes());
    len += MAC_BYTES;
    base64_write(&bytes[..len], out);
}

/// Reads the token in `text`. None: it isn't ours, or belongs to another call.
pub(crate) fn read(
    keys: &Keys,
    text: &[u8],
    call_id: &[u8],
    from_tag: &[u8],
    to_tag: &[u8],
) -> Option<Affinity> {
    let mut buffer = [0; BYTES_MAX];
    let bytes = base64_read(text, &mut buffer)?;
    let (signed, mac) = bytes.split_last_chunk::<MAC_BYTES>()?;
    let (&head, address) = signed.split_first()?;
    let starter = match head & 0xf0 {
        0x10 => Starter::Client,
        0x20 => Starter::Server,
        _ => return None,
    };
    let server = read_address(address)?;
    let mac = u64::from_be_bytes(*mac);
    let of_starter = if keys.token(&[signed, call_id, from_tag]) == mac {
        true
    } else if keys.token(&[signed, call_id, to_tag]) == mac {
        false
    } else {
        return None;
    };
    let direction = match (starter, of_starter) {
        (Starter::Client, true) | (Starter::Server, false) => Direction::ToServer,
        (Starter::Client, false) | (Starter::Server, true) => Direction::FromServer,
    };
    Some(Affinity { server, direction })
}

/// Whether `text` has the form of a token, valid or not.
pub(crate) fn looks_like(text: &[u8]) -> bool {
    let mut buffer = [0; BYTES_MAX];
    base64_read(text, &mut buffer).is_some_and(|bytes| {
        matches!(bytes[0] >> 4, 1 | 2) && address_len(bytes[0]) + 1 + MAC_BYTES == bytes.len()
    })
}

/// The low bits of the head: how long the address is, 6 for IPv4, 2 for IPv6 (18 modulo 16).
fn address_len(head: u8) -> usize {
    match head & 0x0f {
        6 => 6,
        2 => 18,
        _ => 0,
    }
}

fn write_address(address: SocketAddr, out: &mut [u8]) -> usize {
    let len = match address.ip() {
        IpAddr::V4(ip) => {
            out[..4].copy_from_slice(&ip.octets());
            4
        }
        IpAddr::V6(ip) => {
            out[..16].copy_from_slice(&ip.octets());
            16
        }
    };
    out[len..len + 2].copy_from_slice(&address.port().to_be_bytes());
    len + 2
}

fn read_address(bytes: &[u8]) -> Option<SocketAddr> {
    let (ip, port) = bytes.split_last_chunk::<2>()?;
    let ip = match ip.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(ip).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(ip).ok()?),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*port)))
}

/// RFC 4648 §5 without padding: all its characters are unreserved in a SIP user part.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Of what is no character of the alphabet.
const NO_VALUE: u8 = 0xff;

const VALUES: [u8; 256] = {
    let mut values = [NO_VALUE; 256];
    let mut value = 0;
    while value < 64 {
        values[ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// Bytes in threes, which is what tokens are.
fn base64_write(bytes: &[u8], out: &mut Vec<u8>) {
    let (groups, rest) = bytes.as_chunks();
    debug_assert!(rest.is_empty(), "a token is whole groups");
    for &[a, b, c] in groups {
        let bits = u32::from_be_bytes([0, a, b, c]);
        out.extend([18, 12, 6, 0].map(|shift| ALPHABET[(bits >> shift) as usize & 63]));
    }
}

/// None: `text` hasn't the length or the characters of a token.
fn base64_read<'b>(text: &[u8], buffer: &'b mut [u8; BYTES_MAX]) -> Option<&'b [u8]> {
    let (groups, []) = text.as_chunks::<4>() else {
        return None;
    };
    let bytes = buffer.get_mut(..groups.len() * 3)?;
    if bytes.len() <= MAC_BYTES {
        return None;
    }
    for (group, three) in groups.iter().zip(bytes.as_chunks_mut::<3>().0) {
        let values = group.map(|character| VALUES[usize::from(character)]);
        if values.contains(&NO_VALUE) {
            return None;
        }
        let [a, b, c, d] = values.map(u32::from);
        let [_, bits @ ..] = (a << 18 | b << 12 | c << 6 | d).to_be_bytes();
        *three = bits;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys::new(b"a secret of at least thirty-two bytes")
    }

    fn token(server: &str, starter: Starter) -> Vec<u8> {
        let mut text = Vec::new();
        write(
            &keys(),
            server.parse().unwrap(),
            starter,
            b"call",
            b"alice",
            &mut text,
        );
        text
    }

    #[test]
    fn a_token_says_server_and_direction() {
        use Direction::{FromServer, ToServer};
        for server in ["10.0.0.11:5060", "[2001:db8::1]:65535"] {
            for (starter, from, to, direction) in [
                (Starter::Client, "alice", "bob", ToServer),
                (Starter::Client, "bob", "alice", FromServer),
                (Starter::Server, "alice", "bob", FromServer),
                (Starter::Server, "bob", "alice", ToServer),
            ] {
                let text = token(server, starter);
                assert!(looks_like(&text));
                let affinity = read(&keys(), &text, b"call", from.as_bytes(), to.as_bytes());
                let server = server.parse().unwrap();
                assert_eq!(affinity, Some(Affinity { server, direction }));
            }
        }
    }

    #[test]
    fn a_token_fits_one_call_and_one_secret() {
        let text = token("10.0.0.11:5060", Starter::Client);
        assert_eq!(text.len(), 20);
        assert_eq!(read(&keys(), &text, b"other", b"alice", b"bob"), None);
        assert_eq!(read(&keys(), &text, b"call", b"mallory", b"bob"), None);
        let other = Keys::new(b"another secret, thirty-two bytes long");
        assert_eq!(read(&other, &text, b"call", b"alice", b"bob"), None);
    }

    #[test]
    fn no_bit_of_a_token_can_change() {
        let text = token("10.0.0.11:5060", Starter::Client);
        for place in 0..text.len() {
            for &character in ALPHABET {
                let mut forged = text.clone();
                forged[place] = character;
                let read = read(&keys(), &forged, b"call", b"alice", b"bob");
                assert_eq!(read.is_some(), forged == text);
            }
        }
        for length in 0..text.len() {
            assert_eq!(
                read(&keys(), &text[..length], b"call", b"alice", b"bob"),
                None
            );
        }
    }

    #[test]
    fn users_are_not_taken_for_tokens() {
        for user in [
            "",
            "alice",
            "+4930123456",
            "service",
            "AAAAAAAAAAAAAAAAAAAA",
            "a b",
            "%41lice",
        ] {
            assert!(!looks_like(user.as_bytes()), "{user}");
        }
    }
}
