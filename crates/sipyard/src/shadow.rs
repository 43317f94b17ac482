//! `sipyard shadow`: what a node of a configuration would have done with captured traffic.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::File,
    io::{self, IsTerminal, Write},
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use capture::{Rest, datagrams};
use clap::Args;
use report::Table;
use serde_json::json;
use settings::refuse;
use shadow::{Difference, History, Outcome, edges, quantile, replay};

use crate::config;

/// Show what a node of a configuration would have done with captured traffic
#[derive(Args)]
#[command(after_help = "Examples:
  tcpdump -i any -s 0 -w edge.pcap udp          # as root, beside the balancer that runs today
  sipyard shadow --config new.toml edge.pcap
  sipyard shadow --config new.toml --edge 192.0.2.10 --differences 20 edge.pcap
  sipyard shadow --config new.toml --json edge.pcap | jq .servers

The real node runs on virtual time. Callers send what they sent, when they did. Servers take as long
as the capture shows of idle servers, one request after the other. Callees ring and hang up as they
did. Nobody is asked for a password, and no server is probed.
Exit code: 0 if something was replayed, 2 if not.")]
pub(crate) struct Shadow {
    /// The configuration to try
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
    /// The capture, as pcap or pcapng
    #[arg(value_name = "CAPTURE")]
    capture: PathBuf,
    /// Address of the balancer in the capture [default: who passes most requests on]
    #[arg(long, value_name = "IP[:PORT]", value_parser = edge)]
    edge: Vec<(IpAddr, Option<u16>)>,
    /// Show so many decisions that differ, each with what the node saw
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    differences: usize,
    /// Draws the servers' times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the results for programs
    #[arg(long)]
    json: bool,
}

fn edge(text: &str) -> Result<(IpAddr, Option<u16>), String> {
    if let Ok(ip) = text.parse() {
        return Ok((ip, None));
    }
    let address: Result<SocketAddr, _> = text.parse();
    let address = address.map_err(|_| format!("{text} is neither IP nor IP:PORT"))?;
    Ok((address.ip(), Some(address.port())))
}

/// What was replayed, and how long that took.
struct Done {
    edges: Vec<SocketAddr>,
    messages: u64,
    left_out: u64,
    rest: Rest,
    outcome: Outcome,
    took: Duration,
}

impl Shadow {
    pub(crate) fn run(self) -> ExitCode {
        let configuration = match config::load(&self.config) {
            Ok(configuration) => configuration,
            Err(problems) => return refuse(problems),
        };
        match self.shadow(configuration.node) {
            Ok(done) => {
                let text = match self.json {
                    true => json(&done, self.differences),
                    false => plain(&done, self.differences),
                };
                // A reader that has gone away wants no more lines.
                let _ = writeln!(io::stdout(), "{text}");
                ExitCode::SUCCESS
            }
            Err(problem) => refuse([problem]),
        }
    }

    fn shadow(&self, config: node::Config) -> Result<Done, String> {
        #[expect(clippy::disallowed_methods, reason = "says how fast the replay was")]
        let begun = Instant::now();
        let edges = self.edges()?;
        let any_port = self.edge.iter().any(|(_, port)| port.is_none());
        let mut history = History::new(edges.clone(), any_port);
        let rest = datagrams(self.open()?, |datagram| {
            history.take(&datagram);
            true
        });
        let rest = rest.map_err(|error| self.problem(&error.to_string()))?;
        if history.calls() == 0 {
            return Err(self.problem(
                "nobody sends the balancer a request over UDP that begins something: name it by --edge",
            ));
        }
        let total = history.calls();
        let shows = io::stderr().is_terminal();
        let outcome = replay(&history, config, self.seed, |calls| {
            if shows {
                let _ = write!(io::stderr(), "\rreplayed {calls} of {total} calls ");
            }
        });
        if shows {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        let outcome = outcome.map_err(|error| error.to_string())?;
        Ok(Done {
            edges,
            messages: history.taken.messages,
            left_out: history.taken.left_out,
            rest,
            outcome,
            took: begun.elapsed(),
        })
    }

    /// The balancer's addresses: those of the option, or those that the capture shows.
    fn edges(&self) -> Result<Vec<SocketAddr>, String> {
        if !self.edge.is_empty() {
            let given = self
                .edge
                .iter()
                .map(|(ip, port)| SocketAddr::new(*ip, port.unwrap_or(0)));
            return Ok(given.collect());
        }
        let mut search = edges();
        let read = datagrams(self.open()?, |datagram| {
            search.take(datagram.source, datagram.destination, datagram.payload)
        });
        read.map_err(|error| self.problem(&error.to_string()))?;
        let found = search.found();
        match found.is_empty() {
            true => {
                Err(self.problem("nobody passes requests on over UDP: name the balancer by --edge"))
            }
            false => Ok(found),
        }
    }

    fn open(&self) -> Result<File, String> {
        File::open(&self.capture).map_err(|error| self.problem(&error.to_string()))
    }

    fn problem(&self, problem: &str) -> String {
        format!("{}: {problem}", self.capture.display())
    }
}

/// Appends a line; a text has no other outcome.
macro_rules! line {
    ($out:expr, $($text:tt)*) => {
        writeln!($out, $($text)*).expect("a text takes all")
    };
}

fn plain(done: &Done, differences: usize) -> String {
    let outcome = &done.outcome;
    let mut out = String::new();
    let edges: Vec<String> = done.edges.iter().map(ToString::to_string).collect();
    line!(
        out,
        "balancer {}: {} messages, {} calls in {:.1} s; replayed in {:.2} s, {:.0} calls/s",
        edges.join(", "),
        done.messages,
        outcome.calls,
        outcome.span.as_secs_f64(),
        done.took.as_secs_f64(),
        outcome.calls as f64 / done.took.as_secs_f64()
    );
    for (count, what) in [
        (done.rest.tcp, "packets of TCP were left out"),
        (done.rest.cut, "packets are cut: capture with tcpdump -s 0"),
        (done.rest.damaged, "places of the capture can't be read"),
        (done.left_out, "calls beyond the limit were left out"),
    ] {
        if count > 0 {
            line!(out, "{count} {what}");
        }
    }
    decisions(outcome, &mut out);
    out.push_str(&tables(outcome));
    for it in outcome.differences.iter().take(differences) {
        line!(out, "{}", difference(it));
    }
    out
}

fn decisions(outcome: &Outcome, out: &mut String) {
    let mut put = |count: usize, what: &str| {
        let share = 100.0 * count as f64 / outcome.calls.max(1) as f64;
        line!(out, "{count:>9}  {share:5.1} %  {what}");
    };
    put(outcome.calls, "decisions");
    put(outcome.same, "as taken");
    put(outcome.other, "otherwise");
    for (why, count) in &outcome.reasons {
        put(*count, &format!("  {why}"));
    }
    if outcome.only_would > 0 {
        put(
            outcome.only_would,
            "placed by the node, but not in the capture",
        );
    }
    for (status, count) in &outcome.refused {
        match status {
            0 => put(*count, "not answered"),
            status => {
                let reason = sip::reason_phrase(*status);
                put(*count, &format!("answered {status} {reason} by the node"));
            }
        }
    }
    if outcome.refused_but_taken > 0 {
        put(
            outcome.refused_but_taken,
            "  of those were placed in the capture: see the routes",
        );
    }
}

fn difference(it: &Difference) -> String {
    let ledger = |ledger: Option<(u64, u64, u64)>| match ledger {
        Some((calls, transactions, work)) => {
            let work = work as f64 / 1e3;
            format!("{calls} calls, {transactions} transactions, work {work:.2}")
        }
        None => "in no pool".to_owned(),
    };
    format!(
        "{:.3} s {}: on {} ({}); would be on {} ({}): {}",
        it.at.as_secs_f64(),
        it.call_id.escape_debug(),
        it.taken,
        ledger(it.taken_ledger),
        it.would,
        ledger(it.would_ledger),
        it.why
    )
}

fn tables(outcome: &Outcome) -> String {
    let columns = [
        "server",
        "calls taken",
        "would",
        "busiest second taken",
        "would",
        "busy",
    ];
    let mut servers = Table::new("spread", columns);
    for (address, row) in &outcome.servers {
        servers.push([
            address.to_string(),
            row.taken.to_string(),
            row.would.to_string(),
            row.taken_peak.to_string(),
            row.would_peak.to_string(),
            format!("{:.1} %", row.busy_per_mille as f64 / 10.0),
        ]);
    }
    let mut times = Table::new("first answer past 100, ms", ["", "taken", "would"]);
    for (name, share) in QUANTILES {
        let ms = |times: &[Duration]| {
            let time = quantile(times, share);
            time.map_or_else(String::new, |time| {
                format!("{:.2}", time.as_secs_f64() * 1e3)
            })
        };
        times.push([
            name.to_owned(),
            ms(&outcome.taken_times),
            ms(&outcome.would_times),
        ]);
    }
    let mut measured = Table::new(
        "servers' times measured",
        ["method", "of idle servers", "all"],
    );
    for (method, idle, all) in &outcome.measured {
        measured.push([method.clone(), idle.to_string(), all.to_string()]);
    }
    format!(
        "\n{}\n{}\n{}\n",
        servers.text(),
        times.text(),
        measured.text()
    )
}

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

fn json(done: &Done, differences: usize) -> String {
    let outcome = &done.outcome;
    let servers: Vec<_> = outcome
        .servers
        .iter()
        .map(|(address, row)| {
            json!({
                "server": address, "calls_taken": row.taken, "calls_would": row.would,
                "busiest_second_taken": row.taken_peak, "busiest_second_would": row.would_peak,
                "busy": row.busy_per_mille as f64 / 1e3,
            })
        })
        .collect();
    let times = |times: &[Duration]| -> BTreeMap<&str, Option<f64>> {
        let ms = |share| quantile(times, share).map(|time| time.as_secs_f64() * 1e3);
        QUANTILES
            .iter()
            .map(|(name, share)| (*name, ms(*share)))
            .collect()
    };
    let shown: Vec<_> = outcome
        .differences
        .iter()
        .take(differences)
        .map(|it| {
            json!({
                "call_id": it.call_id, "at_s": it.at.as_secs_f64(), "taken": it.taken, "would": it.would,
                "why": it.why,
            })
        })
        .collect();
    let refused: BTreeMap<String, usize> = outcome
        .refused
        .iter()
        .map(|(status, count)| (status.to_string(), *count))
        .collect();
    let all = json!({
        "edges": done.edges, "messages": done.messages, "calls": outcome.calls,
        "calls_left_out": done.left_out, "tcp_packets_left_out": done.rest.tcp,
        "took_s": done.took.as_secs_f64(), "span_s": outcome.span.as_secs_f64(), "same": outcome.same,
        "other": outcome.other, "only_would": outcome.only_would, "reasons": outcome.reasons,
        "answered_by_node": refused, "answered_by_node_but_taken": outcome.refused_but_taken,
        "servers": servers, "first_answer_ms_taken": times(&outcome.taken_times),
        "first_answer_ms_would": times(&outcome.would_times), "differences": shown,
    });
    serde_json::to_string_pretty(&all).unwrap_or_default()
}
