//! Parameters of a Via that no RFC names.

use crate::{Message, Via, overload::params, text::Span};

impl<'a> Via<'a> {
    /// The value of a parameter, and where the parameter is with its semicolon.
    pub fn find_param(&self, message: &Message<'a>, name: &[u8]) -> Option<(Span, &'a [u8])> {
        let mut params = params(self, message.bytes()).filter(|(_, param)| param.is(name));
        params.find_map(|(span, param)| Some((span, param.value?)))
    }
}
