//! Who is said to have sent a message: RFC 3325, and the draft before it.
//!
//! The trust domain is all that [`Snapshot::is_trusted`] says. What comes from outside of it asserts
//! nothing; what leaves it tells no identity that is to be kept private.

use location::Aor;
use sip::{Edits, HeaderName, Message, Uri, digest::Credentials};
use transaction::Flow;

use super::request::Request;
use crate::snapshot::Snapshot;

const IDENTITIES: [HeaderName; 3] = [
    HeaderName::PAssertedIdentity,
    HeaderName::PPreferredIdentity,
    HeaderName::RemotePartyId,
];

/// Takes the identities off a message that its sender may not assert, or its receiver may not be told.
/// RFC 3325 §5, §7. `to`: without a flow the receiver is a stranger.
pub(super) fn guard(
    snapshot: &Snapshot,
    edits: &mut Edits,
    message: &Message<'_>,
    from: Flow,
    to: impl FnOnce() -> Option<Flow>,
) {
    let is_there = |name: &HeaderName| message.header(*name).is_some();
    if !IDENTITIES.iter().any(is_there) {
        return;
    }
    let is_believed = snapshot.is_trusted(from);
    let is_told = || !is_private(message) || to().is_some_and(|to| snapshot.is_trusted(to));
    if is_believed && is_told() {
        return;
    }
    for name in IDENTITIES.into_iter().filter(is_there) {
        edits.remove_header(message, name.as_str().as_bytes(), |_| true);
    }
}

/// Asserts to those who are believed that a request is from the user who has proven to be in its From,
/// RFC 3325 §5, and takes off the credentials by which that was proven: RFC 3261 §22.3.
pub(super) fn assert_proven(
    snapshot: &Snapshot,
    edits: &mut Edits,
    request: &Request<'_>,
    to: Flow,
) {
    let message = request.message;
    let registrar = snapshot.config().registrar.as_ref();
    let domains = registrar.map_or(&[][..], |registrar| &registrar.domains);
    let is_ours = |value: &[u8]| {
        let realm = Credentials::parse(value).map(|shown| shown.realm);
        realm.is_ok_and(|realm| domains.iter().any(|domain| domain.as_bytes() == realm))
    };
    edits.remove_header(message, b"Proxy-Authorization", is_ours);
    let from = message
        .from()
        .ok()
        .and_then(|from| Uri::parse(from.uri).ok());
    if let Some((user, aor)) = from.and_then(|from| from.user.zip(Aor::of(&from)))
        && snapshot.is_trusted(to)
    {
        edits.append_header(message, HeaderName::PAssertedIdentity.as_str(), |out| {
            for part in [b"<sip:", user, b"@", aor.domain().as_bytes(), b">"] {
                out.extend_from_slice(part);
            }
        });
    }
}

/// RFC 3325 §9.3, RFC 3323 §4.2
fn is_private(message: &Message<'_>) -> bool {
    let values = message.header_values(HeaderName::Privacy);
    let mut wishes = values.flat_map(|value| value.split(|&byte| byte == b';'));
    wishes.any(|wish| wish.trim_ascii().eq_ignore_ascii_case(b"id"))
}
