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

/// Reads one of these words; it stands for what is beside it. `what` says in messages what the words name.
pub fn word<T: Copy>(what: &str, words: &[(&str, T)]) -> impl Fn(&Value<'_>) -> Read<T> {
    move |value| choice(what, text(value)?, words)
}

/// Returns what `given` stands for among these words. `what` says in the message what the words name.
///
/// # Errors
/// A text that says what to write.
pub fn choice<T: Copy>(what: &str, given: &str, words: &[(&str, T)]) -> Read<T> {
    let found = words.iter().find(|(word, _)| *word == given);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("unknown {what} \"{given}\"; {}", hint(given, &known))
    })
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

/// Reads a duration within `range`.
pub fn duration(range: RangeInclusive<Duration>) -> impl Fn(&Value<'_>) -> Read<Duration> {
    move |value| {
        let advice = "a duration in quotes, such as \"250ms\", \"2s\", \"5m\" or \"12h\"";
        let text = value.as_str().ok_or_else(|| expected(advice, value))?;
        let duration = time(text).ok_or_else(|| format!("expected {advice}, found \"{text}\""))?;
        if range.contains(&duration) {
            return Ok(duration);
        }
        let (low, high) = (show(*range.start()), show(*range.end()));
        Err(format!(
            "{text} is out of range: write a value from {low} to {high}"
        ))
    }
}

/// Reads a number, with or without a fraction, and its unit: us, ms, s, m or h. None: it is not such a text.
#[must_use]
pub fn time(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(unit_at);
    let unit_s = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit_s).ok()
}

/// Reads a number, in percent or not: `20%` or `0.2`. None: it is not such a text.
#[must_use]
pub fn fraction(text: &str) -> Option<f64> {
    match text.strip_suffix('%') {
        Some(percent) => Some(percent.trim().parse::<f64>().ok()? / 100.0),
        None => text.parse().ok(),
    }
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
    fn times_have_fractions_and_units() {
        let us = |number| Some(Duration::from_micros(number));
        let cases = [
            ("1.45ms", us(1_450)),
            ("100us", us(100)),
            ("250ms", us(250_000)),
            ("20s", us(20_000_000)),
            ("1.5m", us(90_000_000)),
            ("12h", us(43_200_000_000)),
            ("0s", us(0)),
        ];
        for (text, expected) in cases {
            assert_eq!(time(text), expected, "{text}");
        }
        let bad = [
            "", "20", "s", "-1s", "1 s", "1.2.3s", "nans", "infs", "1e99h", "5d",
        ];
        for text in bad {
            assert_eq!(time(text), None, "{text}");
        }
        assert_eq!(time(&format!("{}h", "9".repeat(20))), None);
    }

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
