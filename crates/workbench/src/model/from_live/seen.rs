//! What happened at a node between the first and the last reading.

use std::collections::BTreeMap;

use capture::Sample;
use serde::Serialize;

use super::scrape::{Answered, Exchange, Scrape};

/// Fewer calls than this give poor estimates.
const CALLS_FEW: f64 = 100.0;

/// Workers that are busy for less than this share of the time sleep between two messages.
const BUSY_LITTLE: f64 = 0.1;

/// At a server that is busier than this, requests wait.
const ASKED_MUCH: f64 = 0.3;

/// A node and its servers, between two readings.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Seen {
    pub(super) seconds: f64,
    /// INVITEs; if the node saw none, all requests.
    pub(super) calls: f64,
    pub(super) workers: u32,
    /// The share of time that a worker is busy.
    pub(super) busy: f64,
    /// The node's processor time for a request and all messages that belong to it.
    pub(super) request: Figure,
    pub(super) kinds: Vec<Kind>,
    pub(super) warnings: Vec<String>,
}

/// Requests of a method to the servers of a pool.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Kind {
    pub(super) pool: String,
    pub(super) method: String,
    /// Servers that answered at least one.
    pub(super) servers: u32,
    pub(super) per_call: f64,
    /// The time to their first responses.
    pub(super) response: Figure,
}

/// A mean, and half the width of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Figure {
    pub(super) mean_ms: f64,
    pub(super) ci95_ms: Option<f64>,
}

/// For a pool and a method: how many servers answered, and their counters.
type ByKind = BTreeMap<(String, String), (u32, Answered)>;

impl Seen {
    /// Calculates what happened between these readings.
    ///
    /// # Errors
    /// If no request was answered.
    pub(super) fn between(looks: &[Scrape]) -> Result<Self, String> {
        let spans: Vec<Scrape> = looks
            .windows(2)
            .map(|pair| pair[1].since(&pair[0]))
            .collect();
        let whole = match looks {
            [first, .., last] => last.since(first),
            _ => Scrape::default(),
        };
        let kinds = by_kind(&whole);
        let requests = whole.requests();
        let invites: f64 = kinds
            .iter()
            .filter(|((_, method), _)| method == "INVITE")
            .map(|(_, (_, answered))| answered.count)
            .sum();
        let calls = if invites > 0.0 { invites } else { requests };
        if calls == 0.0 {
            return Err(
                "no request was answered during this time: watch for longer (--during), or make \
                 calls"
                    .to_owned(),
            );
        }
        let request = Figure::of(&whole, &spans, |span| (span.processor_s, span.requests()));
        let kinds = kinds.into_iter().map(|((pool, method), (servers, all))| {
            let ratio = |span: &Scrape| {
                let of = by_kind(span);
                let answered = of.get(&(pool.clone(), method.clone()));
                answered.map_or((0.0, 0.0), |(_, all)| (all.seconds, all.count))
            };
            Kind {
                servers,
                per_call: all.count / calls,
                response: Figure::of(&whole, &spans, ratio),
                pool,
                method,
            }
        });
        let mut seen = Self {
            seconds: whole.uptime_s,
            calls,
            workers: whole.workers,
            busy: whole.processor_s / (whole.uptime_s * f64::from(whole.workers)),
            request,
            kinds: kinds.collect(),
            warnings: Vec::new(),
        };
        seen.warnings = seen.doubts(whole.retransmissions);
        Ok(seen)
    }

    /// The pools, each with its servers and their work for a call, in milliseconds.
    pub(super) fn pools(&self) -> BTreeMap<&str, (u32, f64)> {
        let mut pools = BTreeMap::new();
        for kind in &self.kinds {
            let (servers, demand_ms) = pools.entry(kind.pool.as_str()).or_insert((0, 0.0));
            *servers = kind.servers.max(*servers);
            *demand_ms += kind.per_call * kind.response.mean_ms;
        }
        pools
    }

    /// The node's processor time for a call, in milliseconds.
    pub(super) fn node_ms(&self) -> f64 {
        let requests: f64 = self.kinds.iter().map(|kind| kind.per_call).sum();
        requests * self.request.mean_ms
    }

    fn doubts(&self, retransmissions: f64) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.calls < CALLS_FEW {
            doubts.push(format!(
                "{} calls are too few for a good estimate: watch for longer (--during)",
                self.calls
            ));
        }
        if self.busy < BUSY_LITTLE {
            doubts.push(format!(
                "the workers were busy {:.1} % of the time: their processor time includes wake-ups \
                 that busy workers don't need, so the node carries more than this model says; \
                 repeat this while more calls run",
                100.0 * self.busy
            ));
        }
        if retransmissions > 0.0 {
            doubts.push(format!(
                "{retransmissions} requests were retransmitted: servers were overloaded or packets \
                 were lost"
            ));
        }
        for (pool, (servers, demand_ms)) in self.pools() {
            let asked = self.calls / self.seconds * demand_ms / 1e3 / f64::from(servers);
            if asked > ASKED_MUCH {
                doubts.push(format!(
                    "pool {pool}: {asked:.1} requests are at a server at a time, so response times \
                     include waiting, unless a server works on many at once; repeat this while \
                     fewer calls run, or give --server-cores"
                ));
            }
        }
        doubts
    }
}

impl Figure {
    /// Seconds per event. The mean is over the whole time; the interval comes from the spans.
    fn of(whole: &Scrape, spans: &[Scrape], ratio: impl Fn(&Scrape) -> (f64, f64)) -> Self {
        let mut sample = Sample::default();
        for (seconds, events) in spans.iter().map(&ratio).filter(|ratio| ratio.1 > 0.0) {
            sample.add(1e3 * seconds / events);
        }
        let (seconds, events) = ratio(whole);
        Self {
            mean_ms: 1e3 * seconds / events,
            ci95_ms: sample.ci95(),
        }
    }
}

impl Scrape {
    fn since(&self, earlier: &Self) -> Self {
        let answered = self.answered.iter().map(|(exchange, now)| {
            let before = earlier.answered.get(exchange).copied().unwrap_or_default();
            let answered = Answered {
                count: now.count - before.count,
                seconds: now.seconds - before.seconds,
            };
            (exchange.clone(), answered)
        });
        Self {
            uptime_s: self.uptime_s - earlier.uptime_s,
            processor_s: self.processor_s - earlier.processor_s,
            workers: self.workers,
            retransmissions: self.retransmissions - earlier.retransmissions,
            answered: answered.collect(),
        }
    }

    fn requests(&self) -> f64 {
        self.answered.values().map(|answered| answered.count).sum()
    }
}

fn by_kind(span: &Scrape) -> ByKind {
    let mut kinds = ByKind::new();
    for (Exchange { pool, method, .. }, answered) in &span.answered {
        if answered.count > 0.0 {
            let (servers, all) = kinds.entry((pool.clone(), method.clone())).or_default();
            *servers += 1;
            all.count += answered.count;
            all.seconds += answered.seconds;
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node at a second, after this many calls of an INVITE and a BYE on two servers.
    fn look(second: u32, calls: f64, answer_s: f64) -> Scrape {
        let mut scrape = Scrape {
            uptime_s: f64::from(second),
            processor_s: 0.002 * calls,
            workers: 2,
            ..Scrape::default()
        };
        for (method, seconds) in [("INVITE", answer_s), ("BYE", 0.001)] {
            for server in ["a", "b"] {
                let exchange = Exchange {
                    pool: "app".to_owned(),
                    method: method.to_owned(),
                    server: server.to_owned(),
                };
                let count = calls / 2.0;
                let seconds = seconds * count;
                scrape
                    .answered
                    .insert(exchange, Answered { count, seconds });
            }
        }
        scrape
    }

    #[test]
    fn a_call_is_what_lies_between_the_looks() {
        let looks: Vec<Scrape> = (1..=5)
            .map(|second| look(second, 100.0 * f64::from(second), 0.002))
            .collect();
        let seen = Seen::between(&looks).unwrap();
        assert_eq!((seen.calls, seen.seconds, seen.workers), (400.0, 4.0, 2));
        assert!((seen.busy - 0.1).abs() < 1e-9);
        assert!((seen.node_ms() - 2.0).abs() < 1e-9);
        let (servers, demand_ms) = seen.pools()["app"];
        assert_eq!(servers, 2);
        assert!((demand_ms - 3.0).abs() < 1e-9);
        assert!(seen.request.ci95_ms.unwrap() < 1e-9);
        assert!(seen.warnings.is_empty(), "{:?}", seen.warnings);
    }

    #[test]
    fn what_a_node_cannot_tell_is_warned_of() {
        let seen = Seen::between(&[look(1, 0.0, 0.5), look(2, 10.0, 0.5)]).unwrap();
        let warnings = seen.warnings.join("\n");
        for words in [
            "10 calls are too few",
            "busy 1.0 %",
            "pool app: 2.5 requests",
        ] {
            assert!(warnings.contains(words), "{words} is not in {warnings}");
        }
    }

    #[test]
    fn a_silent_node_has_no_model() {
        let problem = Seen::between(&[look(1, 5.0, 0.1), look(2, 5.0, 0.1)]).unwrap_err();
        assert!(problem.contains("no request was answered"), "{problem}");
    }
}
