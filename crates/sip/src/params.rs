//! Parameters of header fields: `*( SEMI name [ EQUAL value ] )` (RFC 3261 §25.1, generic-param).

use crate::{
    reader::{Malformed, Reader},
    scan::{Block, Marks},
};

/// A parameter looked up by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param<'a> {
    /// There is no parameter of that name.
    Absent,
    /// The name stands alone, as in `;lr`.
    Flag,
    /// The name has a value, as in `;transport=udp`. The value may be empty.
    Value(&'a [u8]),
}

impl<'a> Param<'a> {
    pub(crate) fn present(value: Option<&'a [u8]>) -> Self {
        value.map_or(Self::Flag, Self::Value)
    }

    /// Returns the value, if the parameter has one.
    pub fn value(self) -> Option<&'a [u8]> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Flag => None,
        }
    }

    /// Whether there is a parameter of that name, with or without a value.
    pub fn is_present(self) -> bool {
        !matches!(self, Self::Absent)
    }
}

/// A parameter as it stands in a header; the value keeps its quotes.
#[derive(Clone, Copy)]
pub(crate) struct GenericParam<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
}

impl<'a> GenericParam<'a> {
    /// Reads the next parameter; none at a comma or at the end. Its name is empty where a semicolon has
    /// nothing behind it.
    #[inline(always)]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Option<Self>, Malformed> {
        if !reader.separator(b';') {
            return match reader.peek() {
                None | Some(b',') => Ok(None),
                Some(_) => Err(Malformed),
            };
        }
        let name = reader.word(|block| ends_value(block) | block.is(b'='));
        if name.is_empty() && !matches!(reader.peek(), None | Some(b',')) {
            return Err(Malformed);
        }
        let value = if reader.separator(b'=') {
            Some(read_value(reader)?)
        } else {
            None
        };
        Ok(Some(Self { name, value }))
    }

    #[inline]
    pub(crate) fn is(&self, name: &[u8]) -> bool {
        self.name == name || self.name.eq_ignore_ascii_case(name)
    }

    /// Whether it is one of Sipyard's own.
    #[inline]
    pub(crate) fn is_private(&self) -> bool {
        matches!(self.name, [b's' | b'S', b'y' | b'Y', b'-', ..])
    }

    /// Whether it is one of overload control (RFC 7339 §4).
    #[inline]
    pub(crate) fn is_overload(&self) -> bool {
        matches!(
            self.name,
            [b'o' | b'O', b'c' | b'C'] | [b'o' | b'O', b'c' | b'C', b'-', ..]
        )
    }
}

#[inline(always)]
fn read_value<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let start = reader.at();
    if reader.byte(b'"') {
        reader.unquote()?;
        return Ok(reader.since(start));
    }
    Ok(reader.word(ends_value))
}

/// What ends a parameter's value that has no quotes. No control character can be in one.
#[inline(always)]
fn ends_value(block: Block) -> Marks {
    block.is_blank() | block.is(b';') | block.is(b',') | block.is(b'"')
}

/// Finds the first parameter of that name.
pub(crate) fn find<'a>(params: &'a [u8], name: &[u8]) -> Param<'a> {
    let mut reader = Reader::new(params, 0, params.len());
    while let Ok(Some(param)) = GenericParam::read(&mut reader) {
        if param.is(name) {
            return Param::present(param.value);
        }
    }
    Param::Absent
}
