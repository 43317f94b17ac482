//! SIPp as callers and as servers, and what it counts.

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use tempfile::tempdir;

use crate::{
    common::{PATIENCE, free_address},
    process::{Process, within},
};

/// SIPp's own server, which follows no route set.
pub(crate) const DEFAULT_SERVER: &[&str] = &["-sn", "uas"];
/// SIPp's own caller, which follows no route set.
pub(crate) const DEFAULT_CALLER: &[&str] = &["-sn", "uac"];

/// A scenario of ours: a file in `scenarios`.
pub(crate) fn scenario(name: &str) -> [String; 2] {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/scenarios");
    ["-sf".to_owned(), format!("{folder}/{name}.xml")]
}

/// A running SIPp.
struct Sipp {
    process: Process,
}

impl Sipp {
    fn start(arguments: &[&str]) -> Self {
        let common = [
            // Its own 64 KiB are full after 40 ms in which the machine stands still.
            "-buff_size",
            "1048576",
            "-nostdin",
            "-bind_local",
            "-trace_counts",
            "-trace_stat",
            "-stf",
            "stats.csv",
            "-fd",
            "200ms",
            "-trace_err",
            "-error_file",
            "errors.log",
        ];
        let arguments = [arguments, &common].concat();
        Self {
            process: Process::start("sipp", "sip-tester", tempdir().unwrap(), &arguments),
        }
    }

    /// The last line of a table that it writes while it runs, by the names of the columns.
    fn table(&self, path: Option<PathBuf>) -> Vec<(String, String)> {
        let text = path
            .and_then(|path| fs::read_to_string(path).ok())
            .unwrap_or_default();
        // The last line may be half written.
        let whole = &text[..text.rfind('\n').unwrap_or(0)];
        let mut lines = whole.lines();
        match (lines.next(), lines.next_back()) {
            (Some(names), Some(values)) => {
                let names = names.split(';').map(str::to_owned);
                names.zip(values.split(';').map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn stats(&self) -> Vec<(String, String)> {
        self.table(Some(self.process.folder().join("stats.csv")))
    }

    fn counts(&self) -> Vec<(String, String)> {
        let mut files = fs::read_dir(self.process.folder())
            .unwrap()
            .map(|file| file.unwrap().path());
        self.table(files.find(|path| path.to_string_lossy().ends_with("_counts.csv")))
    }
}

impl Drop for Sipp {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let errors =
                fs::read_to_string(self.process.folder().join("errors.log")).unwrap_or_default();
            let shown: String = errors.chars().take(2_000).collect();
            eprintln!("--- SIPp's errors ---\n{shown}\n---");
        }
    }
}

/// A SIPp that answers.
pub(crate) struct Server {
    sipp: Sipp,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl Server {
    /// A server at a free port.
    pub(crate) fn start<S: AsRef<str>>(scenario: &[S]) -> Self {
        Self::start_at(free_address(), scenario)
    }

    /// A server at this address.
    pub(crate) fn start_at<S: AsRef<str>>(address: SocketAddr, scenario: &[S]) -> Self {
        let (ip, port) = (address.ip().to_string(), address.port().to_string());
        let mut arguments: Vec<&str> = scenario.iter().map(AsRef::as_ref).collect();
        arguments.extend(["-i", &ip, "-p", &port]);
        let sipp = Sipp::start(&arguments);
        within(PATIENCE, "SIPp's server", || !sipp.counts().is_empty());
        Self { sipp, address }
    }

    /// So many servers.
    pub(crate) fn start_many<S: AsRef<str>>(number: usize, scenario: &[S]) -> Vec<Self> {
        (0..number).map(|_| Self::start(scenario)).collect()
    }

    /// Ends it without a word.
    pub(crate) fn kill(mut self) {
        self.sipp.process.kill();
    }

    /// Calls that came: INVITEs, without retransmissions and re-INVITEs.
    pub(crate) fn invites(&self) -> u64 {
        *self.received("INVITE").first().unwrap()
    }

    /// BYEs of calls that it has.
    pub(crate) fn byes(&self) -> u64 {
        *self.received("BYE").last().unwrap()
    }

    /// BYEs of calls that it doesn't have, which it answered with 481.
    pub(crate) fn foreign_byes(&self) -> u64 {
        self.received("BYE").iter().sum::<u64>() - self.byes()
    }

    /// ACKs that came.
    pub(crate) fn acks(&self) -> u64 {
        self.received("ACK").iter().sum()
    }

    /// OPTIONS that came.
    pub(crate) fn options(&self) -> u64 {
        self.received("OPTIONS").iter().sum()
    }

    /// How often each place of the scenario that waits for `method` got it.
    fn received(&self, method: &str) -> Vec<u64> {
        let end = format!("_{method}_Recv");
        let counts = self.sipp.counts();
        let received = counts.iter().filter(|(name, _)| name.ends_with(&end));
        received.map(|(_, count)| count.parse().unwrap()).collect()
    }
}

/// The addresses of servers.
pub(crate) fn addresses(servers: &[Server]) -> Vec<SocketAddr> {
    servers.iter().map(|server| server.address).collect()
}

/// A SIPp that calls.
pub(crate) struct Caller {
    sipp: Sipp,
}

/// What became of a caller's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) successful: u64,
    pub(crate) failed: u64,
}

impl Caller {
    /// Calls through `edge`.
    pub(crate) fn start<S: AsRef<str>>(edge: SocketAddr, scenario: &[S], load: &[&str]) -> Self {
        let (edge, from) = (edge.to_string(), free_address());
        let (ip, port) = (from.ip().to_string(), from.port().to_string());
        let mut arguments = vec![edge.as_str()];
        arguments.extend(scenario.iter().map(AsRef::as_ref));
        arguments.extend(["-i", &ip, "-p", &port, "-l", "10000"]);
        arguments.extend(load);
        Self {
            sipp: Sipp::start(&arguments),
        }
    }

    /// Calls that are open or over.
    pub(crate) fn created(&self) -> u64 {
        self.number("TotalCallCreated")
    }

    /// Calls that went wrong so far.
    pub(crate) fn failed(&self) -> u64 {
        self.number("FailedCall(C)")
    }

    /// Waits for its end.
    pub(crate) fn outcome(&mut self, limit: Duration) -> Outcome {
        within(limit, "the end of the calls", || {
            self.sipp.process.ended().is_some()
        });
        Outcome {
            successful: self.number("SuccessfulCall(C)"),
            failed: self.failed(),
        }
    }

    fn number(&self, column: &str) -> u64 {
        let stats = self.sipp.stats();
        let found = stats.iter().find(|(name, _)| name == column);
        found.map_or(0, |(_, value)| value.parse().unwrap())
    }
}

impl Outcome {
    /// Panics unless all of so many calls were carried.
    pub(crate) fn expect_all(self, calls: u64) {
        let all = Self {
            successful: calls,
            failed: 0,
        };
        assert_eq!(self, all);
    }
}
