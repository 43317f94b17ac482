//! Reads shares, times and transports from arguments.

use settings::{duration, share};

/// A share above 0.
pub(super) fn some_share(text: &str) -> Result<f64, String> {
    share(text).and_then(|share| match share > 0.0 {
        true => Ok(share),
        false => Err("the share must be above 0".to_owned()),
    })
}

/// The share of time that a node is up: a share, or its mean times up and down, as `720h/4h`.
pub(super) fn uptime(text: &str) -> Result<f64, String> {
    let Some((up, down)) = text.split_once('/') else {
        return share(text);
    };
    let [up, down] = [up, down].map(duration);
    let (up, down) = (up?.as_secs_f64(), down?.as_secs_f64());
    Ok(up / (up + down))
}

/// A number from 0 on.
pub(super) fn amount(text: &str) -> Result<f64, String> {
    let amount = text
        .parse()
        .ok()
        .filter(|amount: &f64| amount.is_finite() && *amount >= 0.0);
    amount.ok_or_else(|| format!("`{text}` is not a number: write one from 0 on"))
}

/// A transport's share of the messages, and the cost of its message in messages of UDP:
/// `tls=30%:2.5`.
pub(super) fn transport(text: &str) -> Result<(String, f64, f64), String> {
    let form = "write NAME=SHARE:COST, as in tls=30%:2.5";
    let (name, rest) = text.split_once('=').ok_or(form)?;
    let (of_messages, cost) = rest.split_once(':').ok_or(form)?;
    Ok((name.to_owned(), share(of_messages)?, amount(cost)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_share_is_above_zero() {
        assert_eq!(some_share("20%"), Ok(0.2));
        assert!(some_share("0").is_err());
    }

    #[test]
    fn uptimes_are_shares_or_times() {
        for (text, expected) in [("99.9%", 0.999), ("99h/1h", 0.99)] {
            let read = uptime(text).unwrap();
            assert!((read - expected).abs() < 1e-12, "{text}: {read}");
        }
        assert!(uptime("99h/x").is_err());
    }

    #[test]
    fn transports_are_read() {
        assert_eq!(transport("tls=30%:2.5"), Ok(("tls".to_owned(), 0.3, 2.5)));
        assert!(transport("tls=30%").is_err());
    }
}
