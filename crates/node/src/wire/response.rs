//! A response as far as the node needs to know it.

use std::{cell::Cell, num::NonZeroU32};

use sip::{CSeq, Message, Overload, Uri, Via};
use transaction::{ConnectionId, Flow, Transport};

use super::{
    branch::{Branch, read_hex},
    keys::SessionKey,
    token::{self, Affinity},
};
use crate::{io::Datagram, snapshot::Snapshot, stats::Dropped};

/// A response whose topmost Via is ours.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    pub(crate) message: &'a Message<'a>,
    /// Who sent it.
    pub(crate) flow: Flow,
    pub(crate) via: Via<'a>,
    /// The Via below ours; none: the request was ours, or this is no answer to what we relayed.
    pub(crate) below: Option<Via<'a>>,
    pub(crate) status: u16,
    pub(crate) cseq: CSeq<'a>,
    pub(crate) call_id: &'a [u8],
    pub(crate) key: SessionKey,
    pub(crate) from_tag: &'a [u8],
    pub(crate) to_tag: &'a [u8],
    pub(crate) branch: Branch,
    /// What carried its request here.
    pub(crate) transport: Transport,
    /// The connection that its request came by.
    connection: Option<ConnectionId>,
    /// How much to send, says our Via. Who knows that its sender may say so takes it.
    pub(crate) overload: Cell<Option<Overload>>,
}

impl<'a> Response<'a> {
    /// # Errors
    /// Why it is to be dropped. RFC 3261 §18.1.2
    pub(crate) fn read(
        snapshot: &Snapshot,
        datagram: Datagram<'a>,
        message: &'a Message<'a>,
    ) -> Result<Self, Dropped> {
        let malformed = |_| Dropped::MalformedResponse;
        let sip::Essentials {
            via,
            from_tag,
            to_tag,
            call_id,
            cseq,
            ..
        } = message.essentials().map_err(malformed)?;
        let branch = via.branch.and_then(Branch::read);
        let branch = branch.filter(|branch| snapshot.has_listener(branch.listener));
        let branch = branch.filter(|_| snapshot.is_us(via.host, via.port));
        let branch = branch.ok_or(Dropped::ForeignResponse)?;
        let transport = snapshot.listener(branch.listener).transport;
        let status = message.status().ok_or(Dropped::MalformedResponse)?;
        if datagram.truncated {
            return Err(Dropped::MalformedResponse);
        }
        Ok(Self {
            flow: datagram.flow,
            below: message.via_below(&via),
            overload: Cell::new(via.overload(message).filter(|told| told.value.is_some())),
            connection: transport
                .is_stream()
                .then(|| connection(&via, message))
                .flatten(),
            transport,
            via,
            status,
            cseq,
            call_id,
            key: snapshot.keys().session(call_id),
            from_tag: from_tag.unwrap_or_default(),
            to_tag: to_tag.unwrap_or_default(),
            branch,
            message,
        })
    }

    /// Where it goes on to: as the Via below ours says, if our branch was made of that Via, and if its request came from
    /// there. So nobody can have a response sent to a place of their choice. RFC 3261 §16.11
    ///
    /// # Errors
    /// Why it is to be dropped.
    pub(crate) fn way_back(&self, snapshot: &Snapshot) -> Result<Flow, Dropped> {
        let below = self.below.as_ref().ok_or(Dropped::NoReturnPath)?;
        let from_tag = Some(self.from_tag).filter(|tag| !tag.is_empty());
        let hasher = snapshot.keys().branch(self.key);
        let number = self.cseq.number;
        let id = transaction::identity(hasher, below, from_tag, self.call_id, number);
        let id = self.key.identify(id);
        if self.branch.purpose.seal(snapshot.keys(), id) != self.branch.id {
            return Err(Dropped::ForgedBranch);
        }
        let back = self.return_flow().ok_or(Dropped::NoReturnPath)?;
        let bound = self.via.way.and_then(read_hex);
        if bound != Some(snapshot.keys().way_back(self.branch.id, back).into()) {
            return Err(Dropped::ForgedWay);
        }
        if snapshot.is_ours(back.remote) {
            return Err(Dropped::ReturnsToUs);
        }
        Ok(back)
    }

    /// The affinity in the Record-Route value that is ours, if a server gave it back.
    pub(crate) fn affinity(&self, snapshot: &Snapshot) -> Option<Affinity> {
        let routes = self.message.record_routes().map_while(Result::ok);
        let uris = routes.filter_map(|route| Uri::parse(route.uri).ok());
        let ours = uris.filter(|uri| snapshot.is_our_uri(uri));
        let (call_id, from_tag, to_tag) = (self.call_id, self.from_tag, self.to_tag);
        ours.filter_map(|uri| uri.user)
            .find_map(|text| token::read(snapshot.keys(), text, call_id, from_tag, to_tag))
    }

    /// Where the Via below ours says that it goes. RFC 3261 §18.2.2
    pub(crate) fn return_flow(&self) -> Option<Flow> {
        let to = self.below.as_ref()?.response_address()?;
        Some(Flow {
            transport: self.transport,
            listener: self.branch.listener,
            remote: to,
            connection: self.connection,
        })
    }

    pub(crate) fn is_final(&self) -> bool {
        self.status >= 200
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// The connection that our Via names.
fn connection(via: &Via<'_>, message: &Message<'_>) -> Option<ConnectionId> {
    let number = read_hex(via.param(message, b"i").value()?)?;
    let number = u32::try_from(number).ok()?;
    Some(ConnectionId(NonZeroU32::new(number)?))
}
