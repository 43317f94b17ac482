//! What nodes on a path tell each other of who holds a request: parameters of a Via, each with a MAC under
//! the cluster's secret. Nobody else can write or move them, and they are on no message that goes to
//! somebody who is not trusted.

use std::{io::Write as _, time::Duration};

use custody::Room;
use sip::{Edits, HeaderName, Message, Via};

use super::{
    branch::{Branch, read_hex, write_hex},
    keys::{Keys, SessionKey},
    request::Request,
    response::Response,
};
use crate::snapshot::Snapshot;

/// The parameter of our Via in a request, which comes back in its responses.
const MARK: &[u8] = b"sy-state";

/// The parameter that the next node writes into our Via in a response.
const ROOM: &[u8] = b"sy-room";

/// The parameter of our Via in a request that says whether anybody has checked who sent it.
const CHECK: &[u8] = b"sy-check";

/// What the text of a room ends with if whoever tells it checks, too.
const CHECKS: &str = ".c";

const MAC_DIGITS: usize = 16;

/// Who holds a request that we send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// This node.
    Here,
    /// A node before this one.
    Before,
    /// Nobody yet: a node behind has to.
    Open,
}

impl Mark {
    const ALL: [Self; 3] = [Self::Here, Self::Before, Self::Open];

    fn letter(self) -> u8 {
        match self {
            Self::Here => b'h',
            Self::Before => b'b',
            Self::Open => b'o',
        }
    }

    /// Appends it to our Via, which has this branch.
    pub(crate) fn write(self, keys: &Keys, session: SessionKey, branch: Branch, out: &mut Vec<u8>) {
        let mac = mac(keys, session, branch.id, &[self.letter()]);
        out.push(b';');
        out.extend_from_slice(MARK);
        out.extend_from_slice(&[b'=', self.letter()]);
        write_hex(mac, MAC_DIGITS, out);
    }

    /// What a node of the cluster says of a request that it sent here. None: who sent it is no such node.
    pub(crate) fn of_request(snapshot: &Snapshot, request: &Request<'_>) -> Option<Self> {
        let Request {
            message, via, key, ..
        } = request;
        if !via.has_private || !snapshot.is_trusted(request.datagram.flow) {
            return None;
        }
        let branch = via.branch.and_then(Branch::read)?;
        Self::read(snapshot.keys(), *key, branch, via, message)
    }

    /// What we said of the request that a response answers.
    pub(crate) fn of_response(snapshot: &Snapshot, response: &Response<'_>) -> Option<Self> {
        let Response {
            message,
            via,
            key,
            branch,
            ..
        } = response;
        if !via.has_private {
            return None;
        }
        Self::read(snapshot.keys(), *key, *branch, via, message)
    }

    /// Whether we said that somebody else holds the request that a response answers, if its sender has left that as it was.
    pub(crate) fn is_of_other(response: &Response<'_>) -> bool {
        let says = |letter| letter == Self::Before.letter() || letter == Self::Open.letter();
        let via = &response.via;
        via.has_private
            && via
                .find_param(response.message, MARK)
                .and_then(|(_, value)| value.first().copied())
                .is_some_and(says)
    }

    fn read(
        keys: &Keys,
        session: SessionKey,
        branch: Branch,
        via: &Via<'_>,
        message: &Message<'_>,
    ) -> Option<Self> {
        let (_, value) = via.find_param(message, MARK)?;
        let (letter, digits) = value.split_first()?;
        let mark = Self::ALL
            .into_iter()
            .find(|mark| mark.letter() == *letter)?;
        (hex(digits)? == mac(keys, session, branch.id, &[*letter])).then_some(mark)
    }
}

/// Whether anybody has checked who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// A node has, or believes who sent it.
    Done,
    /// A node behind has to.
    Open,
}

impl Check {
    fn letter(self) -> u8 {
        match self {
            Self::Done => b'd',
            Self::Open => b'o',
        }
    }

    /// Appends it to our Via, which has this branch.
    pub(crate) fn write(
        self,
        keys: &Keys,
        request: &Request<'_>,
        branch: Branch,
        out: &mut Vec<u8>,
    ) {
        let mac = check_mac(keys, request, branch.id, self.letter());
        out.push(b';');
        out.extend_from_slice(CHECK);
        out.extend_from_slice(&[b'=', self.letter()]);
        write_hex(mac, MAC_DIGITS, out);
    }

    /// What a peer that is believed says of a request. What is not as we write it, or is of another request, says
    /// that nobody has checked. None: the peer says nothing.
    pub(crate) fn told(keys: &Keys, request: &Request<'_>) -> Option<Self> {
        let via = &request.via;
        if !via.has_private {
            return None;
        }
        let (_, value) = via.find_param(request.message, CHECK)?;
        let is_done = || {
            let (&letter, digits) = value.split_first()?;
            let branch = via.branch.and_then(Branch::read)?;
            let mac = check_mac(keys, request, branch.id, letter);
            Some(letter == Self::Done.letter() && hex(digits)? == mac)
        };
        Some(match is_done() {
            Some(true) => Self::Done,
            _ => Self::Open,
        })
    }
}

/// Whether a node of ours, or somebody who writes as one, sent a request here.
pub(crate) fn is_of_node(request: &Request<'_>) -> bool {
    request.via.branch.and_then(Branch::read).is_some()
}

/// Binds to the Call-ID, to the branch and so to the CSeq, to the method, and to the From whose user was checked.
fn check_mac(keys: &Keys, request: &Request<'_>, id: u64, letter: u8) -> u64 {
    let from = request.message.header(HeaderName::From).unwrap_or_default();
    let (id, method) = (id.to_be_bytes(), request.method.as_bytes());
    let purpose = [b'c', b'h', letter];
    keys.of_session(request.key, &[&purpose, &id, method, from])
}

/// Puts a room into the Via of the node before, to which a response goes on.
pub(crate) fn tell_room(
    keys: &Keys,
    edits: &mut Edits,
    response: &Response<'_>,
    below: &Via<'_>,
    room: Option<Room>,
) {
    if room.is_none() && !below.has_private {
        return;
    }
    let branch = below.branch.and_then(Branch::read);
    edits.set_via_param(response.message, below, ROOM, |out| {
        let Some((room, branch)) = room.zip(branch) else {
            return;
        };
        out.push(b';');
        out.extend_from_slice(ROOM);
        out.push(b'=');
        let start = out.len();
        let (per_s, validity_ms) = (room.per_s.min(1e9) as u64, room.validity.as_millis());
        let checks = if room.checks { CHECKS } else { "" };
        write!(out, "{per_s}.{validity_ms}{checks}").expect("a Vec takes all");
        let mac = mac(keys, response.key, branch.id, &out[start..]);
        out.push(b'.');
        write_hex(mac, MAC_DIGITS, out);
    });
}

/// The room that the next node tells us in our Via.
pub(crate) fn room_told(keys: &Keys, response: &Response<'_>) -> Option<Room> {
    if !response.via.has_private {
        return None;
    }
    let (_, value) = response.via.find_param(response.message, ROOM)?;
    let (text, digits) = value.split_at_checked(value.len().checked_sub(MAC_DIGITS + 1)?)?;
    if hex(digits.strip_prefix(b".")?)? != mac(keys, response.key, response.branch.id, text) {
        return None;
    }
    let text = str::from_utf8(text).ok()?;
    let (numbers, checks) = match text.strip_suffix(CHECKS) {
        Some(numbers) => (numbers, true),
        None => (text, false),
    };
    let (per_s, validity_ms) = numbers.split_once('.')?;
    Some(Room {
        checks,
        per_s: per_s.parse().ok().filter(|per_s: &f64| per_s.is_finite())?,
        validity: Duration::from_millis(validity_ms.parse::<u32>().ok()?.into()),
    })
}

fn mac(keys: &Keys, session: SessionKey, id: u64, what: &[u8]) -> u64 {
    keys.of_session(session, &[b"state", &id.to_be_bytes(), what])
}

fn hex(digits: &[u8]) -> Option<u64> {
    let is_whole = digits.len() == MAC_DIGITS;
    is_whole.then(|| read_hex(digits)).flatten()
}
