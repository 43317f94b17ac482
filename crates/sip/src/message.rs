//! A message as a borrowed view.

use crate::{
    Fault, HeaderName, Method, NameAddr, ParseError, StartLine, Via,
    glance::{read_call_id, read_cseq},
    header::{Field, Line, Lines},
    headers::Headers,
    reader::{Malformed, Reader},
    text::{Span, digits, find, number, offset, skip_line_ends, skip_lws, trim},
    values::{Fields, Values},
};

/// The most bytes of a message: a datagram carries no more.
pub const MESSAGE_BYTES_MAX: usize = u16::MAX as usize;

/// A request or a response that refers to the bytes in which it was found.
///
/// [`parse`](Self::parse) records where the headers are and reads none of their values. Lines may
/// end with a bare line feed. Such messages are accepted and forwarded with their original line
/// ends.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    start_line: StartLine<'a>,
    /// What is wrong with the start line or a header field as such.
    pub(crate) fault: Option<Fault>,
    headers: Headers,
    /// Where the first header field begins.
    headers_start: u16,
}

/// A CSeq header's value (RFC 3261 §20.16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CSeq<'a> {
    /// The sequence number.
    pub number: u32,
    /// The method.
    pub method: Method<'a>,
}

impl<'a> Message<'a> {
    /// Finds the start line, the headers and the body of a datagram's message. The message may have
    /// at most `headers_max` header fields: one that has more [is cut](Self::is_cut) behind these.
    ///
    /// Line ends before the start line (RFC 3261 §7.5) and bytes beyond Content-Length
    /// (RFC 3261 §18.3) do not belong to the message.
    ///
    /// # Errors
    /// Why the bytes are not a message that can be answered.
    pub fn parse(bytes: &'a [u8], headers_max: usize) -> Result<Self, ParseError> {
        let bytes = skip_line_ends(bytes);
        if bytes.is_empty() {
            return Err(ParseError::KeepAlive);
        }
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(ParseError::TooLong);
        }
        let line_feed = find(bytes, b'\n').ok_or(ParseError::NotSip)?;
        let line = &bytes[..line_feed];
        let (start_line, fault) = StartLine::parse(line.strip_suffix(b"\r").unwrap_or(line))?;
        let headers = Headers::find(bytes, line_feed + 1, headers_max)?;
        let mut message = Self {
            bytes,
            start_line,
            fault: fault.or(headers.fault),
            headers,
            headers_start: (line_feed + 1) as u16,
        };
        message.cut_body();
        Ok(message)
    }

    fn cut_body(&mut self) {
        let length = self.header(HeaderName::ContentLength).and_then(number);
        if let Some(length) = length.and_then(|length| usize::try_from(length).ok())
            && length < self.body().len()
        {
            self.bytes = &self.bytes[..usize::from(self.headers.end) + length];
        }
    }

    /// The message's bytes.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The start line.
    pub const fn start_line(&self) -> StartLine<'a> {
        self.start_line
    }

    /// Whether the message is a request.
    pub const fn is_request(&self) -> bool {
        matches!(self.start_line, StartLine::Request { .. })
    }

    /// Whether it has too many header fields, so that only the first are known.
    pub const fn is_cut(&self) -> bool {
        matches!(self.fault, Some(Fault::TooManyHeaders))
    }

    /// Whether all that an answer copies can be read (RFC 3261 §8.2.6.2).
    pub fn is_answerable(&self) -> bool {
        let has_names = self.from().is_ok() && self.to().is_ok();
        let is_known = self.call_id().is_ok() && self.cseq().is_ok();
        self.is_request() && has_names && is_known && self.top_via().is_ok()
    }

    /// A request's method.
    pub const fn method(&self) -> Option<Method<'a>> {
        self.start_line.method()
    }

    /// A request's Request-URI.
    pub const fn request_uri(&self) -> Option<&'a [u8]> {
        match self.start_line {
            StartLine::Request { uri, .. } => Some(uri),
            StartLine::Response { .. } => None,
        }
    }

    /// A response's status code.
    pub const fn status(&self) -> Option<u16> {
        self.start_line.status()
    }

    /// The body; empty when there is none.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[usize::from(self.headers.end)..]
    }

    /// The value of the header's first field, without white space around it. Line folds stay in it.
    pub fn header(&self, name: HeaderName) -> Option<&'a [u8]> {
        self.field(name).map(|field| self.value(field))
    }

    /// The values of the header's fields, topmost first.
    pub fn header_values(&self, name: HeaderName) -> impl Iterator<Item = &'a [u8]> {
        Fields::new(self, name).map(|field| self.value(field))
    }

    /// All header fields, known or not, in their order: name and value.
    pub fn headers(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let named = |line: Line| (self.name(&line), self.value(line.field));
        self.lines().map(named)
    }

    /// The Call-ID.
    ///
    /// # Errors
    /// If there is not exactly one, or if it is empty or contains white space.
    pub fn call_id(&self) -> Result<&'a [u8], Fault> {
        let field = self.only(HeaderName::CallId, Fault::CallId)?;
        read_call_id(self.reader(field)).ok_or(Fault::CallId)
    }

    /// The CSeq.
    ///
    /// # Errors
    /// If there is not exactly one, or if it is not a 32-bit number and a method.
    pub fn cseq(&self) -> Result<CSeq<'a>, Fault> {
        let field = self.only(HeaderName::CSeq, Fault::CSeq)?;
        read_cseq(self.reader(field)).ok_or(Fault::CSeq)
    }

    /// The topmost Via value.
    ///
    /// # Errors
    /// There is none, or it is malformed.
    pub fn top_via(&self) -> Result<Via<'a>, Fault> {
        let field = self.field(HeaderName::Via).ok_or(Fault::Via)?;
        Via::read(&mut self.reader(field)).map_err(|Malformed| Fault::Via)
    }

    /// The Via value below the topmost, which is `top`; none if there is none, or it is malformed.
    pub fn via_below(&self, top: &Via<'_>) -> Option<Via<'a>> {
        let field = self.field(HeaderName::Via)?;
        if top.span.end < usize::from(field.end) {
            return self.vias().nth(1)?.ok();
        }
        let below = Fields::new(self, HeaderName::Via).nth(1)?;
        Via::read(&mut self.reader(below)).ok()
    }

    /// All Via values, topmost first, up to the first malformed one.
    pub fn vias(&self) -> impl Iterator<Item = Result<Via<'a>, Fault>> {
        Values::new(self, HeaderName::Via, Fault::Via)
    }

    /// The From tag.
    ///
    /// # Errors
    /// There is not exactly one From, or it is malformed.
    pub fn from_tag(&self) -> Result<Option<&'a [u8]>, Fault> {
        self.name_addr(HeaderName::From, Fault::From)
            .map(|from| from.tag)
    }

    /// The To tag.
    ///
    /// # Errors
    /// There is not exactly one To, or it is malformed.
    pub fn to_tag(&self) -> Result<Option<&'a [u8]>, Fault> {
        self.name_addr(HeaderName::To, Fault::To).map(|to| to.tag)
    }

    /// The From.
    ///
    /// # Errors
    /// There is not exactly one, or it is malformed.
    pub fn from(&self) -> Result<NameAddr<'a>, Fault> {
        self.name_addr(HeaderName::From, Fault::From)
    }

    /// The To.
    ///
    /// # Errors
    /// There is not exactly one, or it is malformed.
    pub fn to(&self) -> Result<NameAddr<'a>, Fault> {
        self.name_addr(HeaderName::To, Fault::To)
    }

    /// Max-Forwards, if there is one.
    ///
    /// # Errors
    /// If it is not a number up to 255 (RFC 3261 §20.22), or if there are several.
    pub fn max_forwards(&self) -> Result<Option<u32>, Fault> {
        match self.field(HeaderName::MaxForwards) {
            None => Ok(None),
            Some(_) if self.is_repeated(HeaderName::MaxForwards) => Err(Fault::MaxForwards),
            Some(field) => number(self.value(field))
                .filter(|&hops| hops <= 255)
                .map(Some)
                .ok_or(Fault::MaxForwards),
        }
    }

    /// All Route values, topmost first, up to the first malformed one.
    pub fn routes(&self) -> impl Iterator<Item = Result<NameAddr<'a>, Fault>> {
        Values::new(self, HeaderName::Route, Fault::Route)
    }

    /// All Record-Route values, topmost first, up to the first malformed one.
    pub fn record_routes(&self) -> impl Iterator<Item = Result<NameAddr<'a>, Fault>> {
        Values::new(self, HeaderName::RecordRoute, Fault::RecordRoute)
    }

    /// All Path values, topmost first, up to the first malformed one (RFC 3327).
    pub fn paths(&self) -> impl Iterator<Item = Result<NameAddr<'a>, Fault>> {
        Values::new(self, HeaderName::Path, Fault::Path)
    }

    /// The option tags of a header such as Supported or Require.
    pub fn option_tags(&self, name: HeaderName) -> impl Iterator<Item = &'a [u8]> {
        self.header_values(name)
            .flat_map(|value| value.split(|&byte| byte == b','))
            .map(trim)
            .filter(|tag| !tag.is_empty())
    }

    /// All Contact values, up to the first malformed one.
    pub fn contacts(&self) -> impl Iterator<Item = Result<NameAddr<'a>, Fault>> {
        Values::new(self, HeaderName::Contact, Fault::Contact)
    }

    /// Expires, in seconds (RFC 3261 §20.19).
    pub fn expires(&self) -> Option<u32> {
        self.seconds(HeaderName::Expires)
    }

    /// Session-Expires, in seconds (RFC 4028 §4).
    pub fn session_expires(&self) -> Option<u32> {
        self.seconds(HeaderName::SessionExpires)
    }

    /// Retry-After, in seconds (RFC 3261 §20.33).
    pub fn retry_after(&self) -> Option<u32> {
        self.seconds(HeaderName::RetryAfter)
    }

    /// The Call-ID of the dialog in Replaces (RFC 3891), Join (RFC 3911) or Target-Dialog
    /// (RFC 4538).
    pub fn dialog_named(&self) -> Option<&'a [u8]> {
        let names = [
            HeaderName::Replaces,
            HeaderName::Join,
            HeaderName::TargetDialog,
        ];
        let value = names.into_iter().find_map(|name| self.header(name))?;
        let call_id = &value[..find(value, b';').unwrap_or(value.len())];
        Some(trim(call_id)).filter(|call_id| !call_id.is_empty())
    }

    /// The position of a slice of [`bytes`](Self::bytes).
    pub fn span_of(&self, part: &[u8]) -> Span {
        let start = offset(self.bytes, part);
        Span {
            start,
            end: start + part.len(),
        }
    }

    /// All header fields, known or not, in their order.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Line> {
        let end = self.headers_end();
        let lines = Lines::new(self.bytes, self.headers_start.into());
        lines.take_while(move |line| line.field.line < end)
    }

    /// The name of a header field as it stands there.
    pub(crate) fn name(&self, line: &Line) -> &'a [u8] {
        let start = usize::from(line.field.line);
        trim(&self.bytes[start..start + line.name.unwrap_or(0)])
    }

    pub(crate) fn field(&self, name: HeaderName) -> Option<Field> {
        (self.headers.present & 1 << name as u64 != 0).then(|| self.headers.first[name as usize])
    }

    pub(crate) const fn is_repeated(&self, name: HeaderName) -> bool {
        self.headers.repeated & 1 << name as u64 != 0
    }

    pub(crate) fn value(&self, field: Field) -> &'a [u8] {
        &self.bytes[usize::from(field.value)..usize::from(field.end)]
    }

    pub(crate) fn reader(&self, field: Field) -> Reader<'a> {
        Reader::new(self.bytes, field.value.into(), field.end.into())
    }

    /// The field with its continuation lines and their ends.
    pub(crate) fn line_span(&self, field: Field) -> Span {
        Span {
            start: field.line.into(),
            end: field.next.into(),
        }
    }

    pub(crate) const fn headers_start(&self) -> usize {
        self.headers_start as usize
    }

    /// Where the empty line behind the headers begins.
    pub(crate) fn headers_end(&self) -> u16 {
        let end = self.headers.end - 1;
        let is_return = self.bytes[usize::from(end) - 1] == b'\r';
        end - u16::from(is_return)
    }

    /// The header's field, which must be the only one.
    pub(crate) fn only(&self, name: HeaderName, fault: Fault) -> Result<Field, Fault> {
        self.field(name)
            .filter(|_| !self.is_repeated(name))
            .ok_or(fault)
    }

    fn name_addr(&self, name: HeaderName, fault: Fault) -> Result<NameAddr<'a>, Fault> {
        let mut reader = self.reader(self.only(name, fault)?);
        match NameAddr::read(&mut reader) {
            Ok(value) if reader.peek().is_none() => Ok(value),
            _ => Err(fault),
        }
    }

    fn seconds(&self, name: HeaderName) -> Option<u32> {
        let (number, rest) = digits(self.header(name)?);
        number.filter(|_| matches!(rest.get(skip_lws(rest, 0)), None | Some(b';' | b'(')))
    }
}
