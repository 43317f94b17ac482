//! Reads the arguments of commands, and reports wrong ones.

use std::{
    fmt::Display,
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use crate::value::{fraction, time};

/// Reads a time such as `20s`, `1.45ms` or `5m`, longer than zero.
///
/// # Errors
/// A text that says what was expected.
pub fn duration(text: &str) -> Result<Duration, String> {
    match time(text) {
        Some(Duration::ZERO) => Err("the time must be longer than zero".to_owned()),
        Some(duration) => Ok(duration),
        None => Err(format!(
            "\"{text}\" is not a time: write 20s, 1.45ms, 800us or 5m"
        )),
    }
}

/// Reads a share of a whole: `20%` or `0.2`.
///
/// # Errors
/// A text that says what was expected.
pub fn share(text: &str) -> Result<f64, String> {
    let share = fraction(text).filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("\"{text}\" is not a share: write 5% or 0.05"))
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

    /// Four readers of times each took other texts: `load` took 1.5s, `plan` and a configuration did not.
    #[test]
    fn arguments_are_times_and_shares() {
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7_200)));
        for text in ["", "5", "0s", "-1s"] {
            assert!(duration(text).is_err(), "{text}");
        }
        for (text, expected) in [("0.2", 0.2), ("20%", 0.2), ("100 %", 1.0), ("0", 0.0)] {
            assert_eq!(share(text), Ok(expected), "{text}");
        }
        for text in ["", "x", "1.2", "101%", "-1%", "%", "NaN"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
