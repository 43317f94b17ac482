//! Reads values from the command line.

use std::{
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    time::Duration,
};

use load::{Bursts, Law, Ramp, Service, Stall, Stream, Transport};
use settings::{duration, value};

/// A time such as `20s`, `1.45ms` or `800us`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let time = value::time(text);
    time.ok_or_else(|| format!("\"{text}\" is not a time: write 20s, 1.45ms, 800us or 5m"))
}

/// A fixed or random time: `20s`, `exponential:20s`, `normal:20s,10s` or `log-normal:20s,10s`.
pub(super) fn law(text: &str) -> Result<Law, String> {
    let Some((name, times)) = text.split_once(':') else {
        return Ok(Law::Constant(time(text)?));
    };
    let two = || {
        let (mean, deviation) = times
            .split_once(',')
            .ok_or_else(|| format!("{name} takes a mean and a deviation: {name}:20s,10s"))?;
        Ok::<_, String>((time(mean)?, time(deviation)?))
    };
    match name {
        "exponential" => Ok(Law::Exponential(time(times)?)),
        "normal" => two().map(|(mean, deviation)| Law::Normal { mean, deviation }),
        "log-normal" => two().map(|(mean, deviation)| Law::LogNormal { mean, deviation }),
        _ => Err(format!(
            "\"{name}\" is not a distribution: write 20s for a constant time, or exponential:20s, \
             normal:20s,10s or log-normal:20s,10s"
        )),
    }
}

/// A relative step: `25%` or `0.25`.
pub(super) fn growth(text: &str) -> Result<f64, String> {
    match value::fraction(text) {
        Some(growth) if growth > 0.0 && growth <= 100.0 => Ok(growth),
        _ => Err(format!("\"{text}\" is not a step: write 25% or 0.25")),
    }
}

/// A positive rate per second.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && rate <= 1e7 => Ok(rate),
        _ => Err(format!(
            "\"{text}\" is not a rate: write a number per second, such as 1000"
        )),
    }
}

/// A ramp such as `100..2000:100/10s`: from, to, step and how long each rate is held.
pub(super) fn ramp(text: &str) -> Result<Ramp, String> {
    let parse = || {
        let (range, steps) = text.split_once(':')?;
        let (from, to) = range.split_once("..")?;
        let (step, every) = steps.split_once('/')?;
        Some(Ramp {
            from: rate(from).ok()?,
            to: rate(to).ok()?,
            step: rate(step).ok()?,
            every: duration(every).ok()?,
        })
    };
    parse().ok_or_else(|| {
        format!(
            "\"{text}\" is not a ramp: write FROM..TO:STEP/TIME, such as 100..2000:100/10s for 100 \
             calls/s more every 10 s"
        )
    })
}

/// What carries messages: `udp`, `tcp`, `tls`, `ws` or `wss`.
pub(super) fn transport(text: &str) -> Result<Transport, String> {
    let mut all = Transport::ALL.into_iter();
    let found = all.find(|transport| transport.label() == text);
    found.ok_or_else(|| format!("\"{text}\" is none of udp, tcp, tls, ws, wss"))
}

/// The spacing of arrivals: `even`, `poisson` or `bursty:RATIO,CALM,BURST`.
pub(super) fn stream(text: &str) -> Result<Stream, String> {
    let bursty = |parameters: &str| {
        let mut parts = parameters.split(',');
        let bursts = Bursts {
            ratio: parts.next()?.parse().ok().filter(|ratio| *ratio >= 1.0)?,
            calm: duration(parts.next()?).ok()?,
            burst: duration(parts.next()?).ok()?,
        };
        parts.next().is_none().then_some(Stream::Bursty(bursts))
    };
    let stream = match text {
        "even" => Some(Stream::Even),
        "poisson" => Some(Stream::Poisson),
        _ => text.strip_prefix("bursty:").and_then(bursty),
    };
    stream.ok_or_else(|| {
        format!(
            "\"{text}\" is not a spacing: write even, poisson, or bursty:RATIO,CALM,BURST such as \
             bursty:10,9s,1s for bursts of 1 s on average at ten times the rate of the calm"
        )
    })
}

/// A stall such as `calls:950:1s` or `every:5s:1s`, before each server gets its own.
pub(super) fn stall(text: &str) -> Result<Stall, String> {
    let parse = || {
        let (kind, rest) = text.split_once(':')?;
        let (every, lasting) = rest.split_once(':')?;
        let lasting = duration(lasting).ok()?;
        match kind {
            "calls" => {
                let every = every.parse().ok().filter(|every| *every > 0)?;
                Some(Stall::Calls {
                    first: every,
                    every,
                    lasting,
                })
            }
            "every" => {
                let every = duration(every).ok()?;
                Some(Stall::Periodic {
                    first: every,
                    every,
                    lasting,
                })
            }
            _ => None,
        }
    };
    parse().ok_or_else(|| {
        format!(
            "\"{text}\" is not a stall: write calls:950:1s for 1 s after every 950 calls, or \
             every:5s:1s for 1 s out of every 5 s"
        )
    })
}

/// The distribution of service times: `constant`, `exponential` or `log-normal:VARIATION`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    Constant,
    Exponential,
    /// The standard deviation is this many times the mean.
    LogNormal(f64),
}

impl Shape {
    fn law(self, mean: Duration) -> Law {
        match self {
            Self::Constant => Law::Constant(mean),
            Self::Exponential => Law::Exponential(mean),
            Self::LogNormal(variation) => Law::LogNormal {
                mean,
                deviation: mean.mul_f64(variation),
            },
        }
    }
}

/// A [`Shape`].
pub(super) fn shape(text: &str) -> Result<Shape, String> {
    let variation = |text: &str| text.parse().ok().filter(|variation| *variation >= 0.0);
    let shape = match text {
        "constant" => Some(Shape::Constant),
        "exponential" => Some(Shape::Exponential),
        _ => text
            .strip_prefix("log-normal:")
            .and_then(variation)
            .map(Shape::LogNormal),
    };
    shape.ok_or_else(|| {
        format!(
            "\"{text}\" is not a distribution: write constant, exponential, or log-normal:1.5 for \
             a deviation of 1.5 times the mean"
        )
    })
}

/// Mean service times by method.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Means {
    invite: Duration,
    bye: Duration,
    other: Duration,
}

impl Means {
    pub(super) fn service(self, shape: Shape) -> Service {
        Service {
            invite: shape.law(self.invite),
            bye: shape.law(self.bye),
            other: shape.law(self.other),
        }
    }
}

/// [`Means`], such as `INVITE=1.45ms,BYE=0.83ms,other=100us`.
pub(super) fn means(text: &str) -> Result<Means, String> {
    let mut means = Means::default();
    for part in text.split(',') {
        let (method, text) = part
            .split_once('=')
            .ok_or_else(|| format!("\"{part}\" is not METHOD=TIME, such as INVITE=1.45ms"))?;
        let mean = match method {
            "INVITE" => &mut means.invite,
            "BYE" => &mut means.bye,
            "other" => &mut means.other,
            _ => {
                return Err(format!(
                    "\"{method}\" is not a method: write INVITE, BYE or other"
                ));
            }
        };
        *mean = time(text)?;
    }
    Ok(means)
}

/// An address or a host's name. Without a port it gets SIP's default port.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    const SIP: u16 = 5060;
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, SIP));
    }
    let with_port = if text.contains(':') {
        text.to_owned()
    } else {
        format!("{text}:{SIP}")
    };
    match with_port.to_socket_addrs() {
        Ok(mut found) => found
            .next()
            .ok_or_else(|| format!("{text} has no address: check the name")),
        Err(error) => Err(format!(
            "{text}: {error}: write an address such as 127.0.0.1:5060"
        )),
    }
}

/// An address of this machine. Without a port it gets a free port.
pub(super) fn own_address(text: &str) -> Result<SocketAddr, String> {
    let ip = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0));
    ip.or_else(|_| text.parse())
        .map_err(|_| format!("\"{text}\" is not an address: write 127.0.0.1 or 127.0.0.1:7000"))
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn check<T: PartialEq + Debug>(
        parse: impl Fn(&str) -> Result<T, String>,
        good: impl IntoIterator<Item = (&'static str, T)>,
        bad: &[&str],
    ) {
        for (text, expected) in good {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        for text in bad {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_and_laws() {
        let us = Duration::from_micros;
        let good = [
            ("20s", 20 * S),
            ("1.45ms", us(1_450)),
            ("800us", us(800)),
            ("0s", Duration::ZERO),
        ];
        let bad = ["", "20", "s", "-1s", "1 s", "nans", "infs", "1e99h"];
        check(time, good, &bad);
        check(duration, [("2m", 120 * S)], &["0s", "x"]);
        let (mean, deviation) = (20 * S, 10 * S);
        let laws = [
            ("20s", Law::Constant(mean)),
            ("exponential:20s", Law::Exponential(mean)),
            ("normal:20s,10s", Law::Normal { mean, deviation }),
            ("log-normal:20s,10s", Law::LogNormal { mean, deviation }),
        ];
        check(law, laws, &["normal:20s", "gamma:20s", ":", "exponential:"]);
    }

    #[test]
    fn steps_and_rates() {
        let steps = [("25%", 0.25), ("200%", 2.0), ("0.1", 0.1)];
        check(growth, steps, &["0%", "-5%", "x", "nan", "inf"]);
        check(
            rate,
            [("1000", 1000.0), ("0.5", 0.5)],
            &["0", "-1", "x", "inf", "nan"],
        );
        let up = Ramp {
            from: 100.0,
            to: 2000.0,
            step: 50.0,
            every: 10 * S,
        };
        let bad = [
            "100..2000",
            "100..2000:0/10s",
            "100..2000:50/0s",
            "a..b:c/d",
        ];
        check(ramp, [("100..2000:50/10s", up)], &bad);
    }

    #[test]
    fn streams_stalls_and_service() {
        let bursts = Bursts {
            ratio: 10.0,
            calm: 9 * S,
            burst: S,
        };
        let good = [
            ("even", Stream::Even),
            ("poisson", Stream::Poisson),
            ("bursty:10,9s,1s", Stream::Bursty(bursts)),
        ];
        check(
            stream,
            good,
            &["bursty", "bursty:0.5,9s,1s", "bursty:10,9s,1s,1s", "odd"],
        );
        for bad in ["calls:0:1s", "calls:950", "every:0s:1s", "each:5s:1s"] {
            assert!(stall(bad).is_err(), "{bad}");
        }
        let by_calls = matches!(
            stall("calls:950:1s"),
            Ok(Stall::Calls { first: 950, every: 950, lasting }) if lasting == S
        );
        let by_time = matches!(
            stall("every:5s:1s"),
            Ok(Stall::Periodic { every, lasting, .. }) if (every, lasting) == (5 * S, S)
        );
        assert!(by_calls && by_time);
        let paper = Means {
            invite: Duration::from_micros(1_450),
            bye: Duration::from_micros(830),
            other: Duration::ZERO,
        };
        check(
            means,
            [("INVITE=1.45ms,BYE=0.83ms", paper)],
            &["INVITE", "ACK=1ms", ""],
        );
        let shapes = [
            ("constant", Shape::Constant),
            ("exponential", Shape::Exponential),
            ("log-normal:1.5", Shape::LogNormal(1.5)),
        ];
        check(shape, shapes, &["log-normal", "log-normal:-1", "normal"]);
    }

    #[test]
    fn addresses() {
        let parse = |text: &str| text.parse().unwrap();
        let good = [
            ("127.0.0.1", parse("127.0.0.1:5060")),
            ("127.0.0.1:5070", parse("127.0.0.1:5070")),
            ("::1", parse("[::1]:5060")),
        ];
        check(address, good, &["", "127.0.0.1:x"]);
        let good = [
            ("127.0.0.2", parse("127.0.0.2:0")),
            ("127.0.0.2:7000", parse("127.0.0.2:7000")),
        ];
        check(own_address, good, &["localhost", ""]);
    }
}
