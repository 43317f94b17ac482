//! Rewrites a message: collects removals and insertions, and applies them as copies of slices.

use std::{net::SocketAddr, ops::Range};

use crate::{
    HeaderName, Message, NameAddr, OverloadTerms, Span, Via,
    header::Field,
    overload,
    text::{offset, write_ip, write_number},
    values::{FieldValues, Fields, Value},
    via::ip,
};

/// Changes to one message. If it is reused for many messages, it does not allocate in the long run.
///
/// All positions are those in the original message. Edits at the same position appear in the order
/// in which they were made, except those of `push_*`: a later push appears higher.
#[derive(Debug, Default)]
pub struct Edits {
    /// In ascending position.
    edits: Vec<Edit>,
    /// The text that edits put in.
    text: Vec<u8>,
    /// The Request-URI that has been set, as a range of `text`.
    request_uri: Option<Range<usize>>,
    routes_popped: usize,
    last_route_removed: bool,
}

#[derive(Debug)]
struct Edit {
    at: usize,
    /// How many bytes are taken out there.
    removed: usize,
    /// What is put in for them, as a range of `Edits::text`.
    text: Range<usize>,
}

impl Edits {
    /// Discards all edits.
    pub fn clear(&mut self) {
        self.edits.clear();
        self.text.clear();
        self.request_uri = None;
        self.routes_popped = 0;
        self.last_route_removed = false;
    }

    /// Inserts the text that `write` appends.
    pub fn insert(&mut self, at: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.replace(Span { start: at, end: at }, write);
    }

    /// Replaces the span by the text that `write` appends.
    pub fn replace(&mut self, span: Span, write: impl FnOnce(&mut Vec<u8>)) {
        let index = self.edits.partition_point(|edit| edit.at <= span.start);
        self.add(index, span, write);
    }

    /// Removes the span. Spans may overlap.
    pub fn remove(&mut self, span: Span) {
        self.replace(span, |_| ());
    }

    /// Appends the message with all edits to `out`, and discards the edits.
    pub fn apply(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.reserve(bytes.len() + self.text.len());
        let mut done = 0;
        for edit in &self.edits {
            if edit.at > done {
                out.extend_from_slice(&bytes[done..edit.at]);
            }
            out.extend_from_slice(&self.text[edit.text.clone()]);
            done = done.max(edit.at + edit.removed);
        }
        out.extend_from_slice(&bytes[done..]);
        self.clear();
    }

    /// Inserts a Via with the value that `write` appends above all others.
    pub fn push_via(&mut self, message: &Message<'_>, write: impl FnOnce(&mut Vec<u8>)) {
        self.push_line(above(message, HeaderName::Via), "Via", write);
    }

    /// Removes the topmost Via value, which is `top`, and its field if that has no other value.
    pub fn pop_via(&mut self, message: &Message<'_>, top: &Via<'_>) {
        let Some(field) = message.field(HeaderName::Via) else {
            return;
        };
        if top.span.end == usize::from(field.end) {
            self.remove(message.line_span(field));
        } else {
            self.remove_first::<Via<'_>>(message, field, 1);
        }
    }

    /// Records the source of the request in the topmost Via, which is `top`: received if sent-by
    /// differs from it (RFC 3261 §18.2.1), received and rport if the sender asked for rport
    /// (RFC 3581 §4) or [needs](Via::needs_rport) it. It overwrites values that the sender itself set.
    pub fn set_received(&mut self, message: &Message<'_>, top: &Via<'_>, from: SocketAddr) {
        for edit in received(top, message.bytes(), from).into_iter().flatten() {
            self.replace(edit.span, |out| edit.write(out));
        }
    }

    /// Replaces the overload-control parameters of a Via by these; none: takes them out. RFC 7339 §5.2, §5.6
    pub fn set_overload(
        &mut self,
        message: &Message<'_>,
        via: &Via<'_>,
        terms: Option<&OverloadTerms>,
    ) {
        for span in overload::spans(via, message.bytes()) {
            self.remove(span);
        }
        if let Some(terms) = terms {
            self.insert(via.span.end, |out| terms.write(out));
        }
    }

    /// Replaces a parameter of a Via by what `write` appends, or puts that behind the others.
    pub fn set_via_param(
        &mut self,
        message: &Message<'_>,
        via: &Via<'_>,
        name: &[u8],
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        match via.find_param(message, name) {
            Some((span, _)) => self.replace(span, write),
            None => self.insert(via.span.end, write),
        }
    }

    /// Inserts a Record-Route with the value that `write` appends above all others.
    pub fn push_record_route(&mut self, message: &Message<'_>, write: impl FnOnce(&mut Vec<u8>)) {
        self.push_above(message, HeaderName::RecordRoute, write);
    }

    /// Inserts a Path with the value that `write` appends above all others. RFC 3327 §5.2
    pub fn push_path(&mut self, message: &Message<'_>, write: impl FnOnce(&mut Vec<u8>)) {
        self.push_above(message, HeaderName::Path, write);
    }

    /// Inserts a Route with the values that `write` appends above all others.
    pub fn push_route(&mut self, message: &Message<'_>, write: impl FnOnce(&mut Vec<u8>)) {
        self.push_above(message, HeaderName::Route, write);
    }

    /// Removes the topmost `count` Route values that are left, and each field that loses its last
    /// value.
    pub fn pop_routes(&mut self, message: &Message<'_>, count: usize) {
        self.routes_popped += count;
        self.remove_routes(message);
    }

    /// Removes the last Route value, and its field if that has no other value left.
    pub fn remove_last_route(&mut self, message: &Message<'_>) {
        self.last_route_removed = true;
        self.remove_routes(message);
    }

    /// Adds a Route with this URI below all others.
    pub fn push_last_route(&mut self, message: &Message<'_>, uri: &[u8]) {
        self.push_last_route_with(message, |out| out.extend_from_slice(uri));
    }

    /// Removes the fields of the header with this name whose values are unwanted. The name may be in any
    /// case, and stands for its compact form, too.
    pub fn remove_header(
        &mut self,
        message: &Message<'_>,
        name: &[u8],
        is_unwanted: impl Fn(&[u8]) -> bool,
    ) {
        let known = HeaderName::from_bytes(name);
        for line in message.lines() {
            let is_it = match known {
                Some(_) => line.known == known,
                None => message.name(&line).eq_ignore_ascii_case(name),
            };
            if is_it && is_unwanted(message.value(line.field)) {
                self.remove(message.line_span(line.field));
            }
        }
    }

    /// Inserts a header with the value that `write` appends below all others.
    pub fn append_header(
        &mut self,
        message: &Message<'_>,
        name: &str,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.insert(message.headers_end().into(), |out| {
            write_line(name, write, out);
        });
    }

    /// Sets the Request-URI. The last call counts.
    pub fn set_request_uri(&mut self, message: &Message<'_>, uri: &[u8]) {
        let Some(old) = message.request_uri() else {
            return;
        };
        let range = self.text.len()..self.text.len() + uri.len();
        let at = offset(message.bytes(), old);
        match self.request_uri.replace(range.clone()) {
            Some(earlier) => {
                self.text.extend_from_slice(uri);
                let edit = self
                    .edits
                    .iter_mut()
                    .find(|edit| edit.text == earlier && edit.at == at);
                edit.expect("it was set there").text = range;
            }
            None => self.replace(message.span_of(old), |out| out.extend_from_slice(uri)),
        }
    }

    /// Sets Max-Forwards, or adds it.
    pub fn set_max_forwards(&mut self, message: &Message<'_>, hops: u32) {
        match message.header(HeaderName::MaxForwards) {
            Some(value) => self.replace(message.span_of(value), |out| write_number(out, hops)),
            None => self.push_line(above(message, HeaderName::Via), "Max-Forwards", |out| {
                write_number(out, hops)
            }),
        }
    }

    /// Undoes the change of a strict router that sent the request here (RFC 3261 §16.4): the last
    /// Route value becomes the Request-URI.
    pub fn undo_strict_route(&mut self, message: &Message<'_>) {
        if let Some(Ok(last)) = message.routes().last() {
            self.set_request_uri(message, last.uri);
            self.remove_last_route(message);
        }
    }

    /// Prepares the request for a strict router as the next hop (RFC 3261 §16.6, step 6). The
    /// Request-URI becomes the last Route value. The first Route value that is left, `next_hop`,
    /// becomes the Request-URI.
    pub fn redo_strict_route(&mut self, message: &Message<'_>, next_hop: &NameAddr<'_>) {
        let Some(target) = message.request_uri() else {
            return;
        };
        match self.request_uri.clone() {
            Some(target) => {
                self.push_last_route_with(message, |out| out.extend_from_within(target))
            }
            None => self.push_last_route(message, target),
        }
        self.set_request_uri(message, next_hop.uri);
        self.pop_routes(message, 1);
    }

    fn add(&mut self, index: usize, span: Span, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.text.len();
        write(&mut self.text);
        let edit = Edit {
            at: span.start,
            removed: span.end - span.start,
            text: start..self.text.len(),
        };
        self.edits.insert(index, edit);
    }

    /// Puts a header field before all that is put in at the same position.
    /// Inserts a field above all others of its name.
    fn push_above(
        &mut self,
        message: &Message<'_>,
        name: HeaderName,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let at = match message.field(name) {
            Some(field) => usize::from(field.line),
            None => above(message, HeaderName::Via),
        };
        self.push_line(at, name.as_str(), write);
    }

    fn push_line(&mut self, at: usize, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        let index = self.edits.partition_point(|edit| edit.at < at);
        self.add(index, Span { start: at, end: at }, |out| {
            write_line(name, write, out);
        });
    }

    /// Adds a Route with the URI that `write` appends below all others.
    fn push_last_route_with(&mut self, message: &Message<'_>, write: impl FnOnce(&mut Vec<u8>)) {
        let at = match Fields::new(message, HeaderName::Route).last() {
            Some(field) => message.line_span(field).end,
            None => above(message, HeaderName::MaxForwards),
        };
        self.insert(at, |out| {
            out.extend_from_slice(b"Route: <");
            write(out);
            out.extend_from_slice(b">\r\n");
        });
    }

    /// Takes out all Route values that are to go. What is out already may be taken out again.
    fn remove_routes(&mut self, message: &Message<'_>) {
        let mut left = self.routes_popped;
        let mut fields = Fields::new(message, HeaderName::Route).peekable();
        while let Some(field) = fields.next() {
            let gives_last = self.last_route_removed && fields.peek().is_none();
            if left == 0 && !gives_last {
                continue;
            }
            let values = FieldValues::<NameAddr<'_>>::new(message, field);
            let count = values.take_while(Result::is_ok).count();
            let first = left.min(count);
            left -= first;
            let end = count - usize::from(gives_last && count > 0);
            if first >= end {
                self.remove(message.line_span(field));
                continue;
            }
            self.remove_first::<NameAddr<'_>>(message, field, first);
            if end < count {
                self.remove_from(message, field, end);
            }
        }
    }

    /// Takes out the first `count` values of a field, and the field when no value is left.
    fn remove_first<'a, V: Value<'a>>(
        &mut self,
        message: &Message<'a>,
        field: Field,
        count: usize,
    ) {
        if count == 0 {
            return;
        }
        let start = usize::from(field.value);
        match FieldValues::<V>::new(message, field).nth(count) {
            Some(Ok(value)) => self.remove(Span {
                start,
                end: value.span().start,
            }),
            Some(Err(_)) | None => self.remove(message.line_span(field)),
        }
    }

    /// Takes out the values of a Route field from the `index`th on, which is not its first.
    fn remove_from(&mut self, message: &Message<'_>, field: Field, index: usize) {
        if let Some(Ok(last)) = FieldValues::<NameAddr<'_>>::new(message, field).nth(index - 1) {
            self.remove(Span {
                start: last.span.end,
                end: usize::from(field.end),
            });
        }
    }
}

fn write_line(name: &str, write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    write(out);
    out.extend_from_slice(b"\r\n");
}

/// Where a field goes that is to stand above those of this name, or above all.
fn above(message: &Message<'_>, name: HeaderName) -> usize {
    message
        .field(name)
        .map_or_else(|| message.headers_start(), |field| usize::from(field.line))
}

/// A parameter of the topmost Via that is to be written, and what it takes the place of.
pub(crate) struct ViaEdit {
    pub(crate) span: Span,
    param: ViaParam,
}

enum ViaParam {
    Received(SocketAddr),
    ReceivedValue(SocketAddr),
    Rport(u16),
    NewRport(u16),
}

impl ViaEdit {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self.param {
            ViaParam::Received(from) => {
                out.extend_from_slice(b";received=");
                write_ip(out, from.ip());
            }
            ViaParam::ReceivedValue(from) => write_ip(out, from.ip()),
            ViaParam::Rport(port) => {
                out.extend_from_slice(b"rport=");
                write_number(out, port.into());
            }
            ViaParam::NewRport(port) => {
                out.extend_from_slice(b";rport=");
                write_number(out, port.into());
            }
        }
    }
}

/// What [`Edits::set_received`] does, in ascending position.
pub(crate) fn received(via: &Via<'_>, bytes: &[u8], from: SocketAddr) -> [Option<ViaEdit>; 2] {
    let needed = via.rport.is_present() || ip(via.host) != Some(from.ip().to_canonical());
    let received = match via.received {
        Some(value) => {
            let start = offset(bytes, value);
            let span = Span {
                start,
                end: start + value.len(),
            };
            Some(ViaEdit {
                span,
                param: ViaParam::ReceivedValue(from),
            })
        }
        None if needed => {
            let end = via.span.end;
            Some(ViaEdit {
                span: Span { start: end, end },
                param: ViaParam::Received(from),
            })
        }
        None => None,
    };
    let end = via.span.end;
    let rport = match via.rport_span {
        Some(span) => Some((span, ViaParam::Rport(from.port()))),
        None if via.needs_rport(from) => {
            Some((Span { start: end, end }, ViaParam::NewRport(from.port())))
        }
        None => None,
    };
    let rport = rport.map(|(span, param)| ViaEdit { span, param });
    match (&received, &rport) {
        (Some(one), Some(other)) if one.span.start < other.span.start => [received, rport],
        _ => [rport, received],
    }
}
