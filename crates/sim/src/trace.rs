//! Writes events as lines in fixed columns.

use std::{fmt::Write, time::Duration};

use node::tap::Why;
use sip::{Message, StartLine};

use crate::{Event, HEADERS_MAX, PartyId, Watch, What};

/// The meaning of the columns and marks of a [`Trace`].
pub const LEGEND: &str = "\
# time, s: since the start   event: came      arrived at whoever listens there
#                                   refused   arrived where nobody listens; the sender is told
#                                   copied    sent, and will come twice
#                                   lost, cut, full   sent, and the network, a cut or a full queue took it
#                                   overflow  arrived at a node whose queue was full
#                                   crashed, restarted   a party, with all its memory
#                                   because   why a node sends what comes next, or nothing
# message: method or status, CSeq, Call-ID
#    time, s  event      from        to          message
";

/// Writes each event as a line, except [`What::Sent`], because the arrival shows it again.
#[derive(Debug)]
pub struct Trace {
    names: Vec<String>,
    text: String,
    lines_left: usize,
}

impl Trace {
    /// A trace of the first `lines_max` events among parties of these names, as
    /// [`World::names`](crate::World::names) lists them.
    #[must_use]
    pub fn new(names: Vec<String>, lines_max: usize) -> Self {
        Self {
            names,
            text: LEGEND.to_owned(),
            lines_left: lines_max,
        }
    }

    /// The legend and the lines so far.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it accepts no more lines.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.lines_left == 0
    }

    fn name(&self, party: PartyId) -> &str {
        &self.names[party.index()]
    }
}

impl Trace {
    fn write(&mut self, line: &str) {
        self.lines_left -= 1;
        let _ = writeln!(self.text, "{}", line.trim_end());
    }
}

impl Watch for Trace {
    fn see(&mut self, event: &Event<'_>) {
        if event.what == What::Sent || self.lines_left == 0 {
            return;
        }
        let line = format!(
            "{:12.6}  {:<9}  {:<10}  {:<10}  {}",
            event.at.as_secs_f64(),
            word(event.what),
            self.name(event.sender),
            event.receiver.map_or("nobody", |party| self.name(party)),
            Summary(event.bytes),
        );
        self.write(&line);
    }

    fn asks_why(&self) -> bool {
        true
    }

    fn explain(&mut self, at: Duration, node: PartyId, why: Why) {
        if self.lines_left > 0 {
            let (at, node) = (at.as_secs_f64(), self.name(node));
            let line = format!("{at:12.6}  because    {node:<10}  {}", why.label());
            self.write(&line);
        }
    }
}

fn word(what: What) -> &'static str {
    match what {
        What::Sent => "sent",
        What::Copied => "copied",
        What::Lost => "lost",
        What::Cut => "cut",
        What::Full => "full",
        What::Arrived => "came",
        What::Refused => "refused",
        What::Crashed => "crashed",
        What::Restarted => "restarted",
        What::Overflowed => "overflow",
    }
}

/// A datagram in a few words.
struct Summary<'a>(&'a [u8]);

impl std::fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ok(message) = Message::parse(self.0, HEADERS_MAX) else {
            return match self.0.len() {
                0 => Ok(()),
                bytes => write!(f, "{bytes} bytes that are not SIP"),
            };
        };
        let what = match message.start_line() {
            StartLine::Request { method, .. } => text(method.as_bytes()),
            StartLine::Response { status, .. } => status.to_string(),
        };
        write!(f, "{what:<8}")?;
        if let Ok(cseq) = message.cseq() {
            let method = text(cseq.method.as_bytes());
            write!(f, "  {} {method:<8}", cseq.number)?;
        }
        if let Ok(call_id) = message.call_id() {
            write!(f, "  {}", text(call_id))?;
        }
        Ok(())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
