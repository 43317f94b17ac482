//! Addresses with parameters, as in From, To, Contact, Route and Record-Route.

use crate::{
    params::{self, GenericParam, Param},
    reader::{Malformed, Reader},
    scan::{Block, Marks},
    text::{Span, trim},
};

/// One value of a header whose values are `name-addr` or `addr-spec` with parameters (RFC 3261 §20.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NameAddr<'a> {
    /// The whole value in the message, without commas around it.
    pub span: Span,
    /// The URI, without angle brackets. `*` in a Contact removes all bindings.
    pub uri: &'a [u8],
    /// The header parameters, from their first semicolon on; may be empty.
    pub params: &'a [u8],
    /// The tag parameter (RFC 3261 §19.3).
    pub tag: Option<&'a [u8]>,
}

impl<'a> NameAddr<'a> {
    /// The first value in a header's text; none if it is malformed. Its span is relative to this
    /// text.
    pub fn first(text: &'a [u8]) -> Option<Self> {
        Self::read(&mut Reader::new(text, 0, text.len())).ok()
    }

    /// Finds the first parameter with this name, in any case.
    pub fn param(&self, name: &[u8]) -> Param<'a> {
        params::find(self.params, name)
    }

    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let start = reader.at();
        let uri = read_uri(reader)?;
        let params_start = reader.at();
        let mut tag = None;
        while let Some(param) = GenericParam::read(reader)? {
            if tag.is_none() && param.is(b"tag") {
                tag = param.value.filter(|value| !value.is_empty());
            }
        }
        let end = reader.at();
        Ok(Self {
            span: Span { start, end },
            uri,
            params: reader.since(params_start),
            tag,
        })
    }
}

/// Reads the URI, with the display name before it.
fn read_uri<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let start = reader.at();
    loop {
        if reader.byte(b'<') {
            let uri = trim(reader.up_to(b'>')?);
            return if uri.is_empty() {
                Err(Malformed)
            } else {
                Ok(uri)
            };
        }
        if reader.byte(b'"') {
            reader.unquote()?;
        } else {
            let is_first = reader.at() == start;
            let word = reader.word(ends_word);
            if word.is_empty() {
                return Err(Malformed);
            }
            // Without brackets, parameters belong to the header (RFC 3261 §20.10).
            if is_first && matches!(reader.peek(), None | Some(b';' | b',')) {
                return Ok(word);
            }
        }
        reader.skip_blank();
    }
}

/// What ends a word of a display name, or a URI without brackets.
#[inline(always)]
fn ends_word(block: Block) -> Marks {
    block.is_blank() | block.is(b'<') | block.is(b'"') | block.is(b';') | block.is(b',')
}
