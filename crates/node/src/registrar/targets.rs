//! Where a user's bindings lead: RFC 3261 §16.5, RFC 3327 §5.4.

use std::net::SocketAddr;

use location::Binding;
use sip::{NameAddr, Scheme, Uri};
use transaction::Flow;

use super::{bindings, reach};
use crate::{
    context::Context,
    question::{Name, Record},
    snapshot::Snapshot,
    stats::Event,
    wire::{reply::Reply, request::phone, way::next_hop_of},
};

/// A place that a request may go to: RFC 3261 §16.5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The Request-URI that it gets.
    pub(crate) uri: Vec<u8>,
    /// What the DNS has to be asked for first.
    pub(crate) name: Option<Name>,
    /// The ways to the next hop, in the order in which they are to be tried.
    pub(crate) flows: Vec<Flow>,
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
        let before = self.flows.len();
        if self.path.is_empty() {
            let source = self.source;
            self.flows
                .retain(|to| reach::allows(snapshot, to.remote, source));
        }
        before - self.flows.len()
    }
}

/// The targets of a record of bindings. What is forbidden by now has no address.
pub(crate) fn targets(cx: Context<'_>, record: &Record, hit: u8) -> Result<Vec<Target>, Reply> {
    let location = bindings::read(Some(record), cx.wall())?;
    let targets = location.bindings.iter();
    let mut targets: Vec<_> = targets
        .filter_map(|known| target(cx.snapshot, known, hit))
        .collect();
    let forbidden = targets
        .iter_mut()
        .map(|target| target.keep_allowed(cx.snapshot));
    cx.stats.count(Event::ForbiddenTarget, forbidden.sum());
    Ok(targets)
}

/// `hit` is the listener that the request came to.
fn target(snapshot: &Snapshot, binding: &Binding<'_>, hit: u8) -> Option<Target> {
    let contact = Uri::parse(binding.contact.as_bytes()).ok()?;
    let has_path = !binding.path.is_empty();
    if contact.scheme != Scheme::Sip || (!has_path && reach::names_us(snapshot, &contact)) {
        return None;
    }
    let mut path = binding.path.as_bytes();
    let (name, flow) = if has_path {
        let first = NameAddr::first(path)?;
        let next_hop = Uri::parse(first.uri).ok()?;
        let phone = phone(snapshot, &next_hop);
        if phone.is_some() {
            path = behind(path, first.uri);
        }
        let hop = || snapshot.flow_to(next_hop_of(&next_hop)?, hit);
        (Name::of(&next_hop), phone.or_else(hop))
    } else {
        let speaks = |transport| snapshot.speaks(transport);
        let hop = reach::hop_of(&contact, binding.received, speaks);
        (
            reach::name_of(snapshot, &contact),
            snapshot.flow_to(hop, hit),
        )
    };
    let mut uri = Vec::with_capacity(binding.contact.len());
    contact.write_as_request_uri(&mut uri);
    Some(Target {
        uri,
        name,
        flows: flow.into_iter().collect(),
        source: binding.received,
        path: path.into(),
        q: binding.q,
    })
}

/// The values of a Path behind the first, which has this URI.
fn behind<'a>(path: &'a [u8], first: &[u8]) -> &'a [u8] {
    let start = path.windows(first.len()).position(|part| part == first);
    let rest = &path[start.unwrap_or_default() + first.len()..];
    let comma = rest.iter().position(|&byte| byte == b',');
    comma.map_or(&[], |comma| rest[comma + 1..].trim_ascii_start())
}
