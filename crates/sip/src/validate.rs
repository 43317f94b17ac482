//! Checks for reasonable syntax (RFC 3261 §16.3, step 1). What routing reads must be well formed;
//! the rest is not checked.

use crate::{
    CSeq, Fault, HeaderName, Message, Method, Scheme, StartLine, Uri, Via,
    text::{is_token_text, number},
};

/// The headers that every message must have in a correct form (RFC 3261 §8.1.1), read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Essentials<'a> {
    /// The topmost Via.
    pub via: Via<'a>,
    /// The From tag.
    pub from_tag: Option<&'a [u8]>,
    /// The To tag.
    pub to_tag: Option<&'a [u8]>,
    /// The Call-ID.
    pub call_id: &'a [u8],
    /// The CSeq. Its method is that of the request.
    pub cseq: CSeq<'a>,
}

impl<'a> Message<'a> {
    /// Reads the headers that every message must have, and checks the length of the body.
    ///
    /// # Errors
    /// The first fault. A request with a fault is answered, a response is dropped.
    #[inline]
    pub fn essentials(&self) -> Result<Essentials<'a>, Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let via = self.top_via()?;
        // The magic cookie alone identifies nothing (RFC 4475 §3.2.1).
        if via.branch == Some(b"z9hG4bK") {
            return Err(Fault::Via);
        }
        let essentials = Essentials {
            via,
            from_tag: self.from_tag()?,
            to_tag: self.to_tag()?,
            call_id: self.call_id()?,
            cseq: self.cseq_of_method()?,
        };
        self.validate_body()?;
        Ok(essentials)
    }

    /// Reads a request's target, the Request-URI.
    ///
    /// # Errors
    /// If it is malformed, has an unknown scheme, or the message is not a request.
    pub fn target(&self) -> Result<Uri<'a>, Fault> {
        let StartLine::Request { method, uri } = self.start_line() else {
            return Err(Fault::StartLine);
        };
        if let Method::Other(name) = method
            && !is_token_text(name)
        {
            return Err(Fault::StartLine);
        }
        let uri = Uri::parse(uri).map_err(|_| Fault::RequestUri)?;
        match uri.scheme {
            _ if !uri.headers.is_empty() => Err(Fault::RequestUri),
            Scheme::Other => Err(Fault::UriScheme),
            Scheme::Sip | Scheme::Sips | Scheme::Tel | Scheme::Urn => Ok(uri),
        }
    }

    /// Checks everything that routing may read: in a request before it is routed, in a response
    /// before it is forwarded.
    ///
    /// # Errors
    /// The first fault. A request with a fault is answered, a response is dropped.
    pub fn validate(&self) -> Result<(), Fault> {
        self.vias().try_for_each(|via| via.map(drop))?;
        self.essentials()?;
        if self.is_request() {
            self.target()?;
            self.max_forwards()?;
            let is_uri = |uri| Uri::parse(uri).map(drop).map_err(|_| Fault::Route);
            self.routes().try_for_each(|route| is_uri(route?.uri))?;
        }
        Ok(())
    }

    fn cseq_of_method(&self) -> Result<CSeq<'a>, Fault> {
        let cseq = self.cseq()?;
        match self.method() {
            Some(method) if method != cseq.method => Err(Fault::CSeqMethod),
            _ => Ok(cseq),
        }
    }

    fn validate_body(&self) -> Result<(), Fault> {
        if self.header(HeaderName::ContentLength).is_none() {
            return Ok(());
        }
        let field = self.only(HeaderName::ContentLength, Fault::ContentLength)?;
        let length = number(self.value(field)).ok_or(Fault::ContentLength)?;
        if length as usize > self.body().len() {
            Err(Fault::Body)
        } else {
            Ok(())
        }
    }
}
