//! Where URIs lead. RFC 3263 §4

use std::net::SocketAddr;

use sip::{Host, Param, Scheme, Uri};
use transaction::{NextHop, Transport};

/// What carries messages to a URI. None: something that is not spoken here. RFC 3263 §4.1, RFC 7118 §5.3
pub(crate) fn transport_of(uri: &Uri<'_>) -> Option<Transport> {
    let is_sips = uri.scheme == Scheme::Sips;
    let named = match uri.param(b"transport") {
        Param::Absent if is_sips => return Some(Transport::Tls),
        Param::Absent => return Some(Transport::Udp),
        Param::Flag => return None,
        Param::Value(name) => name,
    };
    let is_named = |of: &Transport| of.label().as_bytes().eq_ignore_ascii_case(named);
    match Transport::ALL.into_iter().find(is_named)? {
        Transport::Udp if is_sips => None,
        Transport::Tcp if is_sips => Some(Transport::Tls),
        Transport::Ws if is_sips => Some(Transport::Wss),
        transport => Some(transport),
    }
}

/// Where a URI leads, if its host is an address. RFC 3263 §4.2
pub(crate) fn next_hop_of(uri: &Uri<'_>) -> Option<NextHop> {
    let transport = transport_of(uri)?;
    let Host::Ip(ip) = uri.destination()? else {
        return None;
    };
    let port = uri.port.unwrap_or_else(|| transport.default_port());
    let address = SocketAddr::new(ip, port);
    Some(NextHop { transport, address })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_says_its_transport_and_port() {
        for (uri, hop) in [
            ("sip:a@192.0.2.1", Some("192.0.2.1:5060")),
            ("sip:a@192.0.2.1:5070;transport=UDP", Some("192.0.2.1:5070")),
            ("sip:a@192.0.2.1;transport=tcp", Some("tcp:192.0.2.1:5060")),
            ("sip:a@192.0.2.1;transport=tls", Some("tls:192.0.2.1:5061")),
            ("sips:a@192.0.2.1", Some("tls:192.0.2.1:5061")),
            ("sips:a@192.0.2.1;transport=tcp", Some("tls:192.0.2.1:5061")),
            ("sips:a@192.0.2.1;transport=ws", Some("wss:192.0.2.1:443")),
            ("sip:a@192.0.2.1:80;transport=ws", Some("ws:192.0.2.1:80")),
            (
                "sip:a@[2001:db8::1];transport=tcp",
                Some("tcp:[2001:db8::1]:5060"),
            ),
            ("sips:a@192.0.2.1;transport=udp", None),
            ("sip:a@192.0.2.1;transport=sctp", None),
            ("sip:a@192.0.2.1;transport", None),
            ("sip:a@example.com;transport=tcp", None),
        ] {
            let found = next_hop_of(&Uri::parse(uri.as_bytes()).unwrap());
            assert_eq!(found.map(|hop| hop.to_string()).as_deref(), hop, "{uri}");
        }
    }
}
