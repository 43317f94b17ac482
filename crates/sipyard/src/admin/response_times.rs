//! The servers' response times for /metrics: a histogram whose buckets have exemplars, which lead from a slow bucket to a
//! call. The library that encodes all else takes exemplars from histograms of its own alone.

use std::{
    fmt::{self, Write},
    time::Duration,
};

use node::{
    Member, Snapshot,
    histogram::{BUCKETS_US, Exemplar, Histogram},
    stats::MethodLabel,
};
use socket::wall;

use crate::{calls::Recording, serve::Control, view::members};

const NAME: &str = "sipyard_response_seconds";

/// Writes the times of all servers as OpenMetrics.
pub(super) fn write(text: &mut String, control: &Control) -> fmt::Result {
    let snapshot = control.shared().snapshot();
    let about = About {
        snapshot: &snapshot,
        zero: wall().saturating_sub(control.now()),
        recording: control.calls(),
    };
    writeln!(
        text,
        "# HELP {NAME} Time from a request to its first response."
    )?;
    writeln!(text, "# TYPE {NAME} histogram")?;
    for member in members(&snapshot) {
        for (method, name) in MethodLabel::ALL {
            let labels = labels(member, name);
            let times = member.responses(method);
            // Of a thousand servers, eight methods each would be 16 MB.
            if method == MethodLabel::Invite || !times.is_empty() {
                about.write(text, &labels, times)?;
            }
        }
    }
    Ok(())
}

fn labels(member: &Member, method: &str) -> String {
    let pool = member.pool.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "pool=\"{pool}\",server=\"{}\",method=\"{method}\"",
        member.address
    )
}

/// What exemplars tell besides a Call-ID.
struct About<'a> {
    snapshot: &'a Snapshot,
    /// The wall time of the node's zero.
    zero: Duration,
    recording: &'a Recording,
}

impl About<'_> {
    fn write(&self, text: &mut String, labels: &str, times: &Histogram) -> fmt::Result {
        let (counts, sum_us) = times.read();
        let sum_s = sum_us as f64 / 1e6;
        writeln!(text, "{NAME}_sum{{{labels}}} {sum_s:?}")?;
        writeln!(
            text,
            "{NAME}_count{{{labels}}} {}",
            counts.iter().sum::<u64>()
        )?;
        let bounds = BUCKETS_US.iter().map(|&us| us as f64 / 1e6);
        let bounds = bounds.map(|bound| format!("{bound:?}"));
        let bounds = bounds.chain(["+Inf".to_owned()]);
        let mut count = 0;
        for ((bound, more), exemplar) in bounds.zip(counts).zip(times.exemplars()) {
            count += more;
            write!(text, "{NAME}_bucket{{le=\"{bound}\",{labels}}} {count}")?;
            if let Some(exemplar) = exemplar {
                self.write_exemplar(text, &exemplar)?;
            }
            text.push('\n');
        }
        Ok(())
    }

    fn write_exemplar(&self, text: &mut String, exemplar: &Exemplar) -> fmt::Result {
        let call_id = exemplar.call_id();
        write!(text, " # {{call_id=\"{call_id}\"")?;
        if let Some(trace) = self.recording.trace_of(self.snapshot, call_id) {
            write!(text, ",trace_id=\"{trace:032x}\"")?;
        }
        let (time, at) = (exemplar.time.as_secs_f64(), self.zero + exemplar.at);
        write!(text, "}} {time:?} {:.3}", at.as_secs_f64())
    }
}
