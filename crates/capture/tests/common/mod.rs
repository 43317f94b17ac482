//! Captures written byte by byte, and a small network whose packets they hold.

#![allow(dead_code, clippy::unwrap_used)]

use std::{net::SocketAddr, time::Duration};

use etherparse::PacketBuilder;

/// How a capture file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Pcap {
        is_big_endian: bool,
        is_nano: bool,
    },
    /// With times in units of 2^-32 s if `is_binary`, else of 10^-9 s.
    Ng {
        is_big_endian: bool,
        is_binary: bool,
    },
}

pub(crate) const PCAP: Format = Format::Pcap {
    is_big_endian: false,
    is_nano: true,
};

/// The link layer's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Ethernet,
    Vlan,
    StackedVlan,
    Cooked,
    Cooked2,
    Null,
    Raw,
}

/// A capture file.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) bytes: Vec<u8>,
    pub(crate) format: Format,
    pub(crate) link: Link,
    /// Bytes captured of a packet at most.
    pub(crate) snap: usize,
}

impl File {
    pub(crate) fn new(format: Format, link: Link) -> Self {
        let mut file = Self {
            bytes: Vec::new(),
            format,
            link,
            snap: 262_144,
        };
        let linktype: u32 = match link {
            Link::Ethernet | Link::Vlan | Link::StackedVlan => 1,
            Link::Cooked => 113,
            Link::Cooked2 => 276,
            Link::Null => 0,
            Link::Raw => 101,
        };
        match format {
            Format::Pcap { is_nano, .. } => {
                file.word(if is_nano { 0xa1b2_3c4d } else { 0xa1b2_c3d4 });
                file.half(2);
                file.half(4);
                [0, 0, 262_144, linktype]
                    .into_iter()
                    .for_each(|word| file.word(word));
            }
            Format::Ng { is_binary, .. } => {
                file.block(0x0a0d_0d0a, |file| {
                    file.word(0x1a2b_3c4d);
                    file.half(1);
                    file.half(0);
                    file.word(u32::MAX);
                    file.word(u32::MAX);
                });
                file.block(1, |file| {
                    file.half(linktype as u16);
                    file.half(0);
                    file.word(262_144);
                    file.half(9); // if_tsresol
                    file.half(1);
                    file.bytes
                        .extend([if is_binary { 0x80 | 32 } else { 9 }, 0, 0, 0]);
                    file.word(0); // The end of the options.
                });
            }
        }
        file
    }

    fn is_big_endian(&self) -> bool {
        match self.format {
            Format::Pcap { is_big_endian, .. } | Format::Ng { is_big_endian, .. } => is_big_endian,
        }
    }

    fn word(&mut self, word: u32) {
        let bytes = if self.is_big_endian() {
            word.to_be_bytes()
        } else {
            word.to_le_bytes()
        };
        self.bytes.extend(bytes);
    }

    fn half(&mut self, half: u16) {
        let bytes = if self.is_big_endian() {
            half.to_be_bytes()
        } else {
            half.to_le_bytes()
        };
        self.bytes.extend(bytes);
    }

    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.word(kind);
        self.word(0);
        body(self);
        let length = (self.bytes.len() - start + 4) as u32;
        self.word(length);
        let end = self.bytes.len();
        self.bytes.copy_within(end - 4.., start + 4);
    }

    /// Adds a packet from its network header on.
    pub(crate) fn ip(&mut self, time: Duration, packet: &[u8]) {
        let frame = self.framed(packet);
        let captured = &frame[..frame.len().min(self.snap)];
        match self.format {
            Format::Pcap { is_nano, .. } => {
                let fraction = if is_nano {
                    time.subsec_nanos()
                } else {
                    time.subsec_micros()
                };
                self.word(time.as_secs() as u32);
                self.word(fraction);
                self.word(captured.len() as u32);
                self.word(frame.len() as u32);
                self.bytes.extend(captured);
            }
            Format::Ng { is_binary, .. } => {
                let units = if is_binary {
                    1_u128 << 32
                } else {
                    1_000_000_000
                };
                let units = (time.as_nanos() * units / 1_000_000_000) as u64;
                self.block(6, |file| {
                    file.word(0);
                    file.word((units >> 32) as u32);
                    file.word(units as u32);
                    file.word(captured.len() as u32);
                    file.word(frame.len() as u32);
                    file.bytes.extend(captured);
                    file.bytes.resize(file.bytes.len().next_multiple_of(4), 0);
                });
            }
        }
    }

    fn framed(&self, packet: &[u8]) -> Vec<u8> {
        let is_v6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
        let ether_type: [u8; 2] = if is_v6 { [0x86, 0xdd] } else { [8, 0] };
        let mut frame = match self.link {
            Link::Ethernet | Link::Vlan | Link::StackedVlan => vec![2; 12],
            Link::Cooked => [[0, 0, 0, 1, 0, 6].as_slice(), &[2; 8]].concat(),
            Link::Cooked2 => ether_type.to_vec(),
            Link::Null => vec![if is_v6 { 30 } else { 2 }, 0, 0, 0],
            Link::Raw => Vec::new(),
        };
        match self.link {
            Link::Vlan => frame.extend([0x81, 0, 0, 7]),
            Link::StackedVlan => frame.extend([0x88, 0xa8, 0, 9, 0x81, 0, 0, 7]),
            Link::Cooked2 => frame.extend([0; 18]),
            _ => {}
        }
        if !matches!(self.link, Link::Cooked2 | Link::Null | Link::Raw) {
            frame.extend(ether_type);
        }
        frame.extend(packet);
        frame
    }

    pub(crate) fn udp(
        &mut self,
        time: Duration,
        source: SocketAddr,
        destination: SocketAddr,
        payload: &[u8],
    ) {
        self.ip(time, &udp(source, destination, payload));
    }
}

fn with_ip(
    source: SocketAddr,
    destination: SocketAddr,
) -> etherparse::PacketBuilderStep<etherparse::IpHeaders> {
    match (source, destination) {
        (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
            PacketBuilder::ipv4(source.ip().octets(), destination.ip().octets(), 64)
        }
        (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
            PacketBuilder::ipv6(source.ip().octets(), destination.ip().octets(), 64)
        }
        _ => panic!("one family each"),
    }
}

/// A datagram from its network header on.
pub(crate) fn udp(source: SocketAddr, destination: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = with_ip(source, destination).udp(source.port(), destination.port());
    builder.write(&mut packet, payload).unwrap();
    packet
}

/// A TCP segment from its network header on.
pub(crate) fn tcp(
    source: SocketAddr,
    destination: SocketAddr,
    sequence: u32,
    payload: &[u8],
) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder =
        with_ip(source, destination).tcp(source.port(), destination.port(), sequence, 65_535);
    builder.ack(1).write(&mut packet, payload).unwrap();
    packet
}

/// What tells a message from others of its call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialog<'a> {
    pub(crate) call_id: &'a str,
    pub(crate) from_tag: &'a str,
}

/// A message; responses have a To tag.
pub(crate) fn message(start: &str, dialog: Dialog<'_>, cseq: &str, branch: &str) -> Vec<u8> {
    let Dialog { call_id, from_tag } = dialog;
    let start_line = match start.starts_with(|first: char| first.is_ascii_digit()) {
        true => format!("SIP/2.0 {start}"),
        false => format!("{start} sip:bob@example.com SIP/2.0"),
    };
    let untagged = ["INVITE", "OPTIONS", "CANCEL", "100"];
    let is_tagged = !untagged.iter().any(|first| start.starts_with(first));
    let to_tag = if is_tagged { ";tag=callee" } else { "" };
    format!(
        "{start_line}\r\nVia: SIP/2.0/UDP host.example.com;branch=z9hG4bK{branch}\r\n\
         From: <sip:alice@example.com>;tag={from_tag}\r\nTo: <sip:bob@example.com>{to_tag}\r\n\
         Call-ID: {call_id}\r\nCSeq: {cseq}\r\nMax-Forwards: 70\r\nContent-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

/// Nodes in a row, each with a capture point on a clock of its own.
pub(crate) struct Row {
    /// The capture at each node, and how far its clock is ahead.
    pub(crate) points: Vec<(File, Duration)>,
    /// A packet's time from each node to the next.
    pub(crate) ways: Vec<Duration>,
    /// Those of this number are lost on the way.
    pub(crate) lost: Vec<usize>,
    sent: usize,
    waiting: Vec<(Duration, usize, SocketAddr, SocketAddr, Vec<u8>)>,
}

impl Row {
    pub(crate) fn new(ways: &[Duration]) -> Self {
        let point = |node: usize| {
            (
                File::new(PCAP, Link::Ethernet),
                Duration::from_millis(1_700_000_000_000 + 777 * node as u64),
            )
        };
        Self {
            points: (0..=ways.len()).map(point).collect(),
            ways: ways.to_vec(),
            lost: Vec::new(),
            sent: 0,
            waiting: Vec::new(),
        }
    }

    /// Sends a message from a node to a neighbour; when it arrives.
    pub(crate) fn send(
        &mut self,
        time: Duration,
        ends: (SocketAddr, SocketAddr),
        nodes: (usize, usize),
        bytes: &[u8],
    ) -> Duration {
        let (source, destination) = ends;
        let arrival = time + self.ways[nodes.0.min(nodes.1)];
        self.waiting
            .push((time, nodes.0, source, destination, bytes.to_vec()));
        self.sent += 1;
        if !self.lost.contains(&self.sent) {
            self.waiting
                .push((arrival, nodes.1, source, destination, bytes.to_vec()));
        }
        arrival
    }

    /// The capture of each node.
    pub(crate) fn files(mut self) -> Vec<File> {
        self.waiting.sort_by_key(|(time, ..)| *time);
        for (time, node, source, destination, bytes) in self.waiting {
            let (file, ahead) = &mut self.points[node];
            file.udp(time + *ahead, source, destination, &bytes);
        }
        self.points.into_iter().map(|(file, _)| file).collect()
    }
}

pub(crate) fn ms(ms: f64) -> Duration {
    Duration::from_nanos((ms * 1e6).round() as u64)
}
