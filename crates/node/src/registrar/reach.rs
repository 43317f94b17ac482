//! Where the contact of a user may lead: to hosts of strangers and nowhere else. The addresses of our
//! servers and peers believe what this node sends them, so no user may point it there.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use sip::Uri;

use super::targets::{address_of, name_of};
use crate::{snapshot::Snapshot, wire::reply::Reply};

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
    if name_of(contact).is_some() && !snapshot.knows_users() {
        return refuse("Contact Must Be An Address");
    }
    if !allows(snapshot, address_of(contact, source), source) {
        return refuse("Contact Address Not Allowed");
    }
    Ok(())
}

/// Whether a contact is a name of ours: a request there would come back.
pub(super) fn names_us(snapshot: &Snapshot, contact: &Uri<'_>) -> bool {
    let registrar = snapshot.config().registrar.as_ref();
    let is_domain = |host| registrar.is_some_and(|registrar| registrar.has(&host));
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
