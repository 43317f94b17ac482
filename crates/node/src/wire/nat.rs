//! Who is behind a NAT.

use std::net::IpAddr;

pub(crate) use sip::is_private;
use sip::{Host, Uri, Via};
use transaction::Flow;

/// Whether a request's sender knows itself by another address than the one it is seen at.
pub(crate) fn is_behind_nat(via: &Via<'_>, seen: IpAddr) -> bool {
    ip_of(via).is_some_and(|ip| ip != seen.to_canonical())
}

/// Whether a contact is the sender of the request with this Via: neither one elsewhere, for which somebody
/// else registers it, nor another program on its host, which can be reached there. A stream comes from any
/// port of its host.
pub(crate) fn is_sender(contact: &Uri<'_>, via: &Via<'_>, seen: Flow) -> bool {
    let ip_seen = seen.remote.ip().to_canonical();
    match contact.host {
        Host::Ip(ip) if ip.to_canonical() == ip_seen => {
            seen.transport.is_stream()
                || contact.port.unwrap_or(5060) == seen.remote.port()
                || is_behind_nat(via, ip_seen)
        }
        Host::Ip(ip) => {
            let ip = ip.to_canonical();
            ip_of(via) == Some(ip) || (is_private(ip) && !is_private(ip_seen))
        }
        Host::Name(name) => is_made_up(name),
    }
}

/// A name that phones make up for want of an address. RFC 2606 §2
pub(crate) fn is_made_up(name: &[u8]) -> bool {
    const SUFFIX: &[u8] = b".invalid";
    name.len() >= SUFFIX.len() && name[name.len() - SUFFIX.len()..].eq_ignore_ascii_case(SUFFIX)
}

/// The address in a Via's sent-by, if it is one.
fn ip_of(via: &Via<'_>) -> Option<IpAddr> {
    let host = str::from_utf8(via.host).ok()?;
    let ip: IpAddr = host.trim_matches(['[', ']']).parse().ok()?;
    Some(ip.to_canonical())
}
