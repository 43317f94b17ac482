//! Whose message it is, and whether it is wanted.

use node::Snapshot;
use sip::Message;

/// Header fields that are looked at; a node takes no message with more.
pub(crate) const HEADERS_MAX: usize = 512;

/// Whether a call is of the one in so many that are kept.
pub(crate) fn is_kept(key: u64, one_in: u32) -> bool {
    key.is_multiple_of(u64::from(one_in.max(1)))
}

/// A message, and [`Snapshot::session_of`] its call; none if it has no Call-ID.
pub(crate) fn read<'a>(bytes: &'a [u8], snapshot: &Snapshot) -> Option<(Message<'a>, u64)> {
    let message = Message::parse(bytes, HEADERS_MAX).ok()?;
    let key = snapshot.session_of(message.call_id().ok()?);
    Some((message, key))
}
