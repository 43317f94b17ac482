//! A user's bindings, and what a REGISTER makes of them: RFC 3261 §10.3 step 7.

use std::time::Duration;

use location::Binding;
use sip::Uri;

use super::wish::{Change, Contact, Wish};
use crate::{question::Record, wire::reply::Reply};

/// The bindings of a record that last still.
pub(super) fn read(record: Option<&Record>, wall: Duration) -> Result<Vec<Binding<'_>>, Reply> {
    let Some(record) = record else {
        return Ok(Vec::new());
    };
    let mut bindings = location::read_bindings(&record.value).map_err(|_| Reply::new(500))?;
    bindings.retain(|binding| binding.expires > wall);
    Ok(bindings)
}

/// The record of bindings, which ends with the last of them; none of none.
pub(super) fn record(bindings: &[Binding<'_>]) -> Option<Record> {
    let expires = bindings.iter().map(|binding| binding.expires).max()?;
    Some(Record {
        value: location::write_bindings(bindings).into(),
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

/// The bindings as they shall be; one that a later request has set stops the whole change.
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
    match &wish.change {
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
        let known = self
            .bindings
            .iter()
            .position(|known| is_same(known, contact));
        if let Some(place) = known
            && check_order(&self.bindings[place], wish)? == Order::Again
        {
            return Ok(());
        }
        let next = Binding {
            contact: contact.text,
            q: contact.q,
            expires: wall + contact.expires,
            call_id: wish.call_id,
            cseq: wish.cseq,
            path: &wish.path,
            received: wish.received,
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
}

/// How a request stands to the one that set a binding.
#[derive(PartialEq, Eq)]
enum Order {
    Later,
    /// It is that request.
    Again,
}

fn check_order(binding: &Binding<'_>, wish: &Wish<'_>) -> Result<Order, Reply> {
    if binding.call_id != wish.call_id || wish.cseq > binding.cseq {
        Ok(Order::Later)
    } else if wish.cseq == binding.cseq {
        Ok(Order::Again)
    } else {
        Err(Reply::because(500, "CSeq Out Of Order"))
    }
}

/// RFC 3261 §10.3 step 7: contacts are compared as URIs.
fn is_same(binding: &Binding<'_>, contact: &Contact<'_>) -> bool {
    binding.contact == contact.text
        || Uri::parse(binding.contact.as_bytes()).is_ok_and(|uri| uri.equivalent(&contact.uri))
}
