//! Reads the arguments of commands, and reports wrong ones.

use std::{
    fmt::Display,
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

/// Reads a duration such as `20s` or `5m`, longer than zero.
///
/// # Errors
/// A text that says what was expected.
pub fn duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let unit = units.into_iter().find(|(unit, _)| *unit == digits);
    let number = text[..text.len() - digits.len()].parse::<u32>();
    match (number, unit) {
        (Ok(number), Some((_, ms))) if number > 0 => {
            Ok(Duration::from_millis(u64::from(number) * ms))
        }
        _ => Err("expected a duration such as 20s or 5m".to_owned()),
    }
}

/// Writes every problem to standard error and returns the exit code of a command whose files or
/// arguments have a mistake. Such a command starts and changes nothing.
pub fn refuse(problems: impl IntoIterator<Item = impl Display>) -> ExitCode {
    for problem in problems {
        // With nowhere to say why, the exit code still tells.
        let _ = writeln!(io::stderr(), "{problem}");
    }
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7_200)));
        for text in ["", "5", "s", "0s", "1.5s", "-1s", "5 s", "9999999999s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
