//! Ledger reports: what an edge tells its peers, as bytes.
//!
//! A report is one datagram or several between the edges' own listeners. All numbers are absolute
//! and big-endian, so a lost datagram is made good by the next:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | [`FIRST_BYTE`] |
//! | 1 | version |
//! | 8 | owner: the edge that counts |
//! | 8 | incarnation: greater after each restart of the owner |
//! | 8 | sequence: greater with each datagram of the incarnation |
//! | 4 | arrivals per second that the owner places |
//! | 1 + n | length of the owner's name, and the name |
//! | 19 or 31 each | servers: 4 or 6, address, port, calls, transactions, work |
//! | 8 | MAC of all before it, keyed by the cluster's secret |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use balance::Elsewhere;

use crate::{stats::Dropped, wire::keys::Keys};

/// No SIP message begins with it, nor any other UTF-8 text.
pub(crate) const FIRST_BYTE: u8 = 0xf5;

/// Servers in one datagram: it fits the smallest path MTU of IPv6 with all addresses IPv6's.
pub(crate) const ENTRIES_MAX: usize = 32;

/// Longer names are cut off.
const NAME_MAX: usize = 64;

const VERSION: u8 = 1;

/// Whose report it is, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header<'a> {
    pub(crate) owner: u64,
    pub(crate) incarnation: u64,
    pub(crate) sequence: u64,
    /// Arrivals per second.
    pub(crate) rate: u32,
    pub(crate) name: &'a [u8],
}

/// What its owner has open on one server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) address: SocketAddr,
    pub(crate) open: Elsewhere,
}

/// Appends a datagram of at most [`ENTRIES_MAX`] entries.
pub(crate) fn write(keys: &Keys, header: &Header<'_>, entries: &[Entry], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[FIRST_BYTE, VERSION]);
    for number in [header.owner, header.incarnation, header.sequence] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(&header.rate.to_be_bytes());
    let name = &header.name[..header.name.len().min(NAME_MAX)];
    out.push(name.len() as u8);
    out.extend_from_slice(name);
    entries.iter().for_each(|entry| entry.write(out));
    let mac = keys.report(&out[start..]);
    out.extend_from_slice(&mac.to_be_bytes());
}

impl Entry {
    fn write(&self, out: &mut Vec<u8>) {
        match self.address.ip() {
            IpAddr::V4(ip) => {
                out.push(4);
                out.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.push(6);
                out.extend_from_slice(&ip.octets());
            }
        }
        out.extend_from_slice(&self.address.port().to_be_bytes());
        let Elsewhere {
            calls,
            transactions,
            work_thousandths,
        } = self.open;
        for number in [calls, transactions, work_thousandths] {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let ip = match take(bytes)? {
            [4] => IpAddr::V4(Ipv4Addr::from(take::<4>(bytes)?)),
            [6] => IpAddr::V6(Ipv6Addr::from(take::<16>(bytes)?)),
            _ => return None,
        };
        let port = u16::from_be_bytes(take(bytes)?);
        let mut number = || Some(u64::from(u32::from_be_bytes(take(bytes)?)));
        let open = Elsewhere {
            calls: number()?,
            transactions: number()?,
            work_thousandths: number()?,
        };
        Some(Self {
            address: SocketAddr::new(ip, port),
            open,
        })
    }
}

/// What a peer has told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Report<'a> {
    pub(super) header: Header<'a>,
    pub(super) entries: Vec<Entry>,
}

/// Reads a datagram.
///
/// # Errors
/// Why it is to be dropped: its MAC is wrong, or a peer of another version wrote it.
pub(crate) fn read<'a>(keys: &Keys, datagram: &'a [u8]) -> Result<Report<'a>, Dropped> {
    let (bytes, mac) = datagram
        .split_last_chunk()
        .ok_or(Dropped::ReportMalformed)?;
    if !keys.is_report(bytes, u64::from_be_bytes(*mac)) {
        return Err(Dropped::ReportForged);
    }
    read_parts(bytes).ok_or(Dropped::ReportMalformed)
}

fn read_parts(mut bytes: &[u8]) -> Option<Report<'_>> {
    let rest = &mut bytes;
    if take(rest)? != [FIRST_BYTE, VERSION] {
        return None;
    }
    let mut number = || Some(u64::from_be_bytes(take(rest)?));
    let [owner, incarnation, sequence] = [number()?, number()?, number()?];
    let rate = u32::from_be_bytes(take(rest)?);
    let [length] = take(rest)?;
    let (name, mut rest) = rest.split_at_checked(usize::from(length))?;
    let mut entries = Vec::new();
    while !rest.is_empty() {
        if entries.len() == ENTRIES_MAX {
            return None;
        }
        entries.push(Entry::read(&mut rest)?);
    }
    let header = Header {
        owner,
        incarnation,
        sequence,
        rate,
        name,
    };
    Some(Report { header, entries })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: Header<'static> = Header {
        owner: 1,
        incarnation: 2,
        sequence: 3,
        rate: 4,
        name: b"edge-1",
    };

    fn keys() -> Keys {
        Keys::new(b"the secret that all nodes of this test share", None)
    }

    fn entry(address: &str, calls: u64) -> Entry {
        let open = Elsewhere {
            calls,
            transactions: 2,
            work_thousandths: 3_500,
        };
        Entry {
            address: address.parse().unwrap(),
            open,
        }
    }

    fn written(header: &Header<'_>, entries: &[Entry]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&keys(), header, entries, &mut bytes);
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let entries = [entry("10.0.0.1:5060", 7), entry("[2001:db8::1]:5062", 0)];
        let bytes = written(&HEADER, &entries);
        let report = Report {
            header: HEADER,
            entries: entries.to_vec(),
        };
        assert_eq!(read(&keys(), &bytes), Ok(report));
        let long = [b'x'; 300];
        let header = Header {
            name: &long,
            ..HEADER
        };
        let full = [entry("[2001:db8::1]:5062", u64::MAX); ENTRIES_MAX];
        let bytes = written(&header, &full);
        assert!(bytes.len() <= 1_232, "{} bytes", bytes.len());
        let Report { header, entries } = read(&keys(), &bytes).unwrap();
        assert_eq!(header.name.len(), NAME_MAX);
        assert_eq!(entries[0].open.calls, u64::from(u32::MAX));
    }

    #[test]
    fn a_report_of_another_cluster_or_version_is_none() {
        let bytes = written(&HEADER, &[entry("10.0.0.1:5060", 7)]);
        let others = Keys::new(b"the secret of another cluster, as long as it takes", None);
        assert_eq!(read(&others, &bytes), Err(Dropped::ReportForged));
        for cut in 0..bytes.len() {
            assert!(read(&keys(), &bytes[..cut]).is_err(), "{cut} bytes");
        }
        let check = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            let mac = keys().report(&bytes);
            bytes.extend_from_slice(&mac.to_be_bytes());
            assert_eq!(read(&keys(), &bytes), Err(Dropped::ReportMalformed));
        };
        check(&[FIRST_BYTE, VERSION + 1]);
        check(&bytes[..bytes.len() - 9]);
        let one_more = [entry("10.0.0.1:5060", 7); ENTRIES_MAX + 1];
        let too_long = written(&HEADER, &one_more);
        check(&too_long[..too_long.len() - 8]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = bytes;
            prop_assert!(read(&keys(), &bytes).is_err());
            let mac = keys().report(&bytes);
            bytes.extend_from_slice(&mac.to_be_bytes());
            let _ = read(&keys(), &bytes);
            let mut bytes = [&[FIRST_BYTE, VERSION], &bytes[..]].concat();
            let mac = keys().report(&bytes);
            bytes.extend_from_slice(&mac.to_be_bytes());
            let _ = read(&keys(), &bytes);
        }

        #[test]
        fn no_changed_bit_goes_unseen(at in 0..1_000_usize, bit in 0..8_u8) {
            let mut bytes = written(&HEADER, &[entry("10.0.0.1:5060", 7)]);
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(read(&keys(), &bytes), Err(Dropped::ReportForged));
        }
    }
}
