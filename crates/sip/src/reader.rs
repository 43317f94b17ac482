//! Reading a header field's value from left to right.

use crate::{
    scan::{Block, Marks, seek},
    text::{Span, digits, is_lws, offset, token_length},
    via::host_length,
};

/// A header field's value is malformed.
#[derive(Debug)]
pub(crate) struct Malformed;

/// Where the reading of a value has come to.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    text: &'a [u8],
    /// What is left of the text: the rest of the value, and what stands behind it.
    rest: &'a [u8],
    /// How many bytes stand behind the value. The first of them is white space, so that words end there.
    behind: usize,
}

impl<'a> Reader<'a> {
    /// A reader of the value at `start..end`.
    pub(crate) fn new(text: &'a [u8], start: usize, end: usize) -> Self {
        Self {
            text,
            rest: &text[start..],
            behind: text.len() - end,
        }
    }

    /// The position in the text.
    pub(crate) const fn at(&self) -> usize {
        self.text.len() - self.rest.len()
    }

    /// From a part that has been read to here.
    pub(crate) fn span_from(&self, part: &[u8]) -> Span {
        Span {
            start: offset(self.text, part),
            end: self.at(),
        }
    }

    /// What has been read from this position on.
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        &self.text[start..self.at()]
    }

    /// The next byte that is not white space; none at the end.
    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<u8> {
        let mut after = *self;
        after.skip_blank();
        after.rest.first().copied().filter(|_| !after.is_at_end())
    }

    /// Skips white space. True: there was some.
    #[inline(always)]
    pub(crate) fn skip_blank(&mut self) -> bool {
        let before = self.rest.len();
        while let [byte, rest @ ..] = self.rest
            && is_lws(*byte)
            && !self.is_at_end()
        {
            self.rest = rest;
        }
        self.rest.len() < before
    }

    /// Skips a separator with the white space around it, if it comes next (RFC 3261 §25.1: COMMA, SEMI, EQUAL, COLON, SLASH).
    #[inline(always)]
    pub(crate) fn separator(&mut self, byte: u8) -> bool {
        let mut after = *self;
        after.skip_blank();
        let is_next = after.byte(byte);
        if is_next {
            after.skip_blank();
            *self = after;
        }
        is_next
    }

    /// Skips this byte, if it comes next.
    #[inline(always)]
    pub(crate) fn byte(&mut self, byte: u8) -> bool {
        self.text(&[byte])
    }

    /// Skips this text, which has no white space, if it comes next.
    #[inline(always)]
    pub(crate) fn text(&mut self, text: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Reads up to a byte that is marked. White space must be.
    #[inline(always)]
    pub(crate) fn word(&mut self, ends: impl Fn(Block) -> Marks) -> &'a [u8] {
        self.take(seek(self.rest, ends))
    }

    /// Reads a token of at least one character.
    pub(crate) fn token(&mut self) -> Result<&'a [u8], Malformed> {
        let token = self.take(token_length(self.rest));
        if token.is_empty() {
            Err(Malformed)
        } else {
            Ok(token)
        }
    }

    /// Reads a host (RFC 3261 §25.1).
    pub(crate) fn host(&mut self) -> Result<&'a [u8], Malformed> {
        let length = host_length(self.rest).ok_or(Malformed)?;
        Ok(self.take(length))
    }

    /// Reads a number; none if it is missing or does not fit.
    pub(crate) fn number(&mut self) -> Option<u32> {
        let (number, rest) = digits(self.rest);
        self.rest = rest;
        number
    }

    /// Reads up to this byte, and skips it.
    #[inline(always)]
    pub(crate) fn up_to(&mut self, byte: u8) -> Result<&'a [u8], Malformed> {
        let text = self.take(seek(self.rest, |block| block.is(byte)));
        self.skip(1)?;
        Ok(text)
    }

    /// Reads the rest of a quoted string, whose first quote has been read.
    pub(crate) fn unquote(&mut self) -> Result<(), Malformed> {
        loop {
            self.take(seek(self.rest, |block| block.is(b'"') | block.is(b'\\')));
            if self.byte(b'"') {
                return self.skip(0);
            }
            self.skip(2)?;
        }
    }

    #[inline(always)]
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest;
        text
    }

    /// Skips this many bytes, which must belong to the value.
    #[inline(always)]
    fn skip(&mut self, length: usize) -> Result<(), Malformed> {
        if self.rest.len() < self.behind + length {
            return Err(Malformed);
        }
        self.take(length);
        Ok(())
    }

    #[inline(always)]
    fn is_at_end(&self) -> bool {
        self.rest.len() <= self.behind
    }
}
