//! Reasonable syntax (RFC 3261 §16.3, step 1): what routing reads must be well formed; the rest isn't looked at.

use crate::{
    Fault, HeaderName, Message, Method, Scheme, StartLine, Uri,
    text::{is_token_text, number},
};

impl Message<'_> {
    /// Checks what routing reads: of a request before it is routed, of a response before it is passed on.
    ///
    /// # Errors
    /// The first fault. A request is then answered, a response dropped.
    pub fn validate(&self) -> Result<(), Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if self.top_via()?.branch == Some(b"z9hG4bK") {
            return Err(Fault::Via);
        }
        self.from_tag()?;
        self.to_tag()?;
        self.call_id()?;
        self.validate_cseq()?;
        self.validate_body()?;
        if let StartLine::Request { method, uri } = self.start_line() {
            self.validate_request(method, uri)?;
        }
        Ok(())
    }

    fn validate_request(&self, method: Method<'_>, uri: &[u8]) -> Result<(), Fault> {
        if let Method::Other(name) = method
            && !is_token_text(name)
        {
            return Err(Fault::StartLine);
        }
        let uri = Uri::parse(uri).map_err(|_| Fault::RequestUri)?;
        if !uri.headers.is_empty() {
            return Err(Fault::RequestUri);
        }
        if uri.scheme == Scheme::Other {
            return Err(Fault::UriScheme);
        }
        self.max_forwards()?;
        self.routes()
            .try_for_each(|route| Uri::parse(route?.uri).map(drop).map_err(|_| Fault::Route))
    }

    fn validate_cseq(&self) -> Result<(), Fault> {
        let cseq = self.cseq()?;
        match self.method() {
            Some(method) if method != cseq.method => Err(Fault::CSeqMethod),
            _ => Ok(()),
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
