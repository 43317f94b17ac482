//! Reads a node's counters from its /metrics.

use std::collections::BTreeMap;

/// The counters of a node since its start.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Scrape {
    /// Time since the start, in seconds.
    pub(super) uptime_s: f64,
    /// Processor seconds of all workers.
    pub(super) processor_s: f64,
    pub(super) workers: u32,
    /// Requests that were retransmitted to the node.
    pub(super) retransmissions: f64,
    pub(super) answered: BTreeMap<Exchange, Answered>,
}

/// Requests of a method to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Exchange {
    pub(super) pool: String,
    pub(super) method: String,
    pub(super) server: String,
}

/// Requests that got a response, and the sum of the seconds to the first response.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Answered {
    pub(super) count: f64,
    pub(super) seconds: f64,
}

impl Scrape {
    /// Reads the OpenMetrics text.
    ///
    /// # Errors
    /// If the text lacks a value that a model needs.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut scrape = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some((name, labels, value)) = sample(line) {
                scrape.take(name, &labels, value);
            }
        }
        if scrape.workers == 0 || scrape.uptime_s == 0.0 {
            return Err(
                "/metrics lacks the workers' processor time: check that it belongs to a Sipyard \
                 node of this version"
                    .to_owned(),
            );
        }
        Ok(scrape)
    }

    fn take(&mut self, name: &str, labels: &BTreeMap<&str, &str>, value: f64) {
        match name {
            "sipyard_uptime_seconds" => self.uptime_s = value,
            "sipyard_worker_cpu_seconds_total" => {
                self.processor_s += value;
                self.workers += 1;
            }
            "sipyard_retransmission_total" => self.retransmissions += value,
            "sipyard_response_seconds_count" => self.exchange(labels).count += value,
            "sipyard_response_seconds_sum" => self.exchange(labels).seconds += value,
            _ => {}
        }
    }

    fn exchange(&mut self, labels: &BTreeMap<&str, &str>) -> &mut Answered {
        let label = |name| labels.get(name).copied().unwrap_or_default().to_owned();
        let exchange = Exchange {
            pool: label("pool"),
            method: label("method"),
            server: label("server"),
        };
        self.answered.entry(exchange).or_default()
    }
}

/// The name, the labels and the value of a line.
fn sample(line: &str) -> Option<(&str, BTreeMap<&str, &str>, f64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let labels = labels.strip_suffix('}')?.split_inclusive("\",");
    let labels = labels.filter_map(|label| {
        let (name, value) = label.split_once("=\"")?;
        Some((name, value.trim_end_matches(',').trim_end_matches('"')))
    });
    Some((name, labels.collect(), value.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# TYPE sipyard_uptime_seconds gauge\n\
        sipyard_uptime_seconds 12.5\n\
        sipyard_worker_cpu_seconds_total{worker=\"0\"} 0.5\n\
        sipyard_worker_cpu_seconds_total{worker=\"1\"} 0.25\n\
        sipyard_retransmission_total{worker=\"0\"} 3\n\
        sipyard_response_seconds_sum{pool=\"a,b\",server=\"127.0.0.1:9\",method=\"INVITE\"} 0.03\n\
        sipyard_response_seconds_count{pool=\"a,b\",server=\"127.0.0.1:9\",method=\"INVITE\"} 15\n\
        sipyard_response_seconds_bucket{le=\"0.001\",pool=\"a,b\"} 15 # {call_id=\"a\"} 0.0005 1.5\n\
        # EOF\n";

    #[test]
    fn counters_are_read() {
        let scrape = Scrape::read(TEXT).unwrap();
        assert_eq!((scrape.uptime_s, scrape.processor_s), (12.5, 0.75));
        assert_eq!((scrape.workers, scrape.retransmissions), (2, 3.0));
        let (exchange, answered) = scrape.answered.first_key_value().unwrap();
        let words = [&*exchange.pool, &*exchange.method, &*exchange.server];
        assert_eq!(words, ["a,b", "INVITE", "127.0.0.1:9"]);
        assert_eq!((answered.count, answered.seconds), (15.0, 0.03));
    }

    #[test]
    fn somebody_elses_metrics_are_refused() {
        for text in ["", "process_cpu_seconds_total 3\n", "{ } } {\" x\n"] {
            assert!(Scrape::read(text).unwrap_err().contains("Sipyard node"));
        }
    }
}
