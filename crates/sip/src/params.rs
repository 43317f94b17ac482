//! Parameters of header fields: `*( SEMI name [ EQUAL value ] )` (RFC 3261 §25.1, generic-param).

use crate::{
    reader::{Malformed, Reader},
    scan::{Block, Marks},
};

/// A parameter; the value keeps its quotes.
#[derive(Clone, Copy)]
pub(crate) struct Param<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
}

impl<'a> Param<'a> {
    /// Reads the next parameter; none at a comma or at the end.
    #[inline(always)]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Option<Self>, Malformed> {
        if !reader.separator(b';') {
            return match reader.peek() {
                None | Some(b',') => Ok(None),
                Some(_) => Err(Malformed),
            };
        }
        let name = reader.word(|block| ends_value(block) | block.is(b'='));
        if name.is_empty() {
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

/// The first parameter of that name: its value, when it has one.
pub(crate) fn find<'a>(params: &'a [u8], name: &[u8]) -> Option<Option<&'a [u8]>> {
    let mut reader = Reader::new(params, 0, params.len());
    while let Ok(Some(param)) = Param::read(&mut reader) {
        if param.is(name) {
            return Some(param.value);
        }
    }
    None
}
