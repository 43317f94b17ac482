//! The dialogs of a worker's sessions: a list for each session.

use std::mem;

use balance::ServerId;
use slots::Id;

use crate::wire::keys::tag_hash;

/// One dialog of a session, for telling forks apart and for asking whether it still lives.
#[derive(Clone, Debug)]
pub(super) struct Dialog {
    next: Option<Id<Self>>,
    /// Its [`tag_pair`].
    pub(super) tags: u32,
    pub(super) server: ServerId,
    call_id_len: u8,
    client_tag_len: u8,
    server_tag_len: u8,
    /// No 2xx of it waits for its ACK.
    pub(super) is_acknowledged: bool,
    text: [u8; Self::TEXT_BYTES],
}

impl Dialog {
    /// Longer identities are not kept; such a dialog can't be re-checked.
    const TEXT_BYTES: usize = 114;
}

const _: () = assert!(size_of::<Dialog>() <= 128);

/// The identity of a dialog, to build a request within it. RFC 3261 §12
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DialogId<'a> {
    /// Where its server side is: where forks of a call answer at several servers, not always the
    /// session's.
    pub(crate) server: ServerId,
    /// Empty: the dialog can't be re-checked.
    pub(crate) call_id: &'a [u8],
    pub(crate) client_tag: &'a [u8],
    pub(crate) server_tag: &'a [u8],
}

/// A session's dialogs at most. Whoever is called can begin one with each 2xx, by a To tag of his own.
const OF_SESSION_MAX: usize = 32;

/// Memory for the dialogs of all sessions, laid out once.
#[derive(Debug)]
pub(super) struct Dialogs {
    entries: Vec<Dialog>,
    free: Option<Id<Dialog>>,
    limit: usize,
}

/// The first dialog of a session.
pub(super) type Head = Option<Id<Dialog>>;

impl Dialogs {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            entries: Vec::with_capacity(limit),
            free: None,
            limit,
        }
    }

    /// Adds a dialog to a list. False: there is no room.
    pub(super) fn add(&mut self, head: &mut Head, id: DialogId<'_>) -> bool {
        if self.iter(*head).nth(OF_SESSION_MAX - 1).is_some() {
            return false;
        }
        let dialog = Dialog::new(*head, id);
        let place = match self.free {
            Some(place) => {
                self.free = self.get(place).next;
                self.entries[place.place()] = dialog;
                place
            }
            None if self.entries.len() == self.limit => return false,
            None => {
                self.entries.push(dialog);
                Id::at(self.entries.len() - 1)
            }
        };
        *head = Some(place);
        true
    }

    /// Removes the dialog with this [`tag_pair`] from a list. True: there was one.
    pub(super) fn remove(&mut self, head: &mut Head, pair: u32) -> bool {
        let mut before = None;
        let mut next = *head;
        while let Some(place) = next {
            next = self.get(place).next;
            if self.get(place).tags == pair {
                match before {
                    None => *head = next,
                    Some(before) => self.get_mut(before).next = next,
                }
                self.release(place);
                return true;
            }
            before = Some(place);
        }
        false
    }

    /// Removes all dialogs of a list.
    pub(super) fn clear(&mut self, head: &mut Head) {
        let mut next = mem::take(head);
        while let Some(place) = next {
            next = self.get(place).next;
            self.release(place);
        }
    }

    pub(super) fn iter(&self, head: Head) -> impl Iterator<Item = &Dialog> {
        let next = |dialog: &&Dialog| dialog.next.map(|place| self.get(place));
        std::iter::successors(head.map(|place| self.get(place)), next)
    }

    /// The dialog with this [`tag_pair`] in a list.
    pub(super) fn find_mut(&mut self, head: Head, pair: u32) -> Option<&mut Dialog> {
        let mut next = head;
        while let Some(place) = next
            && self.get(place).tags != pair
        {
            next = self.get(place).next;
        }
        next.map(|place| self.get_mut(place))
    }

    fn get(&self, place: Id<Dialog>) -> &Dialog {
        &self.entries[place.place()]
    }

    fn get_mut(&mut self, place: Id<Dialog>) -> &mut Dialog {
        &mut self.entries[place.place()]
    }

    fn release(&mut self, place: Id<Dialog>) {
        let free = self.free.replace(place);
        self.get_mut(place).next = free;
    }
}

impl Dialog {
    fn new(next: Option<Id<Self>>, id: DialogId<'_>) -> Self {
        let mut dialog = Self {
            next,
            tags: tag_pair(id.client_tag, id.server_tag),
            server: id.server,
            call_id_len: 0,
            client_tag_len: 0,
            server_tag_len: 0,
            is_acknowledged: true,
            text: [0; Self::TEXT_BYTES],
        };
        let parts = [id.call_id, id.client_tag, id.server_tag];
        if parts.iter().map(|part| part.len()).sum::<usize>() <= Self::TEXT_BYTES {
            let mut start = 0;
            for part in parts {
                dialog.text[start..start + part.len()].copy_from_slice(part);
                start += part.len();
            }
            let lengths = parts.map(|part| part.len() as u8);
            [
                dialog.call_id_len,
                dialog.client_tag_len,
                dialog.server_tag_len,
            ] = lengths;
        }
        dialog
    }

    /// Its identity, if that was short enough to keep.
    pub(super) fn id(&self) -> Option<DialogId<'_>> {
        let (call_id, rest) = self.text.split_at(self.call_id_len.into());
        let (client_tag, rest) = rest.split_at(self.client_tag_len.into());
        let server_tag = &rest[..self.server_tag_len.into()];
        (!call_id.is_empty()).then_some(DialogId {
            server: self.server,
            call_id,
            client_tag,
            server_tag,
        })
    }
}

/// Tells the dialogs of a call apart by their tags, whichever side they are read from.
pub(crate) fn tag_pair(one: &[u8], other: &[u8]) -> u32 {
    tag_hash(one).wrapping_add(tag_hash(other))
}
