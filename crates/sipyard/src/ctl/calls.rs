//! Recorded calls: a list, one call, and a trace that goes on.

use std::{
    collections::HashMap,
    fs,
    io::{self, Write as _},
    path::PathBuf,
    thread,
    time::Duration,
};

use clap::Args;

use super::{
    Ctl,
    node::{Failure, epoch, escape, read},
    table,
};
use crate::calls::{Call, Calls, Row};

/// How often a trace looks for more.
const TRACE_TICK: Duration = Duration::from_millis(300);
/// The most calls that a trace follows at a time.
const TRACED_MAX: usize = 50;

/// Which calls to list.
#[derive(Args)]
pub(super) struct List {
    /// Words that each stand in the Call-ID, a user, a number, an address, the method or the status
    words: Vec<String>,
    /// Only calls in these states: lost, refused, ringing, trying, cancelled, talking, done
    #[arg(long, value_name = "STATE,...")]
    state: Option<String>,
    /// The newest first; default: lost, refused and ringing calls first
    #[arg(long)]
    newest: bool,
    /// Only calls with a message in the last so many seconds
    #[arg(long, value_name = "SECONDS")]
    last: Option<u64>,
    /// At most so many
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    limit: usize,
}

/// Which call to show.
#[derive(Args)]
pub(super) struct Show {
    /// The Call-ID of the call
    call_id: String,
    /// Show the ladder only, without the messages below it
    #[arg(long)]
    ladder: bool,
    /// Write a capture for Wireshark or sngrep; of TLS connections, too
    #[arg(long, value_name = "FILE")]
    pcapng: Option<PathBuf>,
}

/// What to follow.
#[derive(Args)]
pub(super) struct Trace {
    /// A Call-ID, or a user, number or address of calls
    word: String,
    /// Stop after so many seconds; default: on Ctrl-C
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

impl List {
    pub(super) fn path(&self) -> String {
        let words = escape(&self.words.join(" "));
        let order = if self.newest { "newest" } else { "trouble" };
        let mut path = format!("calls?search={words}&order={order}&limit={}", self.limit);
        if let Some(state) = &self.state {
            path += &format!("&state={}", escape(state));
        }
        if let Some(last) = self.last {
            path += &format!("&since={:.3}", epoch() - last as f64);
        }
        path
    }
}

impl Show {
    pub(super) fn ask(&self, ctl: &Ctl) -> Result<String, Failure> {
        let path = format!("call?call_id={}", escape(&self.call_id));
        if let Some(file) = &self.pcapng {
            let bytes = ctl
                .node
                .call_bytes("GET", &format!("{path}&format=pcapng"), b"")?;
            let written = fs::write(file, bytes);
            let problem = |error| Failure::Refused(vec![format!("{}: {error}", file.display())]);
            written.map_err(problem)?;
            return Ok(format!("wrote {}\n", file.display()));
        }
        if ctl.json {
            return ctl.call("GET", &path, b"").map(|json| json + "\n");
        }
        let text = ctl.call("GET", &format!("{path}&format=text"), b"")?;
        let ladder = text.split("\n\n--- ").next().unwrap_or_default();
        Ok(if self.ladder {
            format!("{ladder}\n")
        } else {
            text
        })
    }
}

impl Trace {
    /// Prints what happens in the calls until the time is over.
    pub(super) fn run(&self, ctl: &Ctl) -> Result<String, Failure> {
        let end = self.seconds.map(|seconds| epoch() + seconds as f64);
        let since = epoch() - 1.0;
        let mut shown: HashMap<String, usize> = HashMap::new();
        loop {
            let word = escape(&self.word);
            let path =
                format!("calls?search={word}&order=newest&limit={TRACED_MAX}&since={since:.3}");
            let list: Calls = read(&ctl.call("GET", &path, b"")?)?;
            if !list.is_recording {
                return Err(Failure::Refused(vec![
                    "the node records no calls: calls.record is false in its configuration".into(),
                ]));
            }
            for row in list.calls.iter().rev() {
                follow(ctl, row, &mut shown)?;
            }
            if end.is_some_and(|end| epoch() >= end) {
                return Ok(String::new());
            }
            wait();
        }
    }
}

/// Prints what is new of one call.
fn follow(ctl: &Ctl, row: &Row, shown: &mut HashMap<String, usize>) -> Result<(), Failure> {
    let path = format!("call?call_id={}", escape(&row.call_id));
    // It may have been forgotten in the meantime.
    let Ok(json) = ctl.call("GET", &path, b"") else {
        return Ok(());
    };
    let call: Call = read(&json)?;
    let already = shown.entry(row.call_id.clone()).or_default();
    let skip = already.saturating_sub(call.left_out);
    let mut out = io::stdout().lock();
    for rung in call.rungs.iter().skip(skip) {
        let line = table::rung(&call, rung);
        // A reader that has gone away wants no more.
        let _ = writeln!(out, "{} {line}", table::printable(&row.call_id));
    }
    *already = call.left_out + call.rungs.len();
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a trace looks again after a while"
)]
fn wait() {
    thread::sleep(TRACE_TICK);
}
