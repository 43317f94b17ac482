//! Numbers and times as people read them.

use std::time::Duration;

/// Writes milliseconds with three digits.
#[must_use]
pub fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    match ms {
        ..9.995 => format!("{ms:.2}"),
        ..99.95 => format!("{ms:.1}"),
        _ => format!("{ms:.0}"),
    }
}

/// Writes a time as [`ms`] does, and a dash where there is none.
#[must_use]
pub fn ms_or_dash(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".to_owned(), ms)
}

/// Writes a count with separated thousands.
#[must_use]
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a part of a whole in percent.
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let check = |us, expected: &str| assert_eq!(ms(Duration::from_micros(us)), expected);
        check(0, "0.00");
        check(1_994, "1.99");
        check(9_996, "10.0");
        check(99_960, "100");
        check(1_234_567, "1235");
    }

    #[test]
    fn thousands_stand_apart() {
        let check = |number, expected: &str| assert_eq!(count(number), expected);
        check(0, "0");
        check(999, "999");
        check(1_000, "1,000");
        check(1_234_567, "1,234,567");
    }
}
