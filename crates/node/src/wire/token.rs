//! The tokens in the user part of our Record-Route and Path URIs. They say where a dialog's two ends
//! are, or where a phone is, so that any node with the cluster's secret can send a request there, and
//! nobody else can make it send one elsewhere.
//!
//! An [`Affinity`] is bound to the Call-ID and to the tag of whoever started the dialog; so it fits no
//! other call, and tells in which direction a request goes.

use std::{
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
};

use sip::Uri;
use transaction::{ConnectionId, Flow, NextHop, Transport};

use super::{
    keys::{EDGE_BITS, EdgeTag, Keys},
    seal,
};
use crate::snapshot::Snapshot;

/// What a token of ours says of the request that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Affinity {
    pub(crate) server: End,
    pub(crate) client: Client,
    pub(crate) starter: Starter,
    pub(crate) direction: Direction,
    /// Another node that keeps the connection of the end which the request goes to.
    pub(crate) elsewhere: Option<EdgeTag>,
}

/// The end of a dialog where a server is, or a phone that stands where a server would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) address: SocketAddr,
    /// What a phone is connected by. A server is reached as it is configured.
    pub(crate) stream: Option<Stream>,
}

/// A connection, and what it carries messages in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    transport: Transport,
    connection: ConnectionId,
}

impl Stream {
    fn of(flow: Flow) -> Option<Self> {
        let (transport, connection) = (flow.transport, flow.connection?);
        Some(Self {
            transport,
            connection,
        })
    }

    /// Writes it as one of this node.
    fn write(self, keys: &Keys, out: &mut [u8]) {
        let [above, below] = keys.edge().to_be_bytes();
        out[0] = self.transport as u8 | above << TRANSPORT_BITS;
        out[1..5].copy_from_slice(&self.connection.0.get().to_be_bytes());
        out[5] = below;
    }

    /// With the node that keeps it.
    fn read(bytes: &[u8]) -> Option<(Self, EdgeTag)> {
        let (&[first, a, b, c, d, below], _) = bytes.split_first_chunk()?;
        let number = NonZeroU32::new(u32::from_be_bytes([a, b, c, d]))?;
        let transport = first & ((1 << TRANSPORT_BITS) - 1);
        let stream = Self {
            transport: *Transport::ALL.get(usize::from(transport))?,
            connection: ConnectionId(number),
        };
        let edge = EdgeTag::from_be_bytes([first >> TRANSPORT_BITS, below]);
        Some((stream, edge))
    }

    /// A flow over it, or datagrams.
    fn flow(of: Option<Self>, listener: u8, remote: SocketAddr) -> Flow {
        Flow {
            transport: of.map_or(Transport::Udp, |stream| stream.transport),
            listener,
            remote,
            connection: of.map(|stream| stream.connection),
        }
    }
}

impl From<SocketAddr> for End {
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            stream: None,
        }
    }
}

impl From<Flow> for End {
    fn from(flow: Flow) -> Self {
        Self {
            address: flow.remote,
            stream: Stream::of(flow),
        }
    }
}

impl End {
    /// The flow to it, if it is connected, from any listener that carries the like.
    pub(crate) fn connected(self, snapshot: &Snapshot, hit: u8) -> Option<Flow> {
        let Stream {
            transport,
            connection,
        } = self.stream?;
        let address = self.address;
        let flow = snapshot.flow_to(NextHop { transport, address }, hit)?;
        Some(Flow {
            connection: Some(connection),
            ..flow
        })
    }
}

/// The end of a dialog that is not the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    /// Where it is reached, behind a NAT too.
    pub(crate) flow: Flow,
    /// It is reached where Route and Request-URI say, as RFC 3261 §16.6 has it, if somebody says so whom
    /// the node trusts.
    pub(crate) has_route_set: bool,
}

/// A [`Client`], or none, in few bytes, as there may be a million.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedClient([u8; 24]);

impl PackedClient {
    pub(crate) const NONE: Self = Self([0; 24]);

    pub(crate) fn get(self) -> Option<Client> {
        let ([c0, c1, c2, c3], rest) = self.0.split_first_chunk()?;
        let [flags, listener, address @ ..] = rest else {
            return None;
        };
        let bytes = address_bytes(flags & CLIENT_IS_IPV6 != 0);
        let is_there = flags & IS_THERE != 0;
        let remote = read_address(&address[..bytes]).filter(|_| is_there)?;
        let number = NonZeroU32::new(u32::from_be_bytes([*c0, *c1, *c2, *c3]));
        Some(Client {
            flow: Flow {
                transport: Transport::ALL[usize::from(flags >> PACKED_TRANSPORT)],
                listener: *listener,
                remote,
                connection: number.map(ConnectionId),
            },
            has_route_set: flags & HAS_ROUTE_SET != 0,
        })
    }
}

impl From<Client> for PackedClient {
    fn from(client: Client) -> Self {
        let mut bytes = [0; 24];
        let flow = client.flow;
        let number = flow.connection.map_or(0, |connection| connection.0.get());
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        bytes[4] = IS_THERE | client.flags() | (flow.transport as u8) << PACKED_TRANSPORT;
        bytes[5] = flow.listener;
        write_address(flow.remote, &mut bytes[6..]);
        Self(bytes)
    }
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
pub(crate) enum Starter {
    Client,
    Server,
}

/// The two ends of a dialog that is about to start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) server: End,
    pub(crate) client: Client,
    pub(crate) starter: Starter,
}

const STARTED_BY_SERVER: u8 = 1;
const SERVER_IS_IPV6: u8 = 2;
const CLIENT_IS_IPV6: u8 = 4;
const HAS_ROUTE_SET: u8 = 8;
const IS_THERE: u8 = 16;
const SERVER_HAS_STREAM: u8 = 32;
const CLIENT_HAS_STREAM: u8 = 64;
/// Where a packed client's transport begins, above all flags that it has.
const PACKED_TRANSPORT: u32 = 5;

impl Client {
    fn flags(self) -> u8 {
        flag(self.flow.remote.is_ipv6(), CLIENT_IS_IPV6) | flag(self.has_route_set, HAS_ROUTE_SET)
    }
}

fn flag(is: bool, flag: u8) -> u8 {
    if is { flag } else { 0 }
}

/// The size of a stream: its transport and the node that keeps it in two bytes, and its connection.
const STREAM_BYTES: usize = 6;
/// The bits of a stream's transport, below those of its node.
const TRANSPORT_BITS: u32 = 3;
const _: () =
    assert!(Transport::ALL.len() <= 1 << TRANSPORT_BITS && EDGE_BITS + TRANSPORT_BITS <= 16);
/// The sizes of a dialog's ends: a byte of flags, one for the listener, two addresses, up to two streams.
const ENDS_BYTES: [usize; 7] = [14, 20, 26, 32, 38, 44, 50];
/// The sizes of a flow: the same with one address.
const FLOW_BYTES: [usize; 4] = [8, 14, 20, 26];

/// Appends the token of a dialog whose first request has this Call-ID and From tag.
pub(crate) fn write(keys: &Keys, ends: Ends, call_id: &[u8], from_tag: &[u8], out: &mut Vec<u8>) {
    let Ends {
        server,
        client,
        starter,
    } = ends;
    let mut plain = [0; seal::PLAIN_MAX];
    let of_client = Stream::of(client.flow);
    plain[0] = flag(starter == Starter::Server, STARTED_BY_SERVER)
        | flag(server.address.is_ipv6(), SERVER_IS_IPV6)
        | flag(server.stream.is_some(), SERVER_HAS_STREAM)
        | flag(of_client.is_some(), CLIENT_HAS_STREAM)
        | client.flags();
    plain[1] = client.flow.listener;
    let mut len = 2;
    len += write_address(server.address, &mut plain[len..]);
    len += write_address(client.flow.remote, &mut plain[len..]);
    for stream in [server.stream, of_client].into_iter().flatten() {
        stream.write(keys, &mut plain[len..]);
        len += STREAM_BYTES;
    }
    keys.dialog().seal(&plain[..len], [call_id, from_tag], out);
}

/// Reads the token in `text`. None: it isn't ours, or belongs to another call.
pub(crate) fn read(
    keys: &Keys,
    text: &[u8],
    call_id: &[u8],
    from_tag: &[u8],
    to_tag: &[u8],
) -> Option<Affinity> {
    if !looks_like(text) {
        return None;
    }
    keys.dialogs().find_map(|sealer| {
        let opened = sealer.open(text)?;
        let is_of = |tag: &[u8]| !tag.is_empty() && sealer.fits(&opened, [call_id, tag]);
        let is_of_starter = is_of(from_tag);
        if !is_of_starter && !is_of(to_tag) {
            return None;
        }
        let (ends, [of_server, of_client]) = read_ends(opened.plain())?;
        let direction = match (ends.starter, is_of_starter) {
            (Starter::Client, true) | (Starter::Server, false) => Direction::ToServer,
            (Starter::Client, false) | (Starter::Server, true) => Direction::FromServer,
        };
        let Ends {
            server,
            client,
            starter,
        } = ends;
        let edge = match direction {
            Direction::ToServer => of_server,
            Direction::FromServer => of_client,
        };
        Some(Affinity {
            server,
            client,
            starter,
            direction,
            elsewhere: keys.elsewhere(edge),
        })
    })
}

/// Whether `text` has the form of a dialog's token, valid or not.
pub(crate) fn looks_like(text: &[u8]) -> bool {
    seal::looks_sealed(text, &ENDS_BYTES)
}

/// With the nodes that keep the connections of the server's and of the client's end.
fn read_ends(plain: &[u8]) -> Option<(Ends, [EdgeTag; 2])> {
    let (&[flags, listener], rest) = plain.split_first_chunk()?;
    let has = |flag: u8| flags & flag != 0;
    let (server, rest) = rest.split_at_checked(address_bytes(has(SERVER_IS_IPV6)))?;
    let (remote, rest) = rest.split_at_checked(address_bytes(has(CLIENT_IS_IPV6)))?;
    let mut streams = rest.chunks_exact(STREAM_BYTES).map(Stream::read);
    let mut stream = |flag| if has(flag) { streams.next()? } else { None };
    let ends = [SERVER_HAS_STREAM, CLIENT_HAS_STREAM].map(&mut stream);
    let edges = ends.map(|end| end.map_or(0, |(_, edge)| edge));
    let [of_server, of_client] = ends.map(|end| end.map(|(stream, _)| stream));
    let ends = Ends {
        server: End {
            address: read_address(server)?,
            stream: of_server,
        },
        client: Client {
            flow: Stream::flow(of_client, listener, read_address(remote)?),
            has_route_set: has(HAS_ROUTE_SET),
        },
        starter: if has(STARTED_BY_SERVER) {
            Starter::Server
        } else {
            Starter::Client
        },
    };
    Some((ends, edges))
}

/// Appends the token of a phone's flow, for a Path URI with this host and port. RFC 3327, RFC 5626 §5.2
pub(crate) fn write_flow(keys: &Keys, flow: Flow, at: &[u8], out: &mut Vec<u8>) {
    let mut plain = [0; seal::PLAIN_MAX];
    let stream = Stream::of(flow);
    plain[0] =
        flag(flow.remote.is_ipv6(), CLIENT_IS_IPV6) | flag(stream.is_some(), CLIENT_HAS_STREAM);
    plain[1] = flow.listener;
    let mut len = 2 + write_address(flow.remote, &mut plain[2..]);
    if let Some(stream) = stream {
        stream.write(keys, &mut plain[len..]);
        len += STREAM_BYTES;
    }
    keys.path().seal(&plain[..len], [at, b""], out);
}

/// Reads the token of a flow in the Path URI with this host and port, and the other node that keeps the
/// flow's connection. None: no node of the cluster wrote it.
pub(crate) fn read_flow(keys: &Keys, text: &[u8], at: &[u8]) -> Option<(Flow, Option<EdgeTag>)> {
    if !seal::looks_sealed(text, &FLOW_BYTES) {
        return None;
    }
    keys.paths().find_map(|sealer| {
        let opened = sealer.open(text)?;
        let (&[flags, listener], rest) = opened.plain().split_first_chunk()?;
        let (remote, rest) = rest.split_at_checked(address_bytes(flags & CLIENT_IS_IPV6 != 0))?;
        let has_stream = flags & CLIENT_HAS_STREAM != 0;
        let stream = has_stream.then(|| Stream::read(rest)).flatten();
        let edge = stream.map_or(0, |(_, edge)| edge);
        let stream = stream.map(|(stream, _)| stream);
        let flow = Stream::flow(stream, listener, read_address(remote)?);
        let found = (flow, keys.elsewhere(edge));
        sealer.fits(&opened, [at, b""]).then_some(found)
    })
}

/// The flow of a phone to which a Path URI leads back. None: no node of the cluster wrote it.
pub(crate) fn phone_of_path(keys: &Keys, uri: &[u8]) -> Option<Flow> {
    let user = Uri::parse(uri).ok()?.user?;
    let rest = uri.splitn(2, |&byte| byte == b'@').nth(1)?;
    let at = rest.split(|&byte| byte == b';').next()?;
    read_flow(keys, user, at).map(|(flow, _)| flow)
}

fn address_bytes(is_ipv6: bool) -> usize {
    if is_ipv6 { 18 } else { 6 }
}

fn write_address(address: SocketAddr, out: &mut [u8]) -> usize {
    let ip_bytes = address_bytes(address.is_ipv6()) - 2;
    match address.ip() {
        IpAddr::V4(ip) => out[..ip_bytes].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => out[..ip_bytes].copy_from_slice(&ip.octets()),
    }
    out[ip_bytes..ip_bytes + 2].copy_from_slice(&address.port().to_be_bytes());
    ip_bytes + 2
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

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    const SECRET: &[u8] = b"a secret of at least thirty-two bytes";

    fn keys() -> Keys {
        Keys::new(SECRET, None)
    }

    fn ends(server: &str, client: &str, starter: Starter) -> Ends {
        Ends {
            server: server.parse::<SocketAddr>().unwrap().into(),
            client: Client {
                flow: Flow::udp(3, client.parse().unwrap()),
                has_route_set: false,
            },
            starter,
        }
    }

    fn token(ends: Ends) -> Vec<u8> {
        let mut text = Vec::new();
        write(&keys(), ends, b"call", b"alice", &mut text);
        text
    }

    #[test]
    fn a_token_says_both_ends_and_the_direction() {
        use Direction::{FromServer, ToServer};
        for (server, client, length) in [
            ("10.0.0.11:5060", "192.0.2.1:40000", 32),
            ("10.0.0.11:5060", "[2001:db8::2]:1", 48),
            ("[2001:db8::1]:65535", "192.0.2.1:5060", 48),
            ("[2001:db8::1]:65535", "[2001:db8::2]:1", 64),
        ] {
            for (starter, from, to, direction) in [
                (Starter::Client, "alice", "bob", ToServer),
                (Starter::Client, "bob", "alice", FromServer),
                (Starter::Server, "alice", "bob", FromServer),
                (Starter::Server, "bob", "alice", ToServer),
            ] {
                let ends = ends(server, client, starter);
                let text = token(ends);
                assert_eq!(text.len(), length);
                assert!(looks_like(&text));
                let affinity = read(&keys(), &text, b"call", from.as_bytes(), to.as_bytes());
                let Ends { server, client, .. } = ends;
                let expected = Affinity {
                    server,
                    client,
                    starter,
                    direction,
                    elsewhere: None,
                };
                assert_eq!(affinity, Some(expected));
            }
        }
    }

    #[test]
    fn a_token_fits_one_call_and_one_secret() {
        let text = token(ends("10.0.0.11:5060", "192.0.2.1:5060", Starter::Client));
        assert_eq!(read(&keys(), &text, b"other", b"alice", b"bob"), None);
        assert_eq!(read(&keys(), &text, b"call", b"mallory", b"bob"), None);
        let other = Keys::new(b"another secret, thirty-two bytes long", None);
        assert_eq!(read(&other, &text, b"call", b"alice", b"bob"), None);
    }

    /// A token from an INVITE without a From tag fitted whatever had no tag.
    #[test]
    fn a_dialog_without_a_tag_has_no_token() {
        let mut text = Vec::new();
        let ends = ends("10.0.0.11:5060", "192.0.2.1:5060", Starter::Client);
        write(&keys(), ends, b"call", b"", &mut text);
        assert_eq!(read(&keys(), &text, b"call", b"", b"bob"), None);
        assert_eq!(read(&keys(), &text, b"call", b"bob", b""), None);
    }

    #[test]
    fn two_secrets_are_read_and_one_is_written() {
        let text = token(ends("10.0.0.11:5060", "192.0.2.1:5060", Starter::Client));
        let newer = b"the secret that comes after the first";
        let both = Keys::new(newer, Some(SECRET));
        assert!(read(&both, &text, b"call", b"alice", b"bob").is_some());
        let mut renewed = Vec::new();
        let ends = ends("10.0.0.11:5060", "192.0.2.1:5060", Starter::Client);
        write(&both, ends, b"call", b"alice", &mut renewed);
        let new = Keys::new(newer, None);
        assert!(read(&new, &renewed, b"call", b"alice", b"bob").is_some());
        assert!(read(&new, &text, b"call", b"alice", b"bob").is_none());
    }

    #[test]
    fn a_flow_is_read_at_its_own_host_alone() {
        for (remote, length) in [("192.0.2.1:40000", 24), ("[2001:db8::2]:1", 40)] {
            let flow = Flow::udp(7, remote.parse().unwrap());
            let mut text = Vec::new();
            write_flow(&keys(), flow, b"edge:5060", &mut text);
            assert_eq!(text.len(), length);
            assert_eq!(read_flow(&keys(), &text, b"edge:5060"), Some((flow, None)));
            assert_eq!(read_flow(&keys(), &text, b"victim:5060"), None);
            assert_eq!(read(&keys(), &text, b"edge:5060", b"", b""), None);
        }
    }

    /// Another node took the number of a connection for one of its own.
    #[test]
    fn a_token_says_which_node_keeps_its_connection() {
        let [one, two] = [1, 8_191].map(|edge| keys().of_edge(edge));
        let client = Client {
            flow: Flow {
                transport: Transport::Wss,
                listener: 3,
                remote: "192.0.2.1:40000".parse().unwrap(),
                connection: ConnectionId::new(255, 7),
            },
            has_route_set: false,
        };
        let (mut path, mut dialog) = (Vec::new(), Vec::new());
        write_flow(&two, client.flow, b"edge", &mut path);
        let ends = Ends {
            client,
            ..ends("10.0.0.11:5060", "192.0.2.1:1", Starter::Client)
        };
        write(&two, ends, b"call", b"alice", &mut dialog);
        assert_eq!((path.len(), dialog.len()), (32, 40));
        for (reader, elsewhere) in [(&two, None), (&one, Some(8_191))] {
            assert_eq!(
                read_flow(reader, &path, b"edge"),
                Some((client.flow, elsewhere))
            );
            let read = |from, to| read(reader, &dialog, b"call", from, to).unwrap();
            assert_eq!(read(b"bob", b"alice").elsewhere, elsewhere);
            assert_eq!(read(b"bob", b"alice").client, client);
            assert_eq!(
                read(b"alice", b"bob").elsewhere,
                None,
                "its server is reached anyhow"
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

    /// `cargo test --release -p node --lib -- --ignored token_cost --nocapture`
    #[test]
    #[ignore = "it prints what a token costs"]
    fn token_cost() {
        const CALL_ID: &[u8] = b"a84b4c76e66710-4f1d9b0c2e7a@192.168.1.2";
        const ALICE: &[u8] = b"1928301774-alice";
        const BOB: &[u8] = b"314159-bob";
        for (server, client) in [
            ("10.0.0.11:5060", "192.0.2.1:40000"),
            ("[2001:db8::1]:5060", "[2001:db8::2]:40000"),
        ] {
            let (keys, ends) = (keys(), ends(server, client, Starter::Client));
            let mut text = Vec::new();
            let to_write = ns_each(|| {
                text.clear();
                write(&keys, black_box(ends), CALL_ID, ALICE, &mut text);
            });
            let [of_alice, of_bob] = [(ALICE, BOB), (BOB, ALICE)].map(|(from, to)| {
                ns_each(|| {
                    let read = read(&keys, black_box(&text), CALL_ID, from, to);
                    assert!(black_box(read).is_some());
                })
            });
            eprintln!(
                "{client}: {to_write} ns to write, {of_alice} to open, {of_bob} from the callee"
            );
        }
    }

    /// The best of many runs, each too short to be interrupted every time.
    #[expect(clippy::disallowed_methods, reason = "it measures")]
    fn ns_each(mut act: impl FnMut()) -> u128 {
        const TIMES: u32 = 1_000;
        let runs = (0..2_000).map(|_| {
            let began = std::time::Instant::now();
            (0..TIMES).for_each(|_| act());
            (began.elapsed() / TIMES).as_nanos()
        });
        runs.min().expect("there are runs")
    }
}
