//! The section `[trust]`: who is believed, and where nobody may make the node send to.

use node::config::{IpNet, Trust};
use settings::{
    Read, Section, Value,
    value::{expected, list},
};

/// Reads `[trust]`.
pub(crate) fn trust(mut section: Section<'_>) -> Trust {
    let peers = section.get_or("peers", Vec::new(), list(network));
    let denied = section.get_or("denied", Vec::new(), list(network));
    section.finish();
    Trust { peers, denied }
}

/// A network, or one host's address.
pub(super) fn network(value: &Value<'_>) -> Read<IpNet> {
    let text = value
        .as_str()
        .ok_or_else(|| expected("a network in quotes, such as \"10.0.0.0/8\"", value))?;
    if let Ok(host) = text.parse::<std::net::IpAddr>() {
        return Ok(host.into());
    }
    let network: IpNet = text.parse().map_err(|_| {
        format!("\"{text}\" is no network: write one such as \"10.0.0.0/8\" or \"2001:db8::/32\"")
    })?;
    if network.trunc() == network {
        return Ok(network);
    }
    Err(format!(
        "\"{text}\" has bits behind its prefix: write \"{}\" for the network, or \"{}\" for the host",
        network.trunc(),
        network.addr()
    ))
}
