//! Addresses and hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use settings::{
    Read, Value,
    value::{expected, text},
};

/// A numeric address with its port.
pub(crate) fn address(value: &Value<'_>) -> Read<SocketAddr> {
    let text = value
        .as_str()
        .ok_or_else(|| expected("an address in quotes, such as \"10.0.0.11:5060\"", value))?;
    address_of(text)
}

/// The same in a text.
pub(super) fn address_of(text: &str) -> Read<SocketAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        let with_port = SocketAddr::new(ip, 5060);
        return Err(format!(
            "\"{text}\" has no port: write \"{with_port}\" for SIP's default port"
        ));
    }
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() == 0 => {
            Err("port 0 is not allowed: choose one, such as 5060".into())
        }
        Ok(address) => Ok(address),
        Err(_) => Err(format!(
            "\"{text}\" is not IP:PORT, such as \"10.0.0.11:5060\" or \"[2001:db8::1]:5060\"; \
             write an IP address, because names are not looked up"
        )),
    }
}

/// `host` or `host:port`, as a Via carries it (RFC 3261 §25.1, sent-by).
pub(crate) fn sent_by<'a>(value: &'a Value<'a>) -> Read<&'a str> {
    let text = text(value)?;
    if is_sent_by(text) {
        Ok(text)
    } else {
        Err(format!(
            "\"{text}\" is not a host or host:port that others can reach, such as \
             \"203.0.113.10:5060\", \"sip.example.com\" or \"[2001:db8::1]:5060\""
        ))
    }
}

fn is_sent_by(text: &str) -> bool {
    let (host, rest) = match text.find(']') {
        Some(bracket) => text.split_at(bracket + 1),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port_fits = match rest.strip_prefix(':') {
        Some(port) => port.parse::<u16>().is_ok_and(|port| port != 0),
        None => rest.is_empty(),
    };
    let reachable = !host_ip(host).is_some_and(|ip| ip.is_unspecified());
    is_host(host) && reachable && port_fits
}

/// The host of a Request-URI: a name, an IPv4 address or an IPv6 reference in brackets.
pub(crate) fn host(value: &Value<'_>) -> Read<String> {
    match value.as_str() {
        Some(text) if is_host(text) => Ok(text.to_owned()),
        Some(text) => Err(format!(
            "\"{text}\" is not a host, such as \"example.com\" or \"203.0.113.10\"; write it \
             without a port"
        )),
        None => Err(expected("a host in quotes", value)),
    }
}

fn host_ip(text: &str) -> Option<IpAddr> {
    match text.strip_prefix('[') {
        Some(rest) => rest
            .strip_suffix(']')?
            .parse::<Ipv6Addr>()
            .ok()
            .map(IpAddr::V6),
        None => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

/// Whether `text` is a host's name or address.
pub(crate) fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let inner = |c: char| c.is_ascii_alphanumeric() || c == '-';
        edge(label.chars().next()) && edge(label.chars().next_back()) && label.chars().all(inner)
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    // RFC 3261 §25.1: a top label begins with a letter; what begins with a digit is an address.
    let top_is_name = name
        .rsplit('.')
        .next()
        .is_some_and(|top| top.starts_with(|c: char| c.is_ascii_alphabetic()));
    host_ip(text).is_some() || (top_is_name && name.split('.').all(is_label))
}
