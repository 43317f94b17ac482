//! The header fields of a message.

use crate::{
    Fault, HeaderName, ParseError,
    header::{Field, Lines},
};

/// Where the headers are.
#[derive(Clone, Debug)]
pub(crate) struct Headers {
    /// The first field of each known header, valid if the header's bit is set in `present`.
    pub(crate) first: [Field; HeaderName::ALL.len()],
    pub(crate) present: u64,
    pub(crate) repeated: u64,
    /// Where the body begins.
    pub(crate) end: u16,
    pub(crate) fault: Option<Fault>,
}

impl Headers {
    #[inline(never)]
    pub(crate) fn find(text: &[u8], start: usize, fields_max: usize) -> Result<Self, ParseError> {
        let mut first = [Field::default(); HeaderName::ALL.len()];
        let (mut present, mut repeated) = (0u64, 0u64);
        let mut fault = None;
        let mut lines = Lines::new(text, start);
        let mut left = fields_max;
        loop {
            if let Some(length) = empty_line(lines.rest()) {
                return Ok(Self {
                    first,
                    present,
                    repeated,
                    end: (lines.at() + length) as u16,
                    fault,
                });
            }
            if left == 0 {
                return Ok(Self {
                    first,
                    present,
                    repeated,
                    end: lines.at() as u16,
                    fault: Some(Fault::TooManyHeaders),
                });
            }
            left -= 1;
            let line = lines.next().ok_or(ParseError::Truncated)?;
            if let Some(name) = line.known {
                let bit = 1 << name as u64;
                if present & bit == 0 {
                    first[name as usize] = line.field;
                }
                repeated |= present & bit;
                present |= bit;
            } else if line.name.is_none() {
                fault = Some(Fault::HeaderField);
            }
        }
    }
}

/// The length of the empty line that the bytes begin with, if they do.
pub(crate) fn empty_line(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [first, ..] if *first > b'\r' => None,
        [b'\n', ..] => Some(1),
        [b'\r', b'\n', ..] => Some(2),
        _ => None,
    }
}
