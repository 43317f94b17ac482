//! PROXY headers, whole and in single bytes.

use std::net::SocketAddr;

use stream::{Layer, Plain, Proxied, Said, Why};

const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// What comes of bytes: the address, what follows it, and why it ends.
fn check(bytes: &[u8], remote: Option<&str>, rest: &[u8], end: Result<(), Why>) {
    for step in [1, 5, bytes.len().max(1)] {
        let mut layer = Proxied::new(Plain);
        let mut told: Option<SocketAddr> = None;
        let mut heard = Vec::new();
        let mut taken = Ok(());
        assert!(layer.awaits_remote() && !layer.is_open());
        for piece in bytes.chunks(step) {
            taken = taken.and_then(|()| {
                layer.receive(piece, &mut |said| match said {
                    Said::Remote(remote) if heard.is_empty() => told = Some(remote),
                    Said::Bytes(bytes) => heard.extend_from_slice(bytes),
                    said => panic!("{said:?}"),
                })
            });
        }
        let expected = remote.map(|remote| remote.parse().expect("it is an address"));
        let text = String::from_utf8_lossy(bytes);
        assert_eq!((told, &heard[..], taken), (expected, rest, end), "{text}");
        assert!(layer.held_bytes() <= bytes.len());
    }
}

fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u16).to_be_bytes();
    [V2, &[command, family], &length, body, b"INVITE"].concat()
}

#[test]
fn headers_tell_the_client() {
    let tcp4 = b"PROXY TCP4 203.0.113.7 192.0.2.1 40000 5060\r\nINVITE";
    check(tcp4, Some("203.0.113.7:40000"), b"INVITE", Ok(()));
    let tcp6 = b"PROXY TCP6 2001:db8::7 2001:db8::1 40000 5060\r\nINVITE";
    check(tcp6, Some("[2001:db8::7]:40000"), b"INVITE", Ok(()));
    check(b"PROXY UNKNOWN\r\nINVITE", None, b"INVITE", Ok(()));

    let ipv4 = [203, 0, 113, 7, 192, 0, 2, 1, 0x9c, 0x40, 0x13, 0xc4];
    check(
        &v2(0x21, 0x11, &ipv4),
        Some("203.0.113.7:40000"),
        b"INVITE",
        Ok(()),
    );
    // With an addition: type 5, of 2 bytes.
    let longer = [&ipv4[..], &[5, 0, 2, b'i', b'd']].concat();
    check(
        &v2(0x21, 0x11, &longer),
        Some("203.0.113.7:40000"),
        b"INVITE",
        Ok(()),
    );
    let mut ipv6 = [0; 36];
    (ipv6[0], ipv6[1], ipv6[15], ipv6[33]) = (0x20, 1, 7, 9);
    check(
        &v2(0x21, 0x21, &ipv6),
        Some("[2001::7]:9"),
        b"INVITE",
        Ok(()),
    );
    check(&v2(0x20, 0, &[]), None, b"INVITE", Ok(()));
}

#[test]
fn what_is_no_header_ends_the_connection() {
    let bad = Err(Why::ProxyHeader);
    let long = [b"PROXY TCP4 ", &[b'1'; 200][..]].concat();
    let texts: [&[u8]; 8] = [
        b"INVITE sip:bob@example.com SIP/2.0\r\n",
        b"\r\n\r\nINVITE",
        b"\x16\x03\x01",
        b"PROXY TCP4 203.0.113.300 192.0.2.1 40000 5060\r\n",
        b"PROXY TCP4 203.0.113.3\r\n",
        b"PROXY UDP4 1.1.1.1 2.2.2.2 1 2\r\n",
        b"PROXY \xff\r\n",
        &long,
    ];
    for text in texts {
        check(text, None, b"", bad);
    }
    check(&v2(0x11, 0x11, &[0; 12]), None, b"", bad);
    check(&v2(0x21, 0x11, &[0; 11]), None, b"", bad);
    check(&v2(0x21, 0x31, &[0; 216]), None, b"", bad);
    check(&v2(0x21, 0x11, &[0; 2100]), None, b"", bad);
    check(&v2(0x21, 0x11, &[0; 12])[..20], None, b"", Ok(()));
}
