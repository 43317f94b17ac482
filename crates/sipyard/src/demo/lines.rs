//! Prints the demo as one line a second if standard output is not a terminal.

use std::{
    io::{self, Write},
    time::Duration,
};

use report::figures::{count, ms_or_dash};

use super::{
    scene::{Act, Scene},
    schedule::POLICIES,
};

/// How many lines to print before the header repeats.
const HEADER_EVERY: u64 = 20;

/// The state of the output.
#[derive(Debug, Default)]
pub(super) struct Lines {
    printed: u64,
}

impl Lines {
    /// Prints the scene if the last print was at least a second ago.
    pub(super) fn show(&mut self, scene: &Scene) -> io::Result<()> {
        let seconds = scene.elapsed.as_secs();
        if seconds <= self.printed {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        if self.printed.is_multiple_of(HEADER_EVERY) {
            writeln!(out, "{}", header(scene.servers.len()))?;
        }
        self.printed = seconds;
        writeln!(out, "{}", line(scene))?;
        out.flush()
    }
}

fn header(servers: usize) -> String {
    format!(
        "\n   time  policy       calls/s    open  failed  response ms  work left at each server{:>1$}",
        "stalled",
        (7 * servers).saturating_sub(17)
    )
}

fn line(scene: &Scene) -> String {
    let policy = match scene.act {
        Act::Calling { policy, .. } => POLICIES[policy].name(),
        Act::Ending => "(ending)",
    };
    let response: Option<Duration> = scene.moments.last().and_then(|moment| moment.response);
    let mut line = format!(
        "{:>6}s  {policy:<12} {:>7.0} {:>7} {:>7} {:>12} ",
        scene.elapsed.as_secs(),
        scene.calls_per_s,
        count(scene.open as u64),
        count(scene.totals().2),
        ms_or_dash(response),
    );
    for server in &scene.servers {
        line += &format!(" {:>6.1}", server.work);
    }
    let stalled = scene.servers.iter().filter(|server| server.is_stalled);
    let stalled: Vec<String> = stalled
        .map(|server| server.address.port().to_string())
        .collect();
    format!("{line}  {}", stalled.join(" "))
        .trim_end()
        .to_owned()
}
