//! Destinations as Kamailio and OpenSIPS write them, and what Sipyard makes of them.

use std::net::IpAddr;

use sip::Uri;

/// The transports that need nothing but a name in the configuration. Certificates of others are nobody's
/// to guess.
pub(crate) const TRANSPORTS: [&str; 2] = ["udp", "tcp"];

/// A destination that Sipyard can send to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// `IP:PORT` or `NAME:PORT`, with `tcp:` before it over TCP.
    pub(crate) address: String,
    /// The destination was a name without a port, which the DNS may answer otherwise.
    pub(crate) is_bare_name: bool,
}

/// Reads a destination.
///
/// # Errors
/// Why Sipyard can't send there.
pub(crate) fn target(text: &str) -> Result<Target, String> {
    let has_scheme = text.starts_with("sip:") || text.starts_with("sips:");
    let uri = if has_scheme {
        text.to_owned()
    } else {
        format!("sip:{text}")
    };
    let parsed = Uri::parse(uri.as_bytes()).map_err(|error| error.to_string())?;
    let transport = transport(&uri);
    if !TRANSPORTS.contains(&transport.as_str()) {
        return Err(format!(
            "over {transport} it needs certificates: write \"{transport}:HOST:PORT\" yourself"
        ));
    }
    let port = parsed.port.unwrap_or(5060);
    let before = match transport.as_str() {
        "udp" => "",
        _ => "tcp:",
    };
    if let Some(address) = parsed.address() {
        return Ok(Target {
            address: format!("{before}{address}"),
            is_bare_name: false,
        });
    }
    let host = host_of(&uri);
    if !is_name(host) {
        return Err(format!("\"{host}\" is no host's name"));
    }
    Ok(Target {
        address: format!("{before}{}:{port}", host.to_ascii_lowercase()),
        is_bare_name: parsed.port.is_none(),
    })
}

/// The transport of a URI, in lower case.
fn transport(uri: &str) -> String {
    if uri.starts_with("sips:") {
        return "tls".to_owned();
    }
    let params = uri.split(';').skip(1);
    let named = params.filter_map(|param| {
        let (name, value) = param.split_once('=')?;
        name.eq_ignore_ascii_case("transport").then_some(value)
    });
    named.last().unwrap_or("udp").to_ascii_lowercase()
}

fn host_of(uri: &str) -> &str {
    let rest = uri.split_once(':').map_or(uri, |(_, rest)| rest);
    let rest = rest.rsplit('@').next().unwrap_or(rest);
    rest.split([':', ';', '?']).next().unwrap_or(rest)
}

/// Whether a text can be the name of a host. RFC 3261 §25.1
pub(crate) fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        edge(label.chars().next())
            && edge(label.chars().next_back())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let top = text.rsplit('.').next().unwrap_or_default();
    top.starts_with(|first: char| first.is_ascii_alphabetic()) && text.split('.').all(is_label)
}

/// Where a script listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    pub(crate) transport: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) advertise: Option<String>,
}

/// Reads `udp:HOST:PORT advertise HOST:PORT`, or `as HOST:PORT`.
///
/// # Errors
/// The part that can't be read.
pub(crate) fn listen(text: &str) -> Result<Listen, String> {
    let text = text.trim_matches(['"', '\'']);
    let mut words = text.split_whitespace();
    let socket = words.next().unwrap_or_default();
    let rest: Vec<&str> = words.collect();
    let named = rest
        .iter()
        .position(|word| ["advertise", "as"].contains(word));
    let advertise = named
        .and_then(|at| rest.get(at + 1))
        .map(|it| it.to_string());
    let known = [
        "udp", "tcp", "tls", "ws", "wss", "sctp", "bin", "hep_udp", "hep_tcp", "smpp", "msrp",
    ];
    let (transport, place) = match socket.split_once(':') {
        Some((first, place)) if known.contains(&first) => (first, place),
        _ => ("udp", socket),
    };
    let (host, port) = match place.parse::<IpAddr>() {
        Ok(ip) => (ip.to_string(), 5060),
        Err(_) => match place.rsplit_once(':') {
            Some((host, port)) => {
                let port = port.parse().map_err(|_| place.to_owned())?;
                (host.trim_matches(['[', ']']).to_owned(), port)
            }
            None => (place.to_owned(), 5060),
        },
    };
    let host = if host == "*" {
        "0.0.0.0".to_owned()
    } else {
        host
    };
    Ok(Listen {
        transport: transport.to_owned(),
        host,
        port,
        advertise,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations() {
        let cases = [
            ("sip:10.0.0.1:5070", Ok("10.0.0.1:5070")),
            ("sip:10.0.0.1", Ok("10.0.0.1:5060")),
            ("10.0.0.1;transport=UDP", Ok("10.0.0.1:5060")),
            ("sip:[2001:db8::1]:5060", Ok("[2001:db8::1]:5060")),
            ("sip:GW.example.com", Ok("gw.example.com:5060")),
            ("sip:gw.example.com;transport=tls", Err("")),
            ("sip:10.0.0.1;transport=tcp", Ok("tcp:10.0.0.1:5060")),
            ("sips:gw.example.com", Err("")),
            ("sip:my_host:5060", Err("")),
        ];
        for (text, expected) in cases {
            let found = target(text);
            let found = found.as_ref().map(|found| found.address.as_str());
            match expected {
                Err("") => assert!(found.is_err(), "{text}"),
                Err(why) => assert_eq!(found.map_err(String::as_str), Err(why), "{text}"),
                Ok(address) => assert_eq!(found, Ok(address), "{text}"),
            }
        }
    }

    #[test]
    fn listeners() {
        let of = |text| {
            let found = listen(text).expect("a listener");
            let advertise = found.advertise.unwrap_or_default();
            format!(
                "{} {} {} {advertise}",
                found.transport, found.host, found.port
            )
        };
        let cases = [
            ("udp:10.0.0.1:5070", "udp 10.0.0.1 5070 "),
            ("10.0.0.1", "udp 10.0.0.1 5060 "),
            ("udp:*:5060", "udp 0.0.0.0 5060 "),
            (
                "tls:10.0.0.1:5061 advertise sip.example.com:5061",
                "tls 10.0.0.1 5061 sip.example.com:5061",
            ),
            (
                "udp:10.0.0.1:5060 as 1.2.3.4:5060",
                "udp 10.0.0.1 5060 1.2.3.4:5060",
            ),
            ("udp:[2001:db8::1]:5060", "udp 2001:db8::1 5060 "),
            ("udp:eth0:5060", "udp eth0 5060 "),
        ];
        for (text, expected) in cases {
            assert_eq!(of(text), expected, "{text}");
        }
        assert!(listen("udp:MY_IP:PORT").is_err());
    }
}
