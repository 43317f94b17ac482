//! Bindings: the contacts of an address-of-record.

use std::{net::SocketAddr, time::Duration};

use crate::{
    UsedNonces,
    codec::{Corrupt, Reader, write_address, write_text, write_time},
};

const VERSION: u8 = 2;

/// Its records have no nonces, and no `updated`, `device` and `reg_id`.
const FIRST_VERSION: u8 = 1;

/// A contact of an address-of-record, with its origin and its expiry (RFC 3261 §10.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding<'a> {
    /// The contact's URI, without brackets.
    pub contact: &'a str,
    /// The preference in thousandths, 0 to 1000.
    pub q: u16,
    /// When it expires: wall time since the UNIX epoch, in whole milliseconds.
    pub expires: Duration,
    /// The Call-ID of the REGISTER that made it or last refreshed it.
    pub call_id: &'a str,
    /// The number in that request's CSeq.
    pub cseq: u32,
    /// The values of that request's Path, topmost first, with commas between them; empty without a
    /// Path (RFC 3327).
    pub path: &'a str,
    /// The source address of the request.
    pub received: SocketAddr,
    /// When that request set it: wall time since the UNIX epoch, in whole milliseconds. Zero: it is not
    /// known.
    pub updated: Duration,
    /// The device, by [`device`](crate::device); zero if it does not name itself.
    pub device: u64,
    /// The device's number for the flow, `reg-id` (RFC 5626 §4.2); zero without one.
    pub reg_id: u32,
}

/// All that is kept of an address-of-record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location<'a> {
    /// Its bindings, including expired ones.
    pub bindings: Vec<Binding<'a>>,
    /// The nonces that its user has proven themselves with.
    pub nonces: UsedNonces,
}

impl<'a> Location<'a> {
    /// Writes the record, with the bindings in the given order.
    pub fn write(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        self.nonces.write(&mut out);
        for binding in &self.bindings {
            binding.write(&mut out);
        }
        out
    }

    /// When the record is of no use any more: after the last binding and the last nonce. None: it has
    /// neither.
    pub fn expires(&self) -> Option<Duration> {
        let bindings = self.bindings.iter().map(|binding| binding.expires);
        bindings.chain(self.nonces.end()).max()
    }

    /// Reads a record, one of version 1 too.
    ///
    /// # Errors
    /// If the bytes are not such a record.
    pub fn read(record: &'a [u8]) -> Result<Self, Corrupt> {
        let is_first = record.first() == Some(&FIRST_VERSION);
        let version = if is_first { FIRST_VERSION } else { VERSION };
        let mut reader = Reader::new(record, version)?;
        let nonces = if is_first {
            UsedNonces::default()
        } else {
            UsedNonces::read(&mut reader)?
        };
        let mut bindings = Vec::new();
        while !reader.is_at_end() {
            let mut binding = Binding::read(&mut reader)?;
            if !is_first {
                binding.read_rest(&mut reader)?;
            }
            bindings.push(binding);
        }
        Ok(Self { bindings, nonces })
    }
}

impl<'a> Binding<'a> {
    fn write(&self, out: &mut Vec<u8>) {
        write_text(out, self.contact);
        out.extend_from_slice(&self.q.to_be_bytes());
        write_time(out, self.expires);
        write_text(out, self.call_id);
        out.extend_from_slice(&self.cseq.to_be_bytes());
        write_text(out, self.path);
        write_address(out, self.received);
        write_time(out, self.updated);
        out.extend_from_slice(&self.device.to_be_bytes());
        out.extend_from_slice(&self.reg_id.to_be_bytes());
    }

    /// Reads what version 1 has.
    fn read(reader: &mut Reader<'a>) -> Result<Self, Corrupt> {
        Ok(Self {
            contact: reader.text()?,
            q: reader.number_u16()?,
            expires: reader.time()?,
            call_id: reader.text()?,
            cseq: reader.number_u32()?,
            path: reader.text()?,
            received: reader.address()?,
            updated: Duration::ZERO,
            device: 0,
            reg_id: 0,
        })
    }

    /// Reads what version 2 has beyond that.
    fn read_rest(&mut self, reader: &mut Reader<'a>) -> Result<(), Corrupt> {
        self.updated = reader.time()?;
        self.device = reader.array().map(u64::from_be_bytes)?;
        self.reg_id = reader.number_u32()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::UsedNonce;

    const PHONE: Binding<'_> = Binding {
        contact: "sip:alice@198.51.100.77:5060;transport=udp;ob",
        q: 1000,
        expires: Duration::from_secs(4_000_000_000),
        call_id: "3848276298220188511@198.51.100.77",
        cseq: 7,
        path: "",
        received: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 5060),
        updated: Duration::from_secs(3_999_996_400),
        device: 77,
        reg_id: 1,
    };

    proptest! {
        #[test]
        fn what_was_written_is_read(
            texts in prop::collection::vec(("[ -~]{0,80}", "[ -~]{0,40}", "[ -~é]{0,90}"), 0..4),
            numbers in any::<(u16, u32, u32, u16, [u8; 16])>(),
            nonces in prop::collection::vec(any::<(u32, u64, u32)>(), 0..4),
        ) {
            let (q, expires, cseq, port, ip) = numbers;
            let bindings: Vec<Binding<'_>> = texts
                .iter()
                .map(|(contact, call_id, path)| Binding {
                    contact,
                    q,
                    expires: Duration::from_millis(expires.into()),
                    call_id,
                    cseq,
                    path,
                    received: SocketAddr::new(ip.into(), port),
                    updated: Duration::from_millis(cseq.into()),
                    device: expires.into(),
                    reg_id: expires,
                })
                .collect();
            let used = |(issued_s, random, count)| UsedNonce { issued_s, random, count };
            let nonces = UsedNonces {
                known: nonces.into_iter().map(used).collect(),
                forgotten_s: expires,
            };
            let location = Location { bindings, nonces };
            let record = location.write();
            prop_assert_eq!(Location::read(&record), Ok(location));
        }

        #[test]
        fn any_bytes_are_a_record_or_corrupt(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let with = |version: u8| [&[version], &bytes[..]].concat();
            for record in [bytes.clone(), with(VERSION), with(FIRST_VERSION)] {
                if let Ok(location) = Location::read(&record) {
                    let written = location.write();
                    prop_assert!(record[0] == FIRST_VERSION || written == record);
                    prop_assert_eq!(Location::read(&written), Ok(location));
                }
            }
        }
    }

    /// Records that a node of version 1 wrote are good still.
    #[test]
    fn old_records_are_read() {
        let mut record = vec![FIRST_VERSION];
        write_text(&mut record, "sip:bob@192.0.2.1");
        record.extend_from_slice(&500_u16.to_be_bytes());
        write_time(&mut record, Duration::from_secs(9));
        write_text(&mut record, "call");
        record.extend_from_slice(&3_u32.to_be_bytes());
        write_text(&mut record, "<sip:edge;lr>");
        write_address(&mut record, PHONE.received);
        let expected = Binding {
            contact: "sip:bob@192.0.2.1",
            q: 500,
            expires: Duration::from_secs(9),
            call_id: "call",
            cseq: 3,
            path: "<sip:edge;lr>",
            updated: Duration::ZERO,
            device: 0,
            reg_id: 0,
            ..PHONE
        };
        let location = Location::read(&record).unwrap();
        assert_eq!(location.bindings, [expected]);
        assert_eq!(location.nonces, UsedNonces::default());
    }

    /// A store needs 120 bytes beside the record, and some 28 for the key: a phone's binding behind an edge
    /// costs less than 400 bytes. See the results of the store's bench.
    #[test]
    fn a_phones_binding_is_short() {
        let path = format!("<sip:{}@edge.example.com;lr;ob>", "x".repeat(64));
        let nonce = UsedNonce {
            issued_s: 1,
            random: 2,
            count: 3,
        };
        let nonces = UsedNonces {
            known: vec![nonce],
            forgotten_s: 0,
        };
        let bindings = vec![Binding {
            path: &path,
            ..PHONE
        }];
        let length = Location { bindings, nonces }.write().len();
        assert!(length <= 250, "{length}");
    }
}
