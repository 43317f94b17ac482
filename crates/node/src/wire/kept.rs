//! Requests that are kept until somebody answers.

use sip::Message;
use slots::{Buffers, Kept};
use transaction::Flow;

use super::{
    reply::Reply,
    request::{Request, Sender},
};
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
    sender: Sender,
}

impl KeptRequest {
    /// None: there is no room for the copy.
    pub(crate) fn new(request: &Request<'_>, copies: &mut Buffers) -> Option<Self> {
        Some(Self {
            flow: request.datagram.flow,
            bytes: copies.keep(request.message.bytes())?,
            sender: request.sender,
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
        let request = self.request(snapshot, &message).ok()?;
        Some(work(&request))
    }

    /// The request, of its [`Self::message`].
    ///
    /// # Errors
    /// The refusal, if a reload has changed what can be read.
    pub(crate) fn request<'a>(
        &'a self,
        snapshot: &Snapshot,
        message: &'a Message<'a>,
    ) -> Result<Request<'a>, Reply> {
        let mut request = Request::read(snapshot, self.datagram(), message)?;
        request.sender = self.sender;
        Ok(request)
    }
}
