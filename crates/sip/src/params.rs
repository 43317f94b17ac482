//! Parameters of header fields: `*( SEMI name [ EQUAL value ] )` (RFC 3261 §25.1, generic-param).

use crate::text::{count_until, quoted_end, set, skip_lws};

/// A parameter; the value keeps its quotes.
#[derive(Clone, Copy)]
pub(crate) struct Param<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
}

impl Param<'_> {
    #[inline]
    pub(crate) fn is(&self, name: &[u8]) -> bool {
        self.name == name || self.name.eq_ignore_ascii_case(name)
    }
}

/// The parameters are malformed.
#[derive(Debug)]
pub(crate) struct BadParams;

/// Reads parameters one by one. Stops at a comma or at the end of the bytes.
pub(crate) struct Params<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Params<'a> {
    pub(crate) const fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at, end: at }
    }

    /// The position after the last parameter read, white space left out.
    pub(crate) const fn end(&self) -> usize {
        self.end
    }

    /// The position of the comma or the end, once all are read.
    pub(crate) const fn stop(&self) -> usize {
        self.at
    }

    /// The next parameter; none at a comma or at the end.
    pub(crate) fn read(&mut self) -> Result<Option<Param<'a>>, BadParams> {
        self.at = skip_lws(self.bytes, self.at);
        match self.bytes.get(self.at) {
            None | Some(b',') => return Ok(None),
            Some(b';') => self.at = skip_lws(self.bytes, self.at + 1),
            Some(_) => return Err(BadParams),
        }
        let name = self.word(set::NAME_END);
        if name.is_empty() {
            return Err(BadParams);
        }
        self.end = self.at;
        self.at = skip_lws(self.bytes, self.at);
        if self.bytes.get(self.at) != Some(&b'=') {
            return Ok(Some(Param { name, value: None }));
        }
        self.at = skip_lws(self.bytes, self.at + 1);
        let value = self.value()?;
        self.end = self.at;
        Ok(Some(Param {
            name,
            value: Some(value),
        }))
    }

    fn value(&mut self) -> Result<&'a [u8], BadParams> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return Ok(self.word(set::VALUE_END));
        }
        let start = self.at;
        self.at = quoted_end(self.bytes, start).ok_or(BadParams)?;
        Ok(&self.bytes[start..self.at])
    }

    #[inline]
    fn word(&mut self, ends: u8) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let word = &rest[..count_until(rest, ends)];
        self.at += word.len();
        word
    }
}

/// The first parameter of that name: its value, when it has one.
pub(crate) fn find<'a>(params: &'a [u8], name: &[u8]) -> Option<Option<&'a [u8]>> {
    let mut params = Params::new(params, 0);
    while let Ok(Some(param)) = params.read() {
        if param.is(name) {
            return Some(param.value);
        }
    }
    None
}
