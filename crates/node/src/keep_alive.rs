//! Keep-alives: what clients send so that their NATs go on knowing them, and to hear that the node is
//! there. RFC 5626 §3.5

use std::net::{IpAddr, SocketAddr};

use crate::io::{Datagram, Outbox};

const PING: &[u8] = b"\r\n\r\n";
const PONG: &[u8] = b"\r\n";

const HEADER_BYTES: usize = 20;
const BINDING_REQUEST: [u8; 2] = [0x00, 0x01];
const BINDING_SUCCESS: [u8; 2] = [0x01, 0x01];
/// Magic cookie: RFC 5389 §6.
const COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
const XOR_MAPPED_ADDRESS: [u8; 2] = [0x00, 0x20];

/// Answers a keep-alive. False: it is none.
pub(crate) fn answer(datagram: &Datagram<'_>, out: &mut Outbox) -> bool {
    let Datagram { flow, bytes, .. } = *datagram;
    if bytes == PING {
        out.send(flow, |out| out.extend_from_slice(PONG));
        return true;
    }
    let request = bytes
        .first_chunk()
        .filter(|header| is_binding_request(header, bytes.len()));
    if let Some(request) = request {
        out.send(flow, |out| write_binding(request, flow.remote, out));
    }
    request.is_some()
}

/// Attributes are not read: RFC 5626 §8 has clients send none that matter.
fn is_binding_request(header: &[u8; HEADER_BYTES], length: usize) -> bool {
    let attributes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    header[..2] == BINDING_REQUEST
        && header[4..8] == COOKIE
        && attributes.is_multiple_of(4)
        && HEADER_BYTES + attributes == length
}

/// Tells a client as which address it is seen. RFC 5389 §15.2
fn write_binding(request: &[u8; HEADER_BYTES], seen: SocketAddr, out: &mut Vec<u8>) {
    let mask = &request[4..];
    let masked = |byte: u8, place: usize| byte ^ mask[place];
    let (family, octets): (u8, &[u8]) = match &seen.ip().to_canonical() {
        IpAddr::V4(ip) => (1, &ip.octets()),
        IpAddr::V6(ip) => (2, &ip.octets()),
    };
    let attribute = 4 + octets.len() as u16;
    out.extend_from_slice(&BINDING_SUCCESS);
    out.extend_from_slice(&(4 + attribute).to_be_bytes());
    out.extend_from_slice(mask);
    out.extend_from_slice(&XOR_MAPPED_ADDRESS);
    out.extend_from_slice(&attribute.to_be_bytes());
    out.extend_from_slice(&[0, family]);
    let port = seen.port().to_be_bytes();
    out.extend((0..).zip(port).map(|(place, byte)| masked(byte, place)));
    out.extend((0..).zip(octets).map(|(place, &byte)| masked(byte, place)));
}

#[cfg(test)]
mod tests {
    use transaction::Flow;

    use super::*;

    fn answered(from: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Outbox::default();
        let flow = Flow::udp(0, from.parse().unwrap());
        let datagram = Datagram {
            flow,
            bytes,
            truncated: false,
        };
        let is_answered = answer(&datagram, &mut out);
        assert_eq!(is_answered, out.transmits.len() == 1);
        let sent = out.transmits.first()?;
        assert_eq!(sent.flow, flow);
        Some(out.payload(sent).to_vec())
    }

    /// The transaction of RFC 5769 §2.
    const TRANSACTION: &[u8; 12] = b"\xb7\xe7\xa7\x01\xbc\x34\xd6\x86\xfa\x87\xdf\xae";

    fn binding_request() -> Vec<u8> {
        [&BINDING_REQUEST[..], &[0, 0], &COOKIE, TRANSACTION].concat()
    }

    /// The mapped addresses of RFC 5769 §2.2 and §2.3.
    #[test]
    fn a_client_is_told_as_which_address_it_is_seen() {
        for (seen, mapped) in [
            (
                "192.0.2.1:32853",
                &b"\x00\x20\x00\x08\x00\x01\xa1\x47\xe1\x12\xa6\x43"[..],
            ),
            (
                "[2001:db8:1234:5678:11:2233:4455:6677]:32853",
                b"\x00\x20\x00\x14\x00\x02\xa1\x47\x01\x13\xa9\xfa\xa5\xd3\xf1\x79\xbc\x25\xf4\xb5\xbe\xd2\xb9\xd9",
            ),
        ] {
            let answer = answered(seen, &binding_request()).unwrap();
            let header = [&BINDING_SUCCESS[..], &[0, mapped.len() as u8], &COOKIE, TRANSACTION];
            assert_eq!(answer, [&header.concat(), mapped].concat());
        }
    }

    #[test]
    fn a_ping_has_a_pong() {
        assert_eq!(answered("192.0.2.1:5060", b"\r\n\r\n").unwrap(), b"\r\n");
    }

    #[test]
    fn nothing_else_is_answered() {
        let good = binding_request();
        let change = |place: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[place] = value;
            bytes
        };
        for bytes in [
            b"".to_vec(),
            b"\r\n".to_vec(),
            b"\0".to_vec(),
            good[..19].to_vec(),
            change(0, 1),
            change(3, 4),
            change(3, 1),
            change(4, 0),
        ] {
            assert_eq!(answered("192.0.2.1:5060", &bytes), None, "{bytes:?}");
        }
    }
}
