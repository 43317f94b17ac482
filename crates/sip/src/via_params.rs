//! Parameters of a Via by name.

use crate::{
    Message, Param, Via, params::GenericParam, reader::Reader, text::Span, via::skip_to_params,
};

impl<'a> Via<'a> {
    /// Finds the first parameter with this name, in any case, in the message that the Via is of.
    pub fn param(&self, message: &Message<'a>, name: &[u8]) -> Param<'a> {
        params(self, message.bytes())
            .find(|(_, param)| param.is(name))
            .map_or(Param::Absent, |(_, param)| Param::present(param.value))
    }

    /// The value of a parameter, and where the parameter is with its semicolon.
    pub fn find_param(&self, message: &Message<'a>, name: &[u8]) -> Option<(Span, &'a [u8])> {
        let mut params = params(self, message.bytes()).filter(|(_, param)| param.is(name));
        params.find_map(|(span, param)| Some((span, param.value?)))
    }
}

/// The parameters of a Via, each with where it is.
pub(crate) fn params<'a>(
    via: &Via<'_>,
    bytes: &'a [u8],
) -> impl Iterator<Item = (Span, GenericParam<'a>)> {
    let mut reader = Reader::new(bytes, via.span.start, via.span.end);
    let is_read = skip_to_params(&mut reader).is_ok();
    let next = move || {
        let start = reader.at();
        let param = GenericParam::read(&mut reader).ok()??;
        let end = reader.at();
        Some((Span { start, end }, param))
    };
    std::iter::from_fn(next).take_while(move |_| is_read)
}
