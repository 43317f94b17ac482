//! Where a user's bindings lead: RFC 3261 §16.5, RFC 3327 §5.4.

use std::{cmp::Reverse, mem, net::SocketAddr};

use location::Binding;
use sip::{NameAddr, Scheme, Uri};
use transaction::{Flow, NextHop};

use super::{bindings, reach, removals::Bound};
use crate::{
    context::Context,
    question::{Name, Record},
    snapshot::Snapshot,
    stats::Event,
    wire::{
        gruu::{self, Device},
        reply::Reply,
        request::phone,
        way::next_hop_of,
    },
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
    /// Its next hop is the other end of a flow of this node, by a token.
    pub(crate) is_flow: bool,
    /// The binding that it is.
    pub(crate) bound: Bound,
    /// Other ways to the same device, those first that are to be tried first: one after the other, and never
    /// two at a time. RFC 5626 §7
    pub(crate) others: Vec<Self>,
}

impl Target {
    /// The device has no other way.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.flows.is_empty() && self.others.is_empty()
    }

    /// Goes on with the next way to its device, if there is one.
    pub(crate) fn leave_way(&mut self) {
        self.flows.clear();
        if !self.others.is_empty() {
            let mut others = mem::take(&mut self.others);
            *self = others.remove(0);
            self.others = others;
        }
    }

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

/// The targets of a record of bindings, those of one device if one is wanted. What is forbidden by now has no
/// address.
pub(crate) fn targets(
    cx: Context<'_>,
    record: &Record,
    hit: u8,
    (device, is_sips): (Option<Device>, bool),
) -> Result<Vec<Target>, Reply> {
    let mut location = bindings::read(Some(record), cx.wall())?;
    if let Some(Device {
        device,
        registration,
    }) = device
    {
        location.bindings.retain(|known| known.device == device);
        let is_of = |known: &Binding<'_>| registration == Some(gruu::registration(known.call_id));
        // RFC 5627 §5.1: it was of an earlier registration.
        if registration.is_some() && !location.bindings.iter().any(is_of) {
            return Err(Reply::new(404));
        }
    }
    // RFC 5630 §5.3: what must be secure goes to contacts alone that are.
    let fits = |known: &&Binding<'_>| !is_sips || is_sips_uri(known.contact);
    let targets = location.bindings.iter().filter(fits);
    let mut targets: Vec<_> = targets.filter_map(|known| target(cx, known, hit)).collect();
    let forbidden = targets
        .iter_mut()
        .map(|target| target.keep_allowed(cx.snapshot));
    cx.stats.count(Event::ForbiddenTarget, forbidden.sum());
    Ok(by_device(targets))
}

/// One target for each device: by its way of the highest preference, and of those the one that was used last.
/// RFC 5626 §7
fn by_device(targets: Vec<Target>) -> Vec<Target> {
    let mut devices: Vec<Target> = Vec::with_capacity(targets.len());
    for target in targets {
        let device = target.bound.device();
        let is_its = |known: &&mut Target| device > 0 && known.bound.device() == device;
        match devices.iter_mut().find(is_its) {
            Some(known) => known.others.push(target),
            None => devices.push(target),
        }
    }
    for target in devices
        .iter_mut()
        .filter(|target| !target.others.is_empty())
    {
        let mut ways = mem::take(&mut target.others);
        ways.insert(0, target.clone());
        ways.sort_by_key(|way| Reverse((way.q, way.bound.updated())));
        *target = ways.remove(0);
        target.others = ways;
    }
    devices
}

fn is_sips_uri(contact: &str) -> bool {
    let uri = Uri::parse(contact.as_bytes());
    uri.is_ok_and(|uri| uri.scheme == Scheme::Sips)
}

/// Where a binding leads, if it may.
pub(super) fn target_of(cx: Context<'_>, binding: &Binding<'_>, hit: u8) -> Option<Target> {
    let mut target = target(cx, binding, hit)?;
    target.keep_allowed(cx.snapshot);
    Some(target)
}

/// Whether a binding leads to a phone without another proxy between.
pub(super) fn is_here(snapshot: &Snapshot, binding: &Binding<'_>) -> bool {
    let uri = NameAddr::first(binding.path.as_bytes()).and_then(|first| Uri::parse(first.uri).ok());
    binding.path.is_empty()
        || uri.is_some_and(|uri| {
            phone(snapshot, &uri).is_some_and(|(_, elsewhere)| elsewhere.is_none())
        })
}

/// `hit` is the listener that the request came to.
fn target(cx: Context<'_>, binding: &Binding<'_>, hit: u8) -> Option<Target> {
    let snapshot = cx.snapshot;
    let contact = Uri::parse(binding.contact.as_bytes()).ok()?;
    let has_path = !binding.path.is_empty();
    let is_sips = contact.scheme == Scheme::Sips;
    if !(is_sips || contact.scheme == Scheme::Sip)
        || (!has_path && reach::names_us(snapshot, &contact))
    {
        return None;
    }
    let mut path = binding.path.as_bytes();
    let mut is_flow = false;
    let (name, flow) = if has_path {
        let first = NameAddr::first(path)?;
        let next_hop = Uri::parse(first.uri).ok()?;
        match phone(snapshot, &next_hop) {
            Some((phone, None)) => {
                path = behind(path, first.uri);
                is_flow = true;
                (None, Some(phone))
            }
            Some((_, Some(edge))) => {
                let hop = cx.shared.edge_at(edge).map(NextHop::udp);
                (None, hop.and_then(|hop| snapshot.flow_to(hop, hit)))
            }
            None => {
                let hop = next_hop_of(&next_hop);
                let flow = hop.and_then(|hop| snapshot.flow_to(hop, hit));
                (Name::of(&next_hop), flow)
            }
        }
    } else {
        let speaks = |transport| snapshot.speaks(transport);
        let hop = reach::hop_of(&contact, binding.received, speaks);
        (
            reach::name_of(snapshot, &contact),
            snapshot.flow_to(hop, hit),
        )
    };
    let flow = flow.filter(|flow| !is_sips || flow.transport.is_secure());
    let mut uri = Vec::with_capacity(binding.contact.len());
    contact.write_as_request_uri(&mut uri);
    Some(Target {
        uri,
        name,
        flows: flow.into_iter().collect(),
        source: binding.received,
        path: path.into(),
        q: binding.q,
        is_flow,
        bound: Bound::of(binding),
        others: Vec::new(),
    })
}

/// The values of a Path behind the first, which has this URI.
fn behind<'a>(path: &'a [u8], first: &[u8]) -> &'a [u8] {
    let start = path.windows(first.len()).position(|part| part == first);
    let rest = &path[start.unwrap_or_default() + first.len()..];
    let comma = rest.iter().position(|&byte| byte == b',');
    comma.map_or(&[], |comma| rest[comma + 1..].trim_ascii_start())
}
