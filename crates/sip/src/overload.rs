//! The Via parameters of overload control (RFC 7339 §4, RFC 7415 §3.2).

use std::io::Write;

use crate::{
    Message, Via,
    params::{GenericParam, Param},
    reader::Reader,
    text::{Span, number, trim, write_number},
    via::skip_to_params,
};

/// What a client writes into its Via that can withhold a percentage, or keep to a rate.
pub const OVERLOAD_OFFER: &[u8] = b";oc;oc-algo=\"loss,rate\"";

/// A second in units of `oc-seq`, which has up to five digits behind its point.
pub const OVERLOAD_SEQUENCE_PER_S: u64 = 100_000;

/// The overload-control parameters of one Via. In a request they are an offer, in a response terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overload {
    /// The value of `oc`; none in an offer.
    pub value: Option<u32>,
    /// `oc-algo` has `loss`, or is missing.
    pub has_loss: bool,
    /// `oc-algo` has `rate`.
    pub has_rate: bool,
    /// `oc-validity` in milliseconds.
    pub validity_ms: Option<u32>,
    /// `oc-seq` in units of [`OVERLOAD_SEQUENCE_PER_S`].
    pub sequence: Option<u64>,
}

/// The terms that a server writes into a client's Via.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverloadTerms {
    /// Whether the value is a rate, and not a percentage.
    pub is_rate: bool,
    /// `oc`.
    pub value: u32,
    /// `oc-validity` in milliseconds.
    pub validity_ms: u32,
    /// `oc-seq` in units of [`OVERLOAD_SEQUENCE_PER_S`].
    pub sequence: u64,
}

impl OverloadTerms {
    /// Appends them as parameters.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let algorithm = if self.is_rate { "rate" } else { "loss" };
        out.extend_from_slice(b";oc=");
        write_number(out, self.value);
        let (seconds, rest) = (
            self.sequence / OVERLOAD_SEQUENCE_PER_S,
            self.sequence % OVERLOAD_SEQUENCE_PER_S,
        );
        let validity_ms = self.validity_ms;
        write!(
            out,
            ";oc-algo=\"{algorithm}\";oc-validity={validity_ms};oc-seq={seconds}.{rest:05}"
        )
        .expect("a Vec takes all");
    }
}

impl<'a> Via<'a> {
    /// Finds the first parameter with this name, in any case, in the message that the Via is of.
    pub fn param(&self, message: &Message<'a>, name: &[u8]) -> Param<'a> {
        params(self, message.bytes())
            .find(|(_, param)| param.is(name))
            .map_or(Param::Absent, |(_, param)| Param::present(param.value))
    }

    /// Reads the parameters of overload control. None: there is no `oc`. What can't be understood counts as
    /// missing.
    pub fn overload(&self, message: &Message<'a>) -> Option<Overload> {
        if !self.has_overload {
            return None;
        }
        let mut overload = Overload::default();
        let (mut is_there, mut algorithms) = (false, None);
        for (_, param) in params(self, message.bytes()) {
            let value = param.value.map(unquoted);
            if param.is(b"oc") {
                is_there = true;
                overload.value = value.and_then(number);
            } else if param.is(b"oc-algo") {
                algorithms = value;
            } else if param.is(b"oc-validity") {
                overload.validity_ms = value.and_then(number);
            } else if param.is(b"oc-seq") {
                overload.sequence = value.and_then(sequence);
            }
        }
        let has = |name: &[u8]| {
            let mut listed = algorithms.unwrap_or(b"loss").split(|&byte| byte == b',');
            listed.any(|listed| trim(listed).eq_ignore_ascii_case(name))
        };
        (overload.has_loss, overload.has_rate) = (has(b"loss"), has(b"rate"));
        is_there.then_some(overload)
    }
}

/// Where the overload-control parameters of a Via are, with their semicolons, in ascending position.
pub(crate) fn spans(via: &Via<'_>, bytes: &[u8]) -> impl Iterator<Item = Span> {
    let via = via.has_overload.then_some(via);
    via.into_iter()
        .flat_map(move |via| params(via, bytes))
        .filter(|(_, param)| param.is_overload())
        .map(|(span, _)| span)
}

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

fn unquoted(value: &[u8]) -> &[u8] {
    let inside = value.strip_prefix(b"\"");
    inside
        .and_then(|value| value.strip_suffix(b"\""))
        .unwrap_or(value)
}

fn sequence(text: &[u8]) -> Option<u64> {
    let mut parts = text.splitn(2, |&byte| byte == b'.');
    let (seconds, rest) = (parts.next()?, parts.next().unwrap_or_default());
    if seconds.len() > 12 || rest.len() > 5 {
        return None;
    }
    let digits = seconds.iter().chain(rest);
    let padding = std::iter::repeat_n(&b'0', 5 - rest.len());
    digits.chain(padding).try_fold(0, |value: u64, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        Some(value * 10 + u64::from(digit))
    })
}
