//! A user's bindings, and what a REGISTER makes of them: RFC 3261 §10.3 step 7, RFC 5626 §6.

use std::time::Duration;

use location::{Binding, Location};
use sip::Uri;

use super::wish::{Change, Contact, Wish};
use crate::{question::Record, wire::reply::Reply};

/// What is kept of a user, with the bindings that last still.
pub(super) fn read(record: Option<&Record>, wall: Duration) -> Result<Location<'_>, Reply> {
    let Some(record) = record else {
        return Ok(Location::default());
    };
    let mut location = Location::read(&record.value).map_err(|_| Reply::new(500))?;
    location.bindings.retain(|binding| binding.expires > wall);
    Ok(location)
}

/// The record of a user, which ends with the last binding and the last nonce; none of none.
pub(super) fn record(location: &Location<'_>) -> Option<Record> {
    let expires = location.expires()?;
    Some(Record {
        value: location.write().into(),
        expires: Some(expires),
    })
}

/// Bindings after a change.
#[derive(Debug)]
pub(super) struct Changed<'a> {
    pub(super) bindings: Vec<Binding<'a>>,
    /// How many were made or refreshed.
    pub(super) bound: usize,
    /// How many were taken away.
    pub(super) unbound: usize,
}

/// The bindings as they shall be; one that a later request has set stops the whole change. A request
/// that has set some of them can only be a retransmission: RFC 3261 §10.3 step 7.
pub(super) fn change<'a>(
    current: &[Binding<'a>],
    wish: &'a Wish<'_>,
    wall: Duration,
) -> Result<Changed<'a>, Reply> {
    let mut changed = Changed {
        bindings: current.to_vec(),
        bound: 0,
        unbound: 0,
    };
    let is_again = current.iter().any(|binding| wish.has_set(binding));
    match &wish.change {
        _ if is_again && !wish.is_done(current) => {
            return Err(Reply::because(500, "CSeq Used Before"));
        }
        _ if is_again => {}
        Change::RemoveAll => {
            for binding in current {
                check_order(binding, wish)?;
            }
            changed.unbound = current.len();
            changed.bindings.clear();
        }
        Change::Contacts(contacts) => {
            for contact in contacts {
                changed.apply(contact, wish, wall)?;
            }
            if !wish.is_done(&changed.bindings) {
                return Err(Reply::because(400, "Contradicting Contacts"));
            }
        }
    }
    Ok(changed)
}

impl<'a> Changed<'a> {
    fn apply(
        &mut self,
        contact: &'a Contact<'_>,
        wish: &'a Wish<'_>,
        wall: Duration,
    ) -> Result<(), Reply> {
        let known = wish.find(&self.bindings, contact);
        if let Some(place) = known {
            let known = &self.bindings[place];
            if wish.has_set(known) {
                return Ok(());
            }
            check_order(known, wish)?;
        }
        let next = Binding {
            contact: contact.text,
            q: contact.q,
            expires: wall + contact.expires,
            call_id: wish.call_id,
            cseq: wish.cseq,
            path: &wish.path,
            received: wish.received,
            updated: wall,
            device: contact.device,
            reg_id: contact.reg_id,
        };
        match (known, contact.expires.is_zero()) {
            (None, true) => return Ok(()),
            (None, false) => self.bindings.push(next),
            (Some(place), true) => drop(self.bindings.remove(place)),
            (Some(place), false) => self.bindings[place] = next,
        }
        let counter = if contact.expires.is_zero() {
            &mut self.unbound
        } else {
            &mut self.bound
        };
        *counter += 1;
        Ok(())
    }

    /// Takes the bindings away that were refreshed longest ago, until so many are left; none that this
    /// request has set. Returns how many went.
    pub(super) fn drop_oldest(&mut self, wish: &Wish<'_>, max: usize) -> usize {
        let mut dropped = 0;
        while self.bindings.len() > max {
            let others = self.bindings.iter().enumerate();
            let others = others.filter(|(_, known)| !wish.has_set(known));
            let Some((oldest, _)) = others.min_by_key(|(_, known)| known.updated) else {
                break;
            };
            self.bindings.remove(oldest);
            dropped += 1;
        }
        dropped
    }
}

impl Wish<'_> {
    /// Whether this request, or one that says to be it, has set a binding.
    pub(super) fn has_set(&self, binding: &Binding<'_>) -> bool {
        binding.call_id == self.call_id && binding.cseq == self.cseq
    }

    /// Whether the bindings are as this request has left them.
    fn is_done(&self, bindings: &[Binding<'_>]) -> bool {
        let Change::Contacts(contacts) = &self.change else {
            return false;
        };
        contacts.iter().all(|contact| {
            let known = self.find(bindings, contact).map(|place| &bindings[place]);
            match known {
                Some(known) => self.has_set(known) && self.is_as(known, contact),
                None => contact.expires.is_zero(),
            }
        })
    }

    /// Whether a binding is what this request makes of a contact.
    fn is_as(&self, binding: &Binding<'_>, contact: &Contact<'_>) -> bool {
        let lasts_as_long =
            binding.updated.is_zero() || binding.expires == binding.updated + contact.expires;
        binding.contact == contact.text
            && binding.q == contact.q
            && binding.path == self.path
            && (binding.device, binding.reg_id) == (contact.device, contact.reg_id)
            && lasts_as_long
    }

    /// The binding of a contact. A device that names itself keeps its binding wherever it roams: for
    /// each of its flows where it numbers them (RFC 5626 §6), else for each request (RFC 5627). All
    /// others are compared as URIs: RFC 3261 §10.3 step 7.
    fn find(&self, bindings: &[Binding<'_>], contact: &Contact<'_>) -> Option<usize> {
        let of_device = |known: &Binding<'_>| {
            contact.device > 0 && (known.device, known.reg_id) == (contact.device, contact.reg_id)
        };
        let is_flow = contact.reg_id > 0;
        let by_flow = |known: &Binding<'_>| is_flow && of_device(known);
        let by_uri = |known: &Binding<'_>| {
            let is_other_flow = is_flow && known.reg_id > 0;
            !is_other_flow && is_same(known, contact)
        };
        let by_device = |known: &Binding<'_>| of_device(known) && !self.has_set(known);
        let place = bindings.iter().position(by_flow);
        place
            .or_else(|| bindings.iter().position(by_uri))
            .or_else(|| bindings.iter().position(by_device))
    }
}

fn check_order(binding: &Binding<'_>, wish: &Wish<'_>) -> Result<(), Reply> {
    if binding.call_id != wish.call_id || wish.cseq > binding.cseq {
        Ok(())
    } else {
        Err(Reply::because(500, "CSeq Out Of Order"))
    }
}

fn is_same(binding: &Binding<'_>, contact: &Contact<'_>) -> bool {
    binding.contact == contact.text
        || Uri::parse(binding.contact.as_bytes()).is_ok_and(|uri| uri.equivalent(&contact.uri))
}
