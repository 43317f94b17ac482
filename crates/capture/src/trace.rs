//! The SIP messages of one or more capture points.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    io::Read,
    net::SocketAddr,
    time::Duration,
};

use sip::{Message, ParseError};

use crate::{
    OpenError, Warning, WarningKind,
    names::Names,
    read::{
        Decipher, Decoder, HEADERS_MAX, Item, Map, Packet, Packets, Piece, Streams, Transport,
        is_tls,
    },
    warning::Counts,
};

/// The most messages of all points together.
const MESSAGES_MAX: usize = 10_000_000;
/// The greatest distance in time at which neighbouring packets of a capture may be swapped.
const DISORDER_MAX: Duration = Duration::from_millis(1);

/// The SIP messages that one or more capture points saw.
///
/// Each file is a point. The difference of a message's times at two points is the network time
/// between them. The calculation uses only time differences at one point, so the clocks need not
/// agree.
#[derive(Debug, Default)]
pub struct Trace {
    pub(crate) points: Vec<Point>,
    pub(crate) addresses: Names<SocketAddr>,
    pub(crate) call_ids: Names<Box<[u8]>>,
    pub(crate) labels: Names<Label>,
    /// The listening port of the owner of a connection's port, from Via.
    pub(crate) listening: Map<SocketAddr, u16>,
    messages: usize,
    decipher: Option<Box<dyn Decipher>>,
}

/// The messages of one point.
#[derive(Debug, Default)]
pub(crate) struct Point {
    pub(crate) name: String,
    pub(crate) packets: u64,
    pub(crate) foreign: u64,
    pub(crate) messages: Vec<Seen>,
    pub(crate) counts: Counts,
}

/// A message at a point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The time on the point's clock, corrected for steps back.
    pub(crate) time: Duration,
    pub(crate) packet: u64,
    /// Indices of the source and destination in [`Trace::addresses`].
    pub(crate) ends: (u32, u32),
    /// A hash of the message's bytes.
    pub(crate) content: u64,
    /// The index in [`Trace::call_ids`].
    pub(crate) call_id: u32,
    /// The index in [`Trace::labels`].
    pub(crate) label: u32,
    pub(crate) cseq: u32,
    /// Hashes; 0 for none.
    pub(crate) from_tag: u64,
    pub(crate) to_tag: u64,
}

/// The kind of a message: a request with its method, or a response to one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Label {
    pub(crate) status: Option<u16>,
    pub(crate) method: String,
}

impl Trace {
    /// A trace whose encrypted connections are read, too.
    #[must_use]
    pub fn deciphered(decipher: Box<dyn Decipher>) -> Self {
        Self {
            decipher: Some(decipher),
            ..Self::default()
        }
    }

    /// Adds a capture: the bytes of a pcap or pcapng file. `progress` gets the number of bytes read
    /// so far, now and then.
    ///
    /// # Errors
    /// If the bytes can't be read or are not a capture. Damage inside a capture is a
    /// [warning](Self::warnings).
    pub fn read(
        &mut self,
        name: &str,
        bytes: impl Read,
        mut progress: impl FnMut(u64),
    ) -> Result<(), OpenError> {
        let mut packets = Packets::open(bytes)?;
        let mut reader = Reader {
            trace: self,
            point: Point {
                name: name.to_owned(),
                ..Point::default()
            },
            streams: Streams::default(),
            last: Duration::ZERO,
            lag: Duration::ZERO,
        };
        let mut decoder = Decoder::default();
        loop {
            let behind = reader.point.packets + 1;
            match packets.next().map_err(OpenError::Read)? {
                Item::Packet(packet) => {
                    reader.take(&packet, &mut decoder);
                    if packet.number.is_multiple_of(65_536) {
                        progress(packet.end);
                    }
                }
                Item::Damage => reader.point.counts.at(WarningKind::DamagedFile, behind),
                Item::Cut => reader.point.counts.at(WarningKind::CutFile, behind),
                Item::End => break,
            }
        }
        let point = reader.point;
        self.points.push(point);
        Ok(())
    }

    /// The problems of the captures, one point after the other.
    pub fn warnings(&self) -> impl Iterator<Item = Warning> {
        self.points
            .iter()
            .flat_map(|point| point.counts.warnings(Some(&point.name)))
    }

    /// For each point: its name, and the numbers of its packets, its SIP messages, and the packets
    /// without one.
    pub fn points(&self) -> impl Iterator<Item = (&str, u64, usize, u64)> {
        self.points.iter().map(|point| {
            (
                point.name.as_str(),
                point.packets,
                point.messages.len(),
                point.foreign,
            )
        })
    }
}

/// A capture, while it is read.
struct Reader<'t> {
    trace: &'t mut Trace,
    point: Point,
    streams: Streams,
    /// The time of the last packet.
    last: Duration,
    /// How far the clock has gone back in total.
    lag: Duration,
}

impl Reader<'_> {
    fn take(&mut self, packet: &Packet<'_>, decoder: &mut Decoder) {
        self.point.packets = packet.number;
        self.keep_time(packet);
        let number = packet.number;
        match decoder.open(packet) {
            Transport::Udp {
                source,
                destination,
                payload,
                is_cut,
            } => {
                if is_cut && is_likely(payload) {
                    self.point.counts.at(WarningKind::SnapLength, number);
                }
                self.take_message(number, source, destination, payload, false);
            }
            Transport::Tcp {
                source,
                destination,
                segment,
            } => self.take_segment(packet, source, destination, &segment),
            Transport::Fragment => {}
            Transport::BadFragment => self.point.counts.at(WarningKind::BadFragment, number),
            Transport::Cut => self.point.counts.at(WarningKind::SnapLength, number),
            Transport::UnknownLink => self.point.counts.at(WarningKind::UnknownLink, number),
            Transport::Foreign => self.point.foreign += 1,
        }
    }

    fn keep_time(&mut self, packet: &Packet<'_>) {
        let step = self.last.saturating_sub(packet.time);
        if step > DISORDER_MAX {
            self.lag += step;
            self.point.counts.at(WarningKind::ClockBack, packet.number);
        }
        self.last = packet.time;
    }

    fn take_segment(
        &mut self,
        packet: &Packet<'_>,
        source: SocketAddr,
        destination: SocketAddr,
        segment: &etherparse::TcpSlice<'_>,
    ) {
        let mut decipher = self.trace.decipher.take();
        let is_sip = [source.port(), destination.port()].contains(&5061);
        if decipher.is_none() && is_sip && is_tls(segment.payload()) {
            self.point.counts.at(WarningKind::Encrypted, packet.number);
        }
        let mut streams = std::mem::take(&mut self.streams);
        let mut found = 0;
        let ends = (source, destination);
        let known = decipher.as_deref_mut();
        streams.take(ends, segment, known, &mut |piece| match piece {
            Piece::Message(message) => {
                found += 1;
                self.take_message(packet.number, source, destination, message, true);
            }
            Piece::Gap => self
                .point
                .counts
                .at(WarningKind::MissingSegments, packet.number),
            Piece::Sealed => self.point.counts.at(WarningKind::Sealed, packet.number),
        });
        self.trace.decipher = decipher;
        self.streams = streams;
    }

    fn take_message(
        &mut self,
        packet: u64,
        source: SocketAddr,
        destination: SocketAddr,
        bytes: &[u8],
        is_tcp: bool,
    ) {
        let message = match Message::parse(bytes, HEADERS_MAX) {
            Ok(message) => message,
            Err(ParseError::KeepAlive | ParseError::NotSip | ParseError::TooLong) => {
                self.point.foreign += 1;
                return;
            }
            Err(_) => return self.point.counts.at(WarningKind::BadMessage, packet),
        };
        let Some(seen) = self.trace.look_at(&message) else {
            return self.point.counts.at(WarningKind::BadMessage, packet);
        };
        if self.trace.messages >= MESSAGES_MAX {
            return self.point.counts.at(WarningKind::TooManyMessages, packet);
        }
        if is_tcp && message.is_request() {
            self.trace.learn_port(&message, source);
        }
        self.trace.messages += 1;
        let addresses = &mut self.trace.addresses;
        self.point.messages.push(Seen {
            time: self.last + self.lag,
            packet,
            ends: (addresses.number(&source), addresses.number(&destination)),
            ..seen
        });
    }
}

impl Trace {
    /// Reads the message; none if it has no readable Call-ID or CSeq.
    fn look_at(&mut self, message: &Message<'_>) -> Option<Seen> {
        let cseq = message.cseq().ok()?;
        let method = message.method().unwrap_or(cseq.method);
        let label = Label {
            status: message.status(),
            method: String::from_utf8_lossy(method.as_bytes()).into_owned(),
        };
        let call_id: Box<[u8]> = message.call_id().ok()?.into();
        let tag = |tag: Option<&[u8]>| tag.map_or(0, hash);
        Some(Seen {
            time: Duration::ZERO,
            packet: 0,
            ends: (0, 0),
            content: hash(message.bytes()),
            call_id: self.call_ids.number(&call_id),
            label: self.labels.number(&label),
            cseq: cseq.number,
            from_tag: tag(message.from_tag().ok()?),
            to_tag: tag(message.to_tag().ok()?),
        })
    }

    /// A sender that uses a connection's port names the port on which it listens
    /// (RFC 3261 §18.1.1).
    fn learn_port(&mut self, message: &Message<'_>, source: SocketAddr) {
        let Ok(via) = message.top_via() else { return };
        let port = via.port.unwrap_or(5060);
        if port != source.port() {
            self.listening.insert(source, port);
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            None => f.write_str(&self.method),
            Some(status) => {
                write!(
                    f,
                    "{status} {} ({})",
                    sip::reason_phrase(status),
                    self.method
                )
            }
        }
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// Whether the bytes begin like a SIP message.
fn is_likely(bytes: &[u8]) -> bool {
    let line = bytes
        .split(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default();
    line.starts_with(b"SIP/2.0") || line.trim_ascii_end().ends_with(b"SIP/2.0")
}
