//! Reads single values of a scenario.

use std::{ops::RangeInclusive, time::Duration};

use load::Law;
use settings::{
    Read, Value,
    value::{expected, number},
};

const TIME: &str = "a time in quotes, such as \"1.45ms\", \"20s\" or \"5m\"";

/// A number with a fraction, and its unit.
pub(super) fn time(value: &Value<'_>) -> Read<Duration> {
    let text = value.as_str().ok_or_else(|| expected(TIME, value))?;
    parse_time(text).ok_or_else(|| format!("expected {TIME}, found \"{text}\""))
}

fn parse_time(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(unit_at);
    let unit_s = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit_s).ok()
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

/// Reads `true` or `false`.
pub(super) fn boolean(value: &Value<'_>) -> Read<bool> {
    match value {
        Value::Boolean(boolean) => Ok(*boolean),
        other => Err(expected("true or false", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_fractions_and_units() {
        let cases = [
            ("1.45ms", Some(Duration::from_micros(1_450))),
            ("100us", Some(Duration::from_micros(100))),
            ("20s", Some(Duration::from_secs(20))),
            ("1.5m", Some(Duration::from_secs(90))),
            ("20", None),
            ("s", None),
            ("-1s", None),
            ("1.2.3s", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_time(text), expected, "{text}");
        }
    }
}
