//! Addresses with parameters, as in From, To, Contact, Route and Record-Route.

use crate::{
    params::{self, BadParams, Params},
    text::{Span, count_until, find, is_lws, quoted_end, set, skip_lws, trimmed_end},
};

/// One value of a header whose values are `name-addr` or `addr-spec` with parameters (RFC 3261 §20.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NameAddr<'a> {
    /// The whole value in the message, without commas around it.
    pub span: Span,
    /// The URI, without angle brackets. `*` in a Contact that removes all bindings.
    pub uri: &'a [u8],
    /// The header parameters, from their first semicolon on; may be empty.
    pub params: &'a [u8],
    /// The tag parameter (RFC 3261 §19.3).
    pub tag: Option<&'a [u8]>,
}

impl<'a> NameAddr<'a> {
    /// The first parameter of that name, in any case: its value, when it has one.
    pub fn param(&self, name: &[u8]) -> Option<Option<&'a [u8]>> {
        params::find(self.params, name)
    }

    /// Reads the value that begins at `at`, and the position of the comma or the end behind it.
    #[inline]
    pub(crate) fn read(bytes: &'a [u8], at: usize) -> Result<(Self, usize), BadParams> {
        let start = skip_lws(bytes, at);
        let (uri, params_start) = read_uri(bytes, start)?;
        let mut params = Params::new(bytes, params_start);
        let mut tag = None;
        while let Some(param) = params.read()? {
            if tag.is_none() && param.is(b"tag") {
                tag = param.value.filter(|value| !value.is_empty());
            }
        }
        let end = params.end();
        let span = Span { start, end };
        Ok((
            Self {
                span,
                uri,
                params: &bytes[params_start..end],
                tag,
            },
            params.stop(),
        ))
    }
}

/// The URI of the value at `start`, and where its parameters begin.
fn read_uri(bytes: &[u8], start: usize) -> Result<(&[u8], usize), BadParams> {
    let mut at = start;
    loop {
        match bytes.get(at) {
            Some(b'<') => {
                let open = skip_lws(bytes, at + 1);
                let close = open + find(&bytes[open..], b'>').ok_or(BadParams)?;
                let uri = &bytes[open..trimmed_end(bytes, open, close)];
                return if uri.is_empty() {
                    Err(BadParams)
                } else {
                    Ok((uri, close + 1))
                };
            }
            Some(b'"') => at = quoted_end(bytes, at).ok_or(BadParams)?,
            None | Some(b';' | b',') => break,
            Some(_) => at += 1 + count_until(&bytes[at + 1..], set::ADDR_END),
        }
    }
    // Without brackets, parameters belong to the header (RFC 3261 §20.10).
    let end = trimmed_end(bytes, start, at);
    let uri = &bytes[start..end];
    if uri.is_empty() || uri.iter().any(|&byte| is_lws(byte) || byte == b'"') {
        return Err(BadParams);
    }
    Ok((uri, end))
}
