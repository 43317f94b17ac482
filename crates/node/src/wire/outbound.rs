//! Phones that keep several flows. RFC 5626

use sip::{Edits, HeaderName, Message, Method, NameAddr, Uri};

use super::{request::Request, response::Response};
use crate::snapshot::Snapshot;

/// The option tag. RFC 5626 §11.4
pub(crate) const OUTBOUND: &[u8] = b"outbound";

/// Whether a request came from its user agent itself.
pub(crate) fn is_first_hop(request: &Request<'_>) -> bool {
    request.message.via_below(&request.via).is_none()
}

/// Whether a REGISTER numbers the flow that it came by.
pub(crate) fn names_flow(register: &Message<'_>) -> bool {
    let mut contacts = register.contacts().map_while(Result::ok);
    contacts.any(|contact| is_of_flow(&contact))
}

/// Whether a contact is of a device that names itself, and numbers its flow. RFC 5626 §6
pub(crate) fn is_of_flow(contact: &NameAddr<'_>) -> bool {
    let has = |name: &[u8]| contact.param(name).value().is_some();
    has(b"reg-id") && has(b"+sip.instance")
}

/// Whether a message has an option tag in a header.
pub(crate) fn has_tag(message: &Message<'_>, name: HeaderName, tag: &[u8]) -> bool {
    let mut tags = message.option_tags(name);
    tags.any(|told| told.eq_ignore_ascii_case(tag))
}

/// Whether the flows of whoever sent a REGISTER end where they can be kept: here, or at the proxy that the
/// user agent sent it to. That one's Path value is the last. RFC 5626 §6
pub(crate) fn ends_well(request: &Request<'_>) -> bool {
    let first_hop = || request.message.paths().map_while(Result::ok).last();
    let has_ob = |value: NameAddr<'_>| {
        let uri = Uri::parse(value.uri);
        uri.is_ok_and(|uri| uri.param(b"ob").is_present())
    };
    is_first_hop(request) || first_hop().is_some_and(has_ob)
}

/// Tells a phone whose flow ends here how often to use it, when its registration is granted. RFC 5626 §5.4
pub(crate) fn tell_timer(snapshot: &Snapshot, edits: &mut Edits, response: &Response<'_>) {
    let Some(timer) = snapshot.config().connections.flow_timer else {
        return;
    };
    let message = response.message;
    let is_granted = response.cseq.method == Method::Register && response.is_success();
    let is_last = || message.vias().nth(2).is_none();
    if is_granted && is_last() && has_tag(message, HeaderName::Require, OUTBOUND) {
        edits.remove_header(message, b"Flow-Timer", |_| true);
        edits.append_header(message, "Flow-Timer", |out| {
            out.extend_from_slice(timer.as_secs().to_string().as_bytes());
        });
    }
}
