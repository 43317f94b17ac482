//! The section `[trust]`: who is believed, and where nobody may make the node send to.

use node::{
    config::{IpNet, Trust},
    urgent::{USER_BYTES_MAX, USERS_MAX},
};
use settings::{
    Read, Section, Value,
    value::{expected, integer, list},
};

/// Bounds how much one host may get more than another.
const WEIGHT_MAX: usize = 1_000;

/// Reads `[trust]`.
pub(crate) fn trust(mut section: Section<'_>) -> Trust {
    let peers = section.get_or("peers", Vec::new(), list(network));
    let denied = section.get_or("denied", Vec::new(), list(network));
    let urgent = section.get_or("urgent", Vec::new(), users);
    let weights = section.given_table("weights").map(weights);
    section.finish();
    Trust {
        peers,
        denied,
        urgent,
        weights: weights.unwrap_or_default(),
    }
}

fn users(value: &Value<'_>) -> Read<Vec<String>> {
    let users = list(user)(value)?;
    match users.len() {
        ..=USERS_MAX => Ok(users),
        number => Err(format!(
            "{number} users are too many: write {USERS_MAX} at most"
        )),
    }
}

/// What is before the `@` of a SIP URI, or the number of a `tel` URI.
fn user(value: &Value<'_>) -> Read<String> {
    let text = value
        .as_str()
        .ok_or_else(|| expected("a user in quotes, such as \"112\"", value))?;
    let is_user = |byte: u8| byte.is_ascii_graphic() && !b"@;:".contains(&byte);
    match (1..=USER_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_user) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "\"{text}\" is no user of at most {USER_BYTES_MAX} characters: write what is before the @, such as \"112\""
        )),
    }
}

/// In the order of the file.
fn weights(section: Section<'_>) -> Vec<(IpNet, u16)> {
    let mut found = Vec::new();
    for (name, value) in section.entries() {
        let (text, at) = (name.get_ref(), name.span().start);
        let network = network_of(text).map_err(|message| (at, message));
        let weight = integer(1..=WEIGHT_MAX)(value.get_ref());
        let weight = weight.map_err(|message| (value.span().start, message));
        match network.and_then(|network| Ok((at, network, weight? as u16))) {
            Ok(entry) => found.push(entry),
            Err((at, message)) => section.problem_of(text, at, &message),
        }
    }
    found.sort_by_key(|(at, ..)| *at);
    found
        .into_iter()
        .map(|(_, network, weight)| (network, weight))
        .collect()
}

/// A network, or one host's address.
pub(super) fn network(value: &Value<'_>) -> Read<IpNet> {
    let text = value
        .as_str()
        .ok_or_else(|| expected("a network in quotes, such as \"10.0.0.0/8\"", value))?;
    network_of(text)
}

fn network_of(text: &str) -> Read<IpNet> {
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
