//! Reads single values of a scenario.

use std::{ops::RangeInclusive, time::Duration};

use load::Law;
use settings::{
    Read, Value,
    value::{self, expected, number},
};

const TIME: &str = "a time in quotes, such as \"1.45ms\", \"20s\" or \"5m\"";

/// A number with a fraction, and its unit.
pub(super) fn time(value: &Value<'_>) -> Read<Duration> {
    let text = value.as_str().ok_or_else(|| expected(TIME, value))?;
    value::time(text).ok_or_else(|| format!("expected {TIME}, found \"{text}\""))
}

/// Reads a time that is always the same, or a table with a distribution and its parameters.
pub(super) fn law(value: &Value<'_>) -> Read<Law> {
    let Some(table) = value.as_table() else {
        return time(value).map(Law::Constant);
    };
    const ADVICE: &str = "write a time, { exponential = \"20s\" }, { normal = \"20s\", \
         deviation = \"10s\" } or { log-normal = \"20s\", deviation = \"10s\" }";
    let of = |key: &str| {
        table
            .get(key)
            .map(|value| time(value.get_ref()))
            .transpose()
    };
    let (exponential, normal) = (of("exponential")?, of("normal")?);
    let (log_normal, deviation) = (of("log-normal")?, of("deviation")?);
    match (table.len(), exponential, normal, log_normal, deviation) {
        (1, Some(mean), None, None, None) => Ok(Law::Exponential(mean)),
        (2, None, Some(mean), None, Some(deviation)) => Ok(Law::Normal { mean, deviation }),
        (2, None, None, Some(mean), Some(deviation)) => Ok(Law::LogNormal { mean, deviation }),
        _ => Err(ADVICE.to_owned()),
    }
}

/// Reads one value, or a list of values, each with `read`.
pub(super) fn one_or_more<'a, T>(
    read: impl Fn(&'a Value<'a>) -> Read<T>,
) -> impl Fn(&'a Value<'a>) -> Read<Vec<T>> {
    move |value| match value.as_array() {
        Some(items) if items.is_empty() => {
            Err("the list is empty: write at least one value".to_owned())
        }
        Some(items) => items.iter().map(|item| read(item.get_ref())).collect(),
        None => Ok(vec![read(value)?]),
    }
}

/// Reads a number, or a list of numbers, within a range.
pub(super) fn numbers<'a>(range: RangeInclusive<f64>) -> impl Fn(&'a Value<'a>) -> Read<Vec<f64>> {
    one_or_more(number(range))
}
