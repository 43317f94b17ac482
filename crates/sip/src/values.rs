//! Header fields of one name, and the values in them.

use crate::{
    Fault, HeaderName, Message, NameAddr, Via,
    header::{Field, read_line},
    params::BadParams,
    text::Span,
};

/// The fields of one header, topmost first.
pub(crate) struct Fields<'m, 'a> {
    message: &'m Message<'a>,
    name: HeaderName,
    /// Where to look for the next one: none, at the header's first.
    from: Option<usize>,
}

impl<'m, 'a> Fields<'m, 'a> {
    pub(crate) const fn new(message: &'m Message<'a>, name: HeaderName) -> Self {
        Self {
            message,
            name,
            from: None,
        }
    }

    /// Looks no further.
    const fn stop(&mut self) {
        self.from = Some(usize::MAX);
    }

    fn look_from(&self, mut at: usize) -> Option<Field> {
        if !self.message.is_repeated(self.name) {
            return None;
        }
        while at < self.message.headers_end() {
            let line = read_line(self.message.bytes(), at)?;
            if line.known == Some(self.name) {
                return Some(line.field);
            }
            at = line.next;
        }
        None
    }
}

impl Iterator for Fields<'_, '_> {
    type Item = Field;

    fn next(&mut self) -> Option<Field> {
        let found = match self.from {
            None => self.message.field(self.name),
            Some(at) => self.look_from(at),
        };
        self.from = Some(found.map_or(usize::MAX, |field| self.message.line_span(field).end));
        found
    }
}

/// A kind of value that a header may have several of, separated by commas.
pub(crate) trait Value<'a>: Sized {
    /// Reads the value that begins at `at`, and the position of the comma or the end behind it.
    fn read(bytes: &'a [u8], at: usize) -> Result<(Self, usize), BadParams>;

    fn span(&self) -> Span;
}

impl<'a> Value<'a> for Via<'a> {
    fn read(bytes: &'a [u8], at: usize) -> Result<(Self, usize), BadParams> {
        Via::read(bytes, at)
    }

    fn span(&self) -> Span {
        self.span
    }
}

impl<'a> Value<'a> for NameAddr<'a> {
    fn read(bytes: &'a [u8], at: usize) -> Result<(Self, usize), BadParams> {
        NameAddr::read(bytes, at)
    }

    fn span(&self) -> Span {
        self.span
    }
}

/// All values of a header, through commas and fields, topmost first. Ends after the first malformed one.
pub(crate) struct Values<'m, 'a, V> {
    fields: Fields<'m, 'a>,
    field: Option<FieldValues<'a, V>>,
    fault: Fault,
}

impl<'m, 'a, V: Value<'a>> Values<'m, 'a, V> {
    pub(crate) fn new(message: &'m Message<'a>, name: HeaderName, fault: Fault) -> Self {
        Self {
            fields: Fields::new(message, name),
            field: None,
            fault,
        }
    }
}

impl<'a, V: Value<'a>> Iterator for Values<'_, 'a, V> {
    type Item = Result<V, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(result) = self.field.as_mut().and_then(Iterator::next) {
                return Some(result.map_err(|BadParams| {
                    self.fields.stop();
                    self.fault
                }));
            }
            let field = self.fields.next()?;
            self.field = Some(FieldValues::new(self.fields.message, field));
        }
    }
}

/// The values of one field.
pub(crate) struct FieldValues<'a, V> {
    /// The message up to the field's end.
    bytes: &'a [u8],
    at: Option<usize>,
    kind: std::marker::PhantomData<V>,
}

impl<'a, V: Value<'a>> FieldValues<'a, V> {
    pub(crate) fn new(message: &Message<'a>, field: Field) -> Self {
        let bytes = &message.bytes()[..usize::from(field.end)];
        Self {
            bytes,
            at: Some(usize::from(field.value)),
            kind: std::marker::PhantomData,
        }
    }
}

impl<'a, V: Value<'a>> Iterator for FieldValues<'a, V> {
    type Item = Result<V, BadParams>;

    fn next(&mut self) -> Option<Self::Item> {
        let result = V::read(self.bytes, self.at.take()?);
        Some(result.map(|(value, stop)| {
            self.at = (stop < self.bytes.len()).then_some(stop + 1);
            value
        }))
    }
}
