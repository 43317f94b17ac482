//! Where a user's bindings lead: RFC 3261 §16.5, RFC 3327 §5.4.

use std::net::SocketAddr;

use location::Binding;
use sip::{NameAddr, Scheme, Uri};

use super::{bindings, reach};
use crate::{
    context::Context,
    question::{Name, Record},
    snapshot::Snapshot,
    stats::Event,
    wire::reply::Reply,
};

/// A place that a request may go to: RFC 3261 §16.5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The Request-URI that it gets.
    pub(crate) uri: Vec<u8>,
    /// What the DNS has to be asked for first.
    pub(crate) name: Option<Name>,
    /// The next hop, in the order in which its addresses are to be tried.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Where its REGISTER came from.
    pub(crate) source: SocketAddr,
    /// What its Route begins with; may be empty.
    pub(crate) path: Vec<u8>,
    /// Its preference in thousandths: higher ones come first, equal ones together.
    pub(crate) q: u16,
}

impl Target {
    /// Leaves out the addresses that a contact may not lead to, and returns how many there were. A Path is
    /// of those who are trusted, and leads anywhere.
    pub(crate) fn keep_allowed(&mut self, snapshot: &Snapshot) -> usize {
        let before = self.addresses.len();
        if self.path.is_empty() {
            let source = self.source;
            self.addresses
                .retain(|&to| reach::allows(snapshot, to, source));
        }
        before - self.addresses.len()
    }
}

/// The targets of a record of bindings. What is forbidden by now has no address.
pub(crate) fn targets(cx: Context<'_>, record: &Record) -> Result<Vec<Target>, Reply> {
    let location = bindings::read(Some(record), cx.wall())?;
    let targets = location.bindings.iter();
    let mut targets: Vec<_> = targets
        .filter_map(|known| target(cx.snapshot, known))
        .collect();
    let forbidden = targets
        .iter_mut()
        .map(|target| target.keep_allowed(cx.snapshot));
    cx.stats.count(Event::ForbiddenTarget, forbidden.sum());
    Ok(targets)
}

fn target(snapshot: &Snapshot, binding: &Binding<'_>) -> Option<Target> {
    let contact = Uri::parse(binding.contact.as_bytes()).ok()?;
    let has_path = !binding.path.is_empty();
    if contact.scheme != Scheme::Sip || (!has_path && reach::names_us(snapshot, &contact)) {
        return None;
    }
    let (name, addresses) = if has_path {
        let first = NameAddr::first(binding.path.as_bytes())?;
        let next_hop = Uri::parse(first.uri).ok()?;
        let address = next_hop.address();
        (Name::of(&next_hop), address.into_iter().collect())
    } else {
        let address = reach::address_of(&contact, binding.received);
        (reach::name_of(&contact), vec![address])
    };
    let mut uri = Vec::with_capacity(binding.contact.len());
    contact.write_as_request_uri(&mut uri);
    Some(Target {
        uri,
        name,
        addresses,
        source: binding.received,
        path: binding.path.into(),
        q: binding.q,
    })
}
