//! Header fields of one name, and the values in them.

use crate::{
    Fault, HeaderName, Message, NameAddr, Via,
    header::{Field, Line, Lines},
    reader::{Malformed, Reader},
    text::Span,
};

/// The fields of one header, topmost first.
pub(crate) struct Fields<'m, 'a> {
    message: &'m Message<'a>,
    name: HeaderName,
    next: Next<'a>,
}

/// Where to look for the next field.
enum Next<'a> {
    First,
    Among(Lines<'a>),
    Nowhere,
}

impl<'m, 'a> Fields<'m, 'a> {
    pub(crate) const fn new(message: &'m Message<'a>, name: HeaderName) -> Self {
        Self {
            message,
            name,
            next: Next::First,
        }
    }

    /// Looks no further.
    fn stop(&mut self) {
        self.next = Next::Nowhere;
    }

    fn first(&mut self) -> Option<Field> {
        let first = self.message.field(self.name)?;
        if self.message.is_repeated(self.name) {
            let lines = Lines::new(self.message.bytes(), first.next.into());
            self.next = Next::Among(lines);
        } else {
            self.stop();
        }
        Some(first)
    }
}

impl Iterator for Fields<'_, '_> {
    type Item = Field;

    fn next(&mut self) -> Option<Field> {
        match &mut self.next {
            Next::First => self.first(),
            Next::Among(lines) => {
                let end = self.message.headers_end();
                let is_wanted = |line: &Line| line.known == Some(self.name);
                let found = lines
                    .take_while(|line| line.field.line < end)
                    .find(is_wanted);
                found.map(|line| line.field)
            }
            Next::Nowhere => None,
        }
    }
}

/// A kind of value that a header may have several of, separated by commas.
pub(crate) trait Value<'a>: Sized {
    /// Reads one value, up to the comma or the end behind it.
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed>;

    fn span(&self) -> Span;
}

impl<'a> Value<'a> for Via<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Via::read(reader)
    }

    fn span(&self) -> Span {
        self.span
    }
}

impl<'a> Value<'a> for NameAddr<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        NameAddr::read(reader)
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
                return Some(result.map_err(|Malformed| {
                    self.fields.stop();
                    self.fault
                }));
            }
            let field = self.fields.next()?;
            self.field = Some(FieldValues::new(self.fields.message, field));
        }
    }
}

/// The values of one field, up to the first malformed one.
pub(crate) struct FieldValues<'a, V> {
    /// None: all are read.
    reader: Option<Reader<'a>>,
    kind: std::marker::PhantomData<V>,
}

impl<'a, V: Value<'a>> FieldValues<'a, V> {
    pub(crate) fn new(message: &Message<'a>, field: Field) -> Self {
        Self {
            reader: Some(message.reader(field)),
            kind: std::marker::PhantomData,
        }
    }
}

impl<'a, V: Value<'a>> Iterator for FieldValues<'a, V> {
    type Item = Result<V, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut reader = self.reader.take()?;
        let value = V::read(&mut reader);
        if value.is_ok() && reader.separator(b',') {
            self.reader = Some(reader);
        }
        Some(value)
    }
}
