//! Bindings: where an address-of-record is reached.

use std::{net::SocketAddr, time::Duration};

use crate::codec::{Corrupt, Reader, write_address, write_text, write_time};

const VERSION: u8 = 1;

/// Where an address-of-record is reached, by whose word and until when (RFC 3261 §10.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding<'a> {
    /// The contact's URI, without brackets.
    pub contact: &'a str,
    /// How much it is preferred: thousandths, 0 to 1000.
    pub q: u16,
    /// When it ends: wall time since the UNIX epoch, in whole milliseconds.
    pub expires: Duration,
    /// The Call-ID of the REGISTER that made it or refreshed it last.
    pub call_id: &'a str,
    /// The number in that request's CSeq.
    pub cseq: u32,
    /// The values of its Path, topmost first, with commas between them; empty without one (RFC 3327).
    pub path: &'a str,
    /// Where the request came from.
    pub received: SocketAddr,
}

/// The record of an address-of-record's bindings, in the given order.
pub fn write_bindings(bindings: &[Binding<'_>]) -> Vec<u8> {
    let mut out = vec![VERSION];
    for binding in bindings {
        write_text(&mut out, binding.contact);
        out.extend_from_slice(&binding.q.to_be_bytes());
        write_time(&mut out, binding.expires);
        write_text(&mut out, binding.call_id);
        out.extend_from_slice(&binding.cseq.to_be_bytes());
        write_text(&mut out, binding.path);
        write_address(&mut out, binding.received);
    }
    out
}

/// The bindings of a record, ended ones among them.
///
/// # Errors
/// The bytes are no such record.
pub fn read_bindings(record: &[u8]) -> Result<Vec<Binding<'_>>, Corrupt> {
    let mut reader = Reader::new(record, VERSION)?;
    let mut bindings = Vec::new();
    while !reader.is_at_end() {
        bindings.push(Binding {
            contact: reader.text()?,
            q: reader.number_u16()?,
            expires: reader.time()?,
            call_id: reader.text()?,
            cseq: reader.number_u32()?,
            path: reader.text()?,
            received: reader.address()?,
        });
    }
    Ok(bindings)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(
            texts in prop::collection::vec(("[ -~]{0,80}", "[ -~]{0,40}", "[ -~é]{0,90}"), 0..4),
            numbers in any::<(u16, u32, u32, u16, [u8; 16])>(),
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
                })
                .collect();
            let record = write_bindings(&bindings);
            prop_assert_eq!(read_bindings(&record), Ok(bindings));
        }

        #[test]
        fn any_bytes_are_a_record_or_corrupt(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let with_version = [&[VERSION], &bytes[..]].concat();
            for bytes in [&bytes, &with_version] {
                if let Ok(bindings) = read_bindings(bytes) {
                    prop_assert_eq!(&write_bindings(&bindings), bytes);
                }
            }
        }
    }
}
