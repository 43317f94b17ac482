//! Where the contact of a user leads, and where it may lead: to hosts of strangers and nowhere else. The addresses of our
//! servers and peers believe what this node sends them, so no user may point it there.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use sip::{Host, Uri};
use transaction::{NextHop, Transport};

use crate::{
    config::Registrar,
    question::Name,
    snapshot::Snapshot,
    wire::{
        nat::{is_made_up, is_private},
        reply::Reply,
        way::next_hop_of,
    },
};

/// Accepts a contact if calls may go there. Its REGISTER came from `source`, without a Path.
///
/// # Errors
/// The refusal, which does not tell our servers from our peers.
pub(super) fn check(
    snapshot: &Snapshot,
    contact: &Uri<'_>,
    source: SocketAddr,
) -> Result<(), Reply> {
    let refuse = |reason| Err(Reply::because(403, reason));
    if names_us(snapshot, contact) {
        return refuse("Contact Is This Domain");
    }
    // An address that a name has can change at any time, and to ask for it costs: for users alone.
    if name_of(snapshot, contact).is_some() && !snapshot.knows_users() {
        return refuse("Contact Must Be An Address");
    }
    let hop = hop_of(contact, source, |transport| snapshot.speaks(transport));
    if !allows(snapshot, hop.address, source) {
        return refuse("Contact Address Not Allowed");
    }
    Ok(())
}

/// Whether a contact is a name of ours: a request there would come back. A domain that is an address says
/// nothing of other ports there.
pub(super) fn names_us(snapshot: &Snapshot, contact: &Uri<'_>) -> bool {
    let registrar = snapshot.config().registrar.as_ref();
    let is_domain = |host| {
        let is_known = |registrar: &Registrar| registrar.has(&host);
        matches!(host, Host::Name(_)) && registrar.is_some_and(is_known)
    };
    snapshot.is_our_uri(contact) || contact.destination().is_some_and(is_domain)
}

/// Whether a contact may lead to an address. Its REGISTER came from `source`.
pub(super) fn allows(snapshot: &Snapshot, to: SocketAddr, source: SocketAddr) -> bool {
    let trust = &snapshot.config().trust;
    let plain = SocketAddr::new(to.ip().to_canonical(), to.port());
    let is_ours = |at| snapshot.is_ours(at) || snapshot.is_inside(at);
    is_a_hosts(plain)
        && (!plain.ip().is_loopback() || source.ip().to_canonical().is_loopback())
        && !is_ours(to)
        && !is_ours(plain)
        && !trust.is_peer(plain.ip())
        && !trust.is_denied(plain.ip())
}

/// Whether an address is one host's.
fn is_a_hosts(at: SocketAddr) -> bool {
    let ip = at.ip();
    let is_broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
    !ip.is_unspecified() && !ip.is_multicast() && !is_broadcast && at.port() != 0
}

/// A contact's name, unless it is one that phones make up. RFC 2606 §2
pub(super) fn name_of(snapshot: &Snapshot, contact: &Uri<'_>) -> Option<Name> {
    Name::of(contact)
        .filter(|name| name.transport.is_none_or(|of| snapshot.speaks(of)))
        .filter(|name| !is_made_up(name.host.as_bytes()))
}

/// Where a contact leads as long as its name, if it has one, is not resolved: where it says, or where its
/// REGISTER came from when it can't be reached there, behind a NAT or by a transport that is not spoken here.
pub(super) fn hop_of(
    contact: &Uri<'_>,
    received: SocketAddr,
    speaks: impl FnOnce(Transport) -> bool,
) -> NextHop {
    let is_behind_nat =
        |address: SocketAddr| is_private(address.ip()) && !is_private(received.ip());
    next_hop_of(contact)
        .filter(|hop| speaks(hop.transport) && !is_behind_nat(hop.address))
        .unwrap_or_else(|| NextHop::udp(received))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_reached_where_it_is() {
        let cases = [
            (
                "sip:a@198.51.100.7:5070",
                "203.0.113.1:9",
                "198.51.100.7:5070",
            ),
            ("sip:a@198.51.100.7", "203.0.113.1:9", "198.51.100.7:5060"),
            ("sip:a@10.0.0.7:5070", "203.0.113.1:9", "203.0.113.1:9"),
            ("sip:a@100.64.0.7:5070", "203.0.113.1:9", "203.0.113.1:9"),
            ("sip:a@10.0.0.7:5070", "10.0.0.1:9", "10.0.0.7:5070"),
            ("sip:a@[fd00::7]:5070", "[2001:db8::1]:9", "[2001:db8::1]:9"),
            (
                "sip:a@198.51.100.7;transport=tcp",
                "203.0.113.1:9",
                "203.0.113.1:9",
            ),
            (
                "sip:a@198.51.100.7;transport=UDP",
                "203.0.113.1:9",
                "198.51.100.7:5060",
            ),
            ("sip:a@x7f3.invalid", "203.0.113.1:9", "203.0.113.1:9"),
        ];
        for (contact, received, expected) in cases {
            let uri = Uri::parse(contact.as_bytes()).unwrap();
            let is_udp = |transport| transport == Transport::Udp;
            let hop = hop_of(&uri, received.parse().unwrap(), is_udp);
            assert_eq!(hop.to_string(), expected, "{contact}");
        }
    }
}
