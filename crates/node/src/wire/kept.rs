//! Requests that are kept until somebody answers.

use sip::Message;
use slots::{Buffers, Kept};
use transaction::Flow;

use super::request::Request;
use crate::{config::bytes_of, io::Datagram, snapshot::Snapshot};

/// The copies that so many kept requests may have.
pub(crate) fn copies_of(requests: usize, message_bytes: usize) -> Buffers {
    Buffers::new(bytes_of(requests, message_bytes))
}

/// A request as it came.
#[derive(Debug)]
pub(crate) struct KeptRequest {
    pub(crate) flow: Flow,
    pub(crate) bytes: Kept,
}

impl KeptRequest {
    /// None: there is no room for the copy.
    pub(crate) fn new(request: &Request<'_>, copies: &mut Buffers) -> Option<Self> {
        Some(Self {
            flow: request.datagram.flow,
            bytes: copies.keep(request.message.bytes())?,
        })
    }

    pub(crate) fn datagram(&self) -> Datagram<'_> {
        Datagram {
            flow: self.flow,
            bytes: &self.bytes,
            truncated: false,
        }
    }

    pub(crate) fn message(&self, snapshot: &Snapshot) -> Option<Message<'_>> {
        Message::parse(&self.bytes, snapshot.config().limits.headers).ok()
    }

    /// Works with the request. None: a reload has changed what can be read.
    pub(crate) fn read<T>(
        &self,
        snapshot: &Snapshot,
        work: impl FnOnce(&Request<'_>) -> T,
    ) -> Option<T> {
        let message = self.message(snapshot)?;
        let request = Request::read(snapshot, self.datagram(), &message).ok()?;
        Some(work(&request))
    }
}
