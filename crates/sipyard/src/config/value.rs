//! Single values: what they must look like, and what to say when they don't.

use std::{
    fmt::Display,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ops::RangeInclusive,
    time::Duration,
};

use toml::de::DeValue;

/// A value, or what is wrong with it.
pub(crate) type Read<T> = Result<T, String>;

/// The complaint about a value of the wrong type.
pub(crate) fn expected(what: &str, value: &DeValue<'_>) -> String {
    format!("expected {what}, found {}", type_name(value))
}

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A string.
pub(crate) fn text<'a>(value: &'a DeValue<'a>) -> Read<&'a str> {
    value.as_str().ok_or_else(|| expected("a string", value))
}

/// A string that is not empty.
pub(crate) fn name<'a>(value: &'a DeValue<'a>) -> Read<&'a str> {
    match text(value)? {
        "" => Err("must not be empty".into()),
        name => Ok(name),
    }
}

/// A list of what `read` takes.
pub(crate) fn list<'a, T>(
    read: impl Fn(&'a DeValue<'a>) -> Read<T>,
) -> impl Fn(&'a DeValue<'a>) -> Read<Vec<T>> {
    move |value| {
        let items = value
            .as_array()
            .ok_or_else(|| expected("a list such as [\"A\", \"B\"]", value))?;
        items.iter().map(|item| read(item.get_ref())).collect()
    }
}

/// A whole number within `range`.
pub(crate) fn integer(range: RangeInclusive<usize>) -> impl Fn(&DeValue<'_>) -> Read<usize> {
    move |value| {
        let integer = value
            .as_integer()
            .ok_or_else(|| expected("an integer", value))?;
        let number = usize::from_str_radix(integer.as_str(), integer.radix()).ok();
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| out_of_range(&integer.to_string(), &range))
    }
}

/// A number within `range`, with a fraction or without.
pub(crate) fn number(range: RangeInclusive<f64>) -> impl Fn(&DeValue<'_>) -> Read<f64> {
    move |value| {
        let text = match value {
            DeValue::Float(float) => float.as_str(),
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            _ => return Err(expected("a number", value)),
        };
        let number = text.parse().ok();
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| out_of_range(text, &range))
    }
}

fn out_of_range<T: Display>(text: &str, range: &RangeInclusive<T>) -> String {
    let (low, high) = (range.start(), range.end());
    format!("{text} is out of range: {low} to {high}")
}

/// A duration within `range`: a whole number and its unit.
pub(crate) fn duration(range: RangeInclusive<Duration>) -> impl Fn(&DeValue<'_>) -> Read<Duration> {
    move |value| {
        let advice = "a duration in quotes, such as \"250ms\", \"2s\", \"5m\" or \"12h\"";
        let text = value.as_str().ok_or_else(|| expected(advice, value))?;
        let duration =
            parse_duration(text).ok_or_else(|| format!("expected {advice}, found \"{text}\""))?;
        if range.contains(&duration) {
            return Ok(duration);
        }
        let (low, high) = (show(*range.start()), show(*range.end()));
        Err(format!("{text} is out of range: {low} to {high}"))
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let ms = number.parse::<u64>().ok()?.checked_mul(unit_ms)?;
    Some(Duration::from_millis(ms))
}

/// A duration in the configuration's own words: the largest unit that divides it.
pub(crate) fn show(duration: Duration) -> String {
    let ms = duration.as_millis();
    for (unit, unit_ms) in [("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if ms > 0 && ms.is_multiple_of(unit_ms) {
            return format!("{}{unit}", ms / unit_ms);
        }
    }
    format!("{ms}ms")
}

/// A numeric address with its port.
pub(crate) fn address(value: &DeValue<'_>) -> Read<SocketAddr> {
    let text = value
        .as_str()
        .ok_or_else(|| expected("an address in quotes, such as \"10.0.0.11:5060\"", value))?;
    if let Ok(ip) = text.parse::<IpAddr>() {
        let with_port = SocketAddr::new(ip, 5060);
        return Err(format!(
            "\"{text}\" has no port: write \"{with_port}\" for SIP's own"
        ));
    }
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() == 0 => {
            Err("port 0 is none: choose one, such as 5060".into())
        }
        Ok(address) => Ok(address),
        Err(_) => Err(format!(
            "\"{text}\" is not IP:PORT, such as \"10.0.0.11:5060\" or \"[2001:db8::1]:5060\"; \
             names are not looked up"
        )),
    }
}

/// `host` or `host:port`, as it stands in a Via (RFC 3261 §25.1, sent-by).
pub(crate) fn sent_by<'a>(value: &'a DeValue<'a>) -> Read<&'a str> {
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
pub(crate) fn host(value: &DeValue<'_>) -> Read<String> {
    match value.as_str() {
        Some(text) if is_host(text) => Ok(text.to_owned()),
        Some(text) => Err(format!(
            "\"{text}\" is not a host, such as \"example.com\" or \"203.0.113.10\"; it takes no port"
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

/// The request methods that the IANA registry lists.
pub(crate) const METHODS: [&str; 14] = [
    "ACK",
    "BYE",
    "CANCEL",
    "INFO",
    "INVITE",
    "MESSAGE",
    "NOTIFY",
    "OPTIONS",
    "PRACK",
    "PUBLISH",
    "REFER",
    "REGISTER",
    "SUBSCRIBE",
    "UPDATE",
];

/// A request method. Methods are told apart by case (RFC 3261 §7.1).
pub(crate) fn method(value: &DeValue<'_>) -> Read<String> {
    let text = value
        .as_str()
        .ok_or_else(|| expected("a method in quotes, such as \"INVITE\"", value))?;
    check_method(text)?;
    Ok(text.to_owned())
}

/// Whether `text` is a registered method.
pub(crate) fn check_method(text: &str) -> Read<()> {
    if METHODS.contains(&text) {
        return Ok(());
    }
    let hint = super::section::hint(text, &METHODS);
    Err(format!("unknown method \"{text}\"; {hint}"))
}
