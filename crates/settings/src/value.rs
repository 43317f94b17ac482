//! Readers of single values: each accepts a value of the file, or says what to write in its place.

use std::{fmt::Display, ops::RangeInclusive, time::Duration};

use crate::{Value, hint};

/// A value, or the problem with the one in the file.
pub type Read<T> = Result<T, String>;

/// Returns the problem with a value of the wrong type.
#[must_use]
pub fn expected(what: &str, value: &Value<'_>) -> String {
    format!("expected {what}, found {}", type_name(value))
}

fn type_name(value: &Value<'_>) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a number with a fraction",
        Value::Boolean(_) => "a boolean",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

/// Reads a string.
///
/// # Errors
/// A text that says what was expected.
pub fn text<'a>(value: &'a Value<'a>) -> Read<&'a str> {
    value.as_str().ok_or_else(|| expected("a string", value))
}

/// Reads a string that is not empty.
///
/// # Errors
/// A text that says what was expected.
pub fn name<'a>(value: &'a Value<'a>) -> Read<&'a str> {
    match text(value)? {
        "" => Err("the text is empty: write at least one character".into()),
        name => Ok(name),
    }
}

/// Reads `true` or `false`.
///
/// # Errors
/// A text that says what was expected.
pub fn boolean(value: &Value<'_>) -> Read<bool> {
    value
        .as_bool()
        .ok_or_else(|| expected("true or false", value))
}

/// Reads a list, each item with `read`.
pub fn list<'a, T>(
    read: impl Fn(&'a Value<'a>) -> Read<T>,
) -> impl Fn(&'a Value<'a>) -> Read<Vec<T>> {
    move |value| {
        let items = value
            .as_array()
            .ok_or_else(|| expected("a list such as [\"A\", \"B\"]", value))?;
        items.iter().map(|item| read(item.get_ref())).collect()
    }
}

/// Reads a whole number within `range`.
pub fn integer(range: RangeInclusive<usize>) -> impl Fn(&Value<'_>) -> Read<usize> {
    move |value| {
        let integer = value
            .as_integer()
            .ok_or_else(|| expected("an integer", value))?;
        let number = usize::from_str_radix(integer.as_str(), integer.radix()).ok();
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| out_of_range(&integer.to_string(), &range))
    }
}

/// Reads a number within `range`, with or without a fraction.
pub fn number(range: RangeInclusive<f64>) -> impl Fn(&Value<'_>) -> Read<f64> {
    move |value| {
        let text = match value {
            Value::Float(float) => float.as_str(),
            Value::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            _ => return Err(expected("a number", value)),
        };
        let number = text.parse().ok();
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| out_of_range(text, &range))
    }
}

fn out_of_range<T: Display>(text: &str, range: &RangeInclusive<T>) -> String {
    let (low, high) = (range.start(), range.end());
    format!("{text} is out of range: write a value from {low} to {high}")
}

/// Reads a duration within `range`: a whole number and its unit.
pub fn duration(range: RangeInclusive<Duration>) -> impl Fn(&Value<'_>) -> Read<Duration> {
    move |value| {
        let advice = "a duration in quotes, such as \"250ms\", \"2s\", \"5m\" or \"12h\"";
        let text = value.as_str().ok_or_else(|| expected(advice, value))?;
        let duration =
            parse_duration(text).ok_or_else(|| format!("expected {advice}, found \"{text}\""))?;
        if range.contains(&duration) {
            return Ok(duration);
        }
        let (low, high) = (show(*range.start()), show(*range.end()));
        Err(format!(
            "{text} is out of range: write a value from {low} to {high}"
        ))
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let ms = number.parse::<u64>().ok()?.checked_mul(unit_ms)?;
    Some(Duration::from_millis(ms))
}

/// Writes a duration in the form of the file, in the largest unit that divides
/// it.
#[must_use]
pub fn show(duration: Duration) -> String {
    let ms = duration.as_millis();
    for (unit, unit_ms) in [("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if ms > 0 && ms.is_multiple_of(unit_ms) {
            return format!("{}{unit}", ms / unit_ms);
        }
    }
    format!("{ms}ms")
}

/// The request methods that the IANA registry lists.
pub const METHODS: [&str; 14] = [
    "ACK",
    "BYE",
    "CANCEL",
    "INFO",
    "INVITE",
    "MESSAGE",
    "NOTIFY",
    "OPTIONS",
    "PRACK",
    "PUBLISH",
    "REFER",
    "REGISTER",
    "SUBSCRIBE",
    "UPDATE",
];

/// Reads a request method. Methods are case-sensitive (RFC 3261 §7.1).
///
/// # Errors
/// A text that says what was expected.
pub fn method(value: &Value<'_>) -> Read<String> {
    let text = value
        .as_str()
        .ok_or_else(|| expected("a method in quotes, such as \"INVITE\"", value))?;
    check_method(text)?;
    Ok(text.to_owned())
}

/// Accepts the registered methods.
///
/// # Errors
/// A text that says what to write.
pub fn check_method(text: &str) -> Read<()> {
    if METHODS.contains(&text) {
        return Ok(());
    }
    let hint = hint(text, &METHODS);
    Err(format!("unknown method \"{text}\"; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_show_in_their_largest_unit() {
        let cases = [
            (0, "0ms"),
            (250, "250ms"),
            (1_000, "1s"),
            (90_000, "90s"),
            (120_000, "2m"),
            (43_200_000, "12h"),
        ];
        for (ms, shown) in cases {
            assert_eq!(show(Duration::from_millis(ms)), shown);
        }
    }
}
