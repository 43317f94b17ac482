//! Bindings: the contacts of an address-of-record.

use std::{net::SocketAddr, time::Duration};

use crate::codec::{Corrupt, Reader, write_address, write_text, write_time};

const VERSION: u8 = 1;

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
}

/// Writes the record of an address-of-record's bindings, in the given order.
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

/// Reads the bindings of a record, including expired ones.
///
/// # Errors
/// If the bytes are not such a record.
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
