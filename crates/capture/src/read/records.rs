//! Reads the records of pcap and pcapng files.

use std::{ops::Range, time::Duration};

use pcap_parser::{
    LegacyPcapBlock, Linktype, PcapError, PcapHeader,
    nom::{self, IResult},
    parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified, parse_pcap_header,
    pcapng::{
        Block, InterfaceDescriptionBlock, parse_block_be, parse_block_le, parse_sectionheaderblock,
    },
};

/// The longest valid record. A longer one counts as damage.
pub(super) const RECORD_BYTES_MAX: usize = 1 << 24;
/// The most bytes of a packet that tcpdump and Wireshark capture.
pub(super) const SNAP_LENGTH_MAX: u32 = 262_144;
const INTERFACES_MAX: usize = 65_536;

/// The format of a capture's records.
#[derive(Debug)]
pub(super) enum Format {
    Legacy(PcapHeader),
    Ng {
        is_big_endian: bool,
        interfaces: Vec<Interface>,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    link: Linktype,
    units_per_second: u64,
    offset_s: i64,
}

/// The record at the beginning of some bytes.
#[derive(Debug)]
pub(super) enum Record {
    Packet {
        time: Duration,
        link: Linktype,
        /// Where in the bytes.
        data: Range<usize>,
        /// Whether the snap length cut it.
        is_cut: bool,
        length: usize,
    },
    Other {
        length: usize,
    },
    Incomplete,
    Damaged,
}

impl Format {
    /// The format of a capture with these first bytes, and the length of its header.
    pub(super) fn of(bytes: &[u8]) -> Option<(Self, usize)> {
        if let Ok((_, header)) = parse_pcap_header(bytes) {
            let length = header.size();
            return Some((Self::Legacy(header), length));
        }
        // The section header is read again as the first record.
        parse_sectionheaderblock(bytes).ok()?;
        let format = Self::Ng {
            is_big_endian: false,
            interfaces: Vec::new(),
        };
        Some((format, 0))
    }

    pub(super) fn read(&self, bytes: &[u8]) -> Record {
        match self {
            Self::Legacy(header) => read_legacy(header, bytes),
            Self::Ng {
                is_big_endian,
                interfaces,
            } => read_ng(*is_big_endian, interfaces, bytes),
        }
    }

    /// Applies a record that is not a packet but describes the packets behind it.
    pub(super) fn learn(&mut self, bytes: &[u8]) {
        let Self::Ng {
            is_big_endian,
            interfaces,
        } = self
        else {
            return;
        };
        match parse_block(*is_big_endian, bytes) {
            Ok((_, Block::SectionHeader(section))) => {
                *is_big_endian = section.big_endian();
                interfaces.clear();
            }
            Ok((_, Block::InterfaceDescription(block))) if interfaces.len() < INTERFACES_MAX => {
                interfaces.push(Interface::of(&block, *is_big_endian));
            }
            _ => {}
        }
    }
}

impl Interface {
    fn of(block: &InterfaceDescriptionBlock<'_>, is_big_endian: bool) -> Self {
        // The crate reads the offset as little-endian, and knows no powers of two.
        let offset_s = if is_big_endian {
            block.if_tsoffset.swap_bytes()
        } else {
            block.if_tsoffset
        };
        let exponent = u32::from(block.if_tsresol & 0x7f);
        let units_per_second = match block.if_tsresol & 0x80 {
            0 => 10_u64.checked_pow(exponent),
            _ => 2_u64.checked_pow(exponent),
        };
        Self {
            link: block.linktype,
            units_per_second: units_per_second.unwrap_or(1_000_000),
            offset_s,
        }
    }

    fn time(&self, high: u32, low: u32) -> Duration {
        let units = u64::from(high) << 32 | u64::from(low);
        let seconds = (units / self.units_per_second).saturating_add_signed(self.offset_s);
        let fraction = u128::from(units % self.units_per_second) * 1_000_000_000;
        let nanos = fraction / u128::from(self.units_per_second);
        // Far enough below the end of time for every sum of two.
        Duration::new(seconds.min(u64::MAX >> 8), nanos as u32)
    }
}

type LegacyParser = fn(&[u8]) -> IResult<&[u8], LegacyPcapBlock<'_>, PcapError<&[u8]>>;

fn read_legacy(header: &PcapHeader, bytes: &[u8]) -> Record {
    let (parse, data): (LegacyParser, usize) = match header {
        _ if header.is_modified_format() => (parse_pcap_frame_modified, 24),
        _ if header.is_bigendian() => (parse_pcap_frame_be, 16),
        _ => (parse_pcap_frame, 16),
    };
    if is_unlikely(header, bytes) {
        return Record::Damaged;
    }
    match parse(bytes) {
        Ok((_, record)) => {
            let length = data + record.caplen as usize;
            let nanos = record.ts_usec * (1_000_000_000 / units_per_second(header));
            Record::Packet {
                time: Duration::new(record.ts_sec.into(), nanos),
                link: header.network,
                data: data..length,
                is_cut: record.caplen < record.origlen,
                length,
            }
        }
        Err(nom::Err::Incomplete(_)) => Record::Incomplete,
        Err(_) => Record::Damaged,
    }
}

fn units_per_second(header: &PcapHeader) -> u32 {
    match header.is_nanosecond_precision() {
        true => 1_000_000_000,
        false => 1_000_000,
    }
}

/// Whether a record's header is impossible. The reader checks this before it waits for the record's
/// bytes.
fn is_unlikely(header: &PcapHeader, bytes: &[u8]) -> bool {
    let word = |at: usize| {
        let word = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(match header.is_bigendian() {
            true => u32::from_be_bytes(word),
            false => u32::from_le_bytes(word),
        })
    };
    let (Some(fraction), Some(captured), Some(original)) = (word(4), word(8), word(12)) else {
        return false;
    };
    let longest = header
        .snaplen
        .clamp(SNAP_LENGTH_MAX, RECORD_BYTES_MAX as u32);
    fraction >= units_per_second(header) || captured > longest || captured > original
}

fn parse_block(is_big_endian: bool, bytes: &[u8]) -> IResult<&[u8], Block<'_>, PcapError<&[u8]>> {
    if is_big_endian {
        parse_block_be(bytes)
    } else {
        parse_block_le(bytes)
    }
}

fn read_ng(is_big_endian: bool, interfaces: &[Interface], bytes: &[u8]) -> Record {
    let (rest, block) = match parse_block(is_big_endian, bytes) {
        Ok(parsed) => parsed,
        Err(nom::Err::Incomplete(_)) if may_be_incomplete(is_big_endian, bytes) => {
            return Record::Incomplete;
        }
        Err(_) => return Record::Damaged,
    };
    let length = bytes.len() - rest.len();
    if !is_whole(&bytes[..length]) {
        return Record::Damaged;
    }
    match block {
        Block::EnhancedPacket(packet) => {
            let captured = packet.caplen as usize;
            let data = 28..28 + captured;
            match interfaces.get(packet.if_id as usize) {
                Some(interface) if data.end <= length => Record::Packet {
                    time: interface.time(packet.ts_high, packet.ts_low),
                    link: interface.link,
                    data,
                    is_cut: packet.caplen < packet.origlen,
                    length,
                },
                _ => Record::Damaged,
            }
        }
        // Simple packets have no time, so nothing can be measured on them.
        _ => Record::Other { length },
    }
}

/// Whether a block that is longer than the bytes may be valid.
fn may_be_incomplete(is_big_endian: bool, bytes: &[u8]) -> bool {
    let Some(Ok(word)) = bytes.get(4..8).map(<[u8; 4]>::try_from) else {
        return true;
    };
    // A section header may change the byte order.
    let lengths = [u32::from_le_bytes(word), u32::from_be_bytes(word)];
    let is_section = bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]);
    let length = lengths[usize::from(is_big_endian)];
    let length = if is_section {
        lengths[0].min(lengths[1])
    } else {
        length
    } as usize;
    (12..=RECORD_BYTES_MAX).contains(&length) && length > bytes.len()
}

/// Whether a block ends with the length with which it begins.
fn is_whole(block: &[u8]) -> bool {
    block.len() >= 12 && block.len().is_multiple_of(4) && block[4..8] == block[block.len() - 4..]
}
