//! Reasonable syntax (RFC 3261 §16.3, step 1): what routing reads must be well formed; the rest isn't looked at.

use crate::{
    CSeq, Fault, HeaderName, Message, Method, Scheme, StartLine, Uri, Via,
    text::{is_token_text, number},
};

/// What every message must have and say well (RFC 3261 §8.1.1), read once.
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
    /// The CSeq, whose method is the request's.
    pub cseq: CSeq<'a>,
}

impl<'a> Message<'a> {
    /// Reads what every message must have, and checks the body's length.
    ///
    /// # Errors
    /// The first fault. A request is then answered, a response dropped.
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
    /// It is malformed, or of a scheme that isn't understood; or the message is no request.
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
            Scheme::Sip | Scheme::Sips | Scheme::Tel => Ok(uri),
        }
    }

    /// Checks all that routing may read: of a request before it is routed, of a response before it is passed on.
    ///
    /// # Errors
    /// The first fault. A request is then answered, a response dropped.
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
